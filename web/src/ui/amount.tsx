// Amount of a budget: money, or a number of tokens, calls or runs.
import type { Budget } from "../lib/types";
import { count, units } from "../lib/words";
import { Money } from "./words";

const unit = 1_000_000_000n;

export function Amount({ value, metric, bare }: { value: string | bigint; metric: Budget["metric"]; bare?: boolean }) {
  const exactly = typeof value === "bigint" ? value : units(value);
  if (metric === "usd") return <Money value={exactly} />;
  const whole = exactly / unit;
  return <span class="number" title={`${whole} ${metric}`}>{count(Number(whole))}{bare ? "" : ` ${metric}`}</span>;
}
