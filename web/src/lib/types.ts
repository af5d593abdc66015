// Responses of the API, as far as the dashboard uses them. Amounts are decimal text, instants ISO 8601 text.

export interface Page<T> {
  items: T[];
  next: string | null;
}

export interface Status {
  version: string;
  store: string;
  data_dir?: string;
  address: string;
  uptime_s: number;
  started_at: string;
  org: string;
  head_seq: number;
  agents: number;
  budgets: number;
  live_runs: number;
  queued_runs: number;
  open_holds: number;
  held: string;
  store_bytes?: number;
  engine?: { batches: number; commands: number; batch_max: number; failed_commits: number; reloads: number; queue_depth: number };
}

export type RunStatus = "queued" | "starting" | "running" | "paused" | "succeeded" | "failed" | "cancelled" | "timed_out" | "lost";

export interface ClaimTarget {
  kind: string;
  path: string;
  mode: string;
}

export interface Run {
  id: string;
  name: string;
  status: RunStatus;
  agent: string;
  workflow: string;
  provider: string;
  model: string;
  session: string | null;
  tags: Record<string, string>;
  node: string;
  workspace: string | null;
  isolated: boolean;
  places: ClaimTarget[];
  fence: number;
  priority: number;
  lease_s: number;
  lease_until: string | null;
  created_at: string;
  admitted_at: string | null;
  started_at: string | null;
  ended_at: string | null;
  queued_until: string | null;
  not_before: string | null;
  reason: string;
  stop_requested: string | null;
  schedule: string | null;
  hold: string | null;
  budget: string | null;
  spent: string;
  tokens: number;
  events: number;
  estimated: string;
  supervised: boolean;
  attempt: number;
  retry_of: string | null;
  exit_code: number | null;
  parent: string | null;
  spent_total: string | null;
  command?: string[] | null;
}

export interface RunStep {
  at: string;
  status: RunStatus;
  waits_for: string | null;
  reason: string | null;
}

export interface Budget {
  name: string;
  scope: Record<string, unknown>;
  metric: "usd" | "tokens" | "calls" | "runs";
  timezone: string;
  limit: string;
  hard: boolean;
  warn: number[];
  on_exhausted: string;
  created_at: string;
  frozen: string | null;
  settled: string;
  held: string;
  free: string;
  open_holds: number;
  exhausted: boolean;
  window: { kind: "day" | "week" | "month" | "total"; start: string | null; end: string | null }; // Null: unlimited.
}

export interface BudgetLine {
  budget: string;
  metric: Budget["metric"];
  limit: string;
  start: string | null;
  end: string | null;
  settled: string;
  held: string;
  points: { at: string; settled: string }[];
  rate_per_hour: string;
  used_up_at: string | null;
  projected: string | null;
}

export interface SpendMinutes {
  items: { at: string; cost: string }[];
  total: string;
  from: string;
  to: string;
}

export interface Incident {
  kind: string;
  level: "stop" | "warn" | "note";
  subject: string;
  title: string;
  detail: string;
  since: string | null;
  command: string;
  count: number;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_5m_tokens: number;
  cache_write_1h_tokens: number;
  reasoning_tokens: number;
}

export interface ModelCall {
  id: string;
  at: string;
  agent: string;
  provider: string;
  model: string;
  api_key: string;
  run: string | null;
  session: string | null;
  operation: string;
  upstream: string;
  status: number;
  refusal: string | null;
  attempts: number;
  hold: string | null;
  bound: string;
  cost: string;
  usage: Usage;
  price: string;
  estimated: boolean;
  unpriced: boolean;
  streamed: boolean;
  cached: boolean;
  first_byte_us: number | null;
  duration_us: number;
  detail: string;
}

export interface Key {
  id: string;
  scopes: string[];
  agent: string | null;
  run: string | null;
  budget: string | null;
  note: string;
  created_at: string | null;
  revoked_at: string | null;
}

export interface VerifyReport {
  ok: boolean;
  violations: number;
  orgs: number;
  cost_events: number;
  milliseconds: number;
  promises: { id: string; title: string; checked: number; checked_what: string; violations: number; examples: string[]; notes: string[] }[];
}

export interface Hold {
  id: string;
  status: string;
  agent: string;
  provider: string;
  model: string;
  run: string | null;
  session: string | null;
  amount: string;
  tokens: number;
  calls: number;
  dispatched: boolean;
  created_at: string;
  expires_at: string;
  closed_at: string | null;
  budgets: { budget: string; amount: string }[];
}

export interface Pause {
  by: string; // "operator", or "budget:" and the budget's name.
  reason: string;
  since: string;
  until: string | null;
}

export interface Agent {
  name: string;
  state: "active" | "paused" | "archived";
  max_concurrent_runs: number;
  command: string[];
  tags: Record<string, string>;
  provider: string;
  capture: "off" | "usage" | "full";
  workspace: string;
  mode: string;
  on_conflict: string;
  isolate: boolean;
  resources: string[];
  timeout_s: number;
  sandbox_level: string;
  writable: string[];
  readable: string[];
  allowed_hosts: string[];
  adapter: string;
  retry: { tries: number; backoff_s: number; backoff_max_s: number };
  env: Record<string, string | null>;
  pauses: Pause[];
  created_at: string;
  spent: string;
  tokens: number;
  events: number;
  last_event_at: string | null;
  live_runs: number;
  queued_runs: number;
}

export interface Cap {
  kind: "org" | "provider" | "node";
  name: string;
  max_live: number;
  live: number;
}

export interface Schedule {
  name: string;
  agent: string;
  every_s: number | null;
  cron: string | null;
  timezone: string;
  jitter_s: number;
  overlap: string;
  missed: string;
  missed_max: number;
  workspace: string | null;
  node: string;
  hold: string;
  enabled: boolean;
  next_at: string | null;
  last_fired_at: string | null;
  fired: number;
  skipped: number;
  coalesced: number;
}

export interface PastTick {
  schedule: string;
  at: string;
  tick: string;
  outcome: "fired" | "skipped" | "coalesced";
  run: string | null;
  run_status: RunStatus | null;
  late_ms: number | null;
  reason: string | null;
}

export interface Spend {
  items: { agent?: string; provider?: string; model?: string; day?: string; cost: string; calls: number; events: number }[];
  total: string;
}

export interface Upstream {
  name: string;
  dialect: string;
  url: string;
  simulated: boolean;
  enabled: boolean;
  key_found: boolean;
  state: "healthy" | "failing" | "cooling" | "idle";
  failures_in_a_row: number;
  cooling_until: string | null;
  last_error: string | null;
  calls: number;
  errors: number;
  calls_per_minute: number;
  error_percent: number;
  first_byte_ms_p50: number | null;
  first_byte_ms_p95: number | null;
  duration_ms_p50: number | null;
  duration_ms_p95: number | null;
  minutes: { at: string; calls: number; errors: number }[];
}

/** Dollars per million tokens and per call, as text. The server has defaults for missing ones. */
export type Price = Partial<Record<"input_per_mtok" | "output_per_mtok" | "cache_read_per_mtok" | "cache_write_5m_per_mtok"
  | "cache_write_1h_per_mtok" | "reasoning_per_mtok" | "per_call" | "version", string>> & {
  provider: string;
  model: string;
  tiers?: object[];
  variants?: object;
};

export interface UsedModel {
  provider: string;
  model: string;
  calls: number;
  cost: string;
  tokens: number;
  last_day: string;
  priced: boolean;
  price: Price | null;
  price_source: "catalog" | "set" | "none";
  price_version: string | null;
  price_from: string | null;
}

export interface UnpricedModel {
  provider: string;
  model: string;
  calls: number;
  refused: number;
  tokens: number;
  last_at: string;
}

// Sessions.

export interface Session {
  id: string;
  agent: string;
  title: string;
  metadata: Record<string, unknown>;
  created_at: string;
  parent: string | null;
  first_seq: number; // Earlier messages are shared with its ancestors.
  next_seq: number;
  messages: number;
  closed: boolean;
  input_tokens: number;
  output_tokens: number;
  spent: string;
  events: number;
}

export interface Message {
  seq: number;
  id: string;
  session: string;
  role: "user" | "assistant" | "system" | "tool";
  content: string;
  metadata: Record<string, unknown>;
  at: string;
  input_tokens: number;
  output_tokens: number;
  run: string | null;
}

export interface SessionTree {
  root: string;
  more: boolean;
  items: Pick<Session, "id" | "parent" | "agent" | "title" | "first_seq" | "next_seq" | "closed" | "created_at">[];
}

export interface RateLimit {
  name: string;
  match: { key: string; agent: string; model: string; provider: string };
  requests_per_minute: number | null;
  tokens_per_minute: number | null;
}

export interface GatewaySettings {
  unknown_model: string;
  assume_price: string;
  wait_s: number;
  cache_ttl_s: number;
  cache_keys: string[];
  otlp: { url: string };
  changed_at: string | null;
}

export interface Node {
  id: string;
  name: string;
  url: string;
  version: string;
  state: "alive" | "gone";
  started_at: string;
  seen_at: string;
  lease_until: string | null;
}

export interface Claim extends ClaimTarget {
  run: string;
  agent: string;
  status: RunStatus;
  since: string | null;
  host: string;
}

export interface Worktree {
  run: string;
  agent: string;
  status: RunStatus | null;
  node: string;
  repository: string;
  path: string;
  branch: string;
  base: string;
  state: "open" | "saved"; // saved: removed, its work is at the ref saved_as.
  saved_as: string | null;
  created_at: string;
  here: boolean;
}

export interface WorktreeReason {
  keeps: string;
  detail: string;
}

export interface WorktreeDetail extends Worktree {
  bytes: number | null;
  reasons: WorktreeReason[];
  removable: boolean | null;
}

export interface Collected {
  run: string;
  path: string;
  action: "would_remove" | "removed" | "kept" | "failed";
  reasons: WorktreeReason[];
  saved_as: string | null;
  detail: string;
}

export interface Finding {
  level: "ok" | "warn" | "fail";
  what: string;
  detail: string;
  do: string;
}

export interface Org {
  number: number;
  name: string;
  created_at: string;
}

/** Process settings of a supervised run. Only the names of its environment are known. */
export interface RunProcess {
  directory: string;
  env: string[];
  pass_env: string[];
  timeout_s: number;
  grace_s: number;
  nice: number;
  limits: Record<string, number>;
  sandbox_level: string;
  writable: string[];
  readable: string[];
  allowed_hosts: string[];
  adapter: string;
  setup: string;
  teardown: string;
  foreground: boolean;
}

export interface RunDetail extends Run {
  process: RunProcess | null;
  sandbox: string | null; // The level at which it was started; null before.
}

export interface CallDetail extends ModelCall {
  workflow: string;
  tags: Record<string, string>;
  held: { id: string; status: string; amount: string; dispatched: boolean; created_at: string; closed_at: string | null } | null;
  settled: {
    seq: number; at: string; cost: string; overage: string; usage: Usage; price: string; estimated: boolean; unpriced: boolean;
    corrected: boolean;
  } | null;
}
