// Event types after which data is read again. Each screen lists further ones itself.

export const of_runs = ["run_changed", "run_ended", "run_stop_requested", "places_restated", "charged"];
export const of_money = ["charged", "held", "hold_released", "budget_changed", "budget_deleted", "budget_froze", "budget_thawed",
  "budget_exhausted"];
export const of_status = ["run_changed", "run_ended", "held", "hold_released", "charged", "session_created", "agent_changed"];
export const of_incidents = ["budget_exhausted", "budget_froze", "budget_thawed", "budget_warned", "budget_changed", "budget_deleted",
  "agent_paused", "agent_resumed", "run_changed", "run_ended", "setting_changed", "charged", "hold_released"];
