// Money, times, counts and ids as text. Money is counted in nano-dollars, never in floats.

const nanos_per_dollar = 1_000_000_000n;

/** "0.00075" as 750000n. */
export function nanos(text: string): bigint {
  const [whole = "0", part = ""] = text.replace("-", "").split(".");
  const value = BigInt(whole) * nanos_per_dollar + BigInt(part.padEnd(9, "0").slice(0, 9));
  return text.startsWith("-") ? -value : value;
}

/** Nano-dollars exactly, with at least two decimals. */
export function exact(value: bigint): string {
  const abs = value < 0n ? -value : value;
  const part = (abs % nanos_per_dollar).toString().padStart(9, "0").replace(/0{1,7}$/, "");
  return `${value < 0n ? "-" : ""}${abs / nanos_per_dollar}.${part}`;
}

function grouped(whole: bigint): string {
  return whole.toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Rounded dollars: $1,234.50, $0.0123, <$0.0001. */
export function rounded(value: bigint): string {
  const abs = value < 0n ? -value : value;
  const sign = value < 0n ? "-" : "";
  const decimals = abs === 0n || abs >= nanos_per_dollar / 10n ? 2 : 4;
  const unit = nanos_per_dollar / 10n ** BigInt(decimals);
  const units = (abs + unit / 2n) / unit;
  if (abs > 0n && units === 0n) return `${sign}<$0.0001`;
  const per_dollar = 10n ** BigInt(decimals);
  return `${sign}$${grouped(units / per_dollar)}.${(units % per_dollar).toString().padStart(decimals, "0")}`;
}

/** An amount of a budget: money, or a number of tokens, calls or runs. */
export function amount(text: string, metric: string): string {
  return metric === "usd" ? rounded(nanos(text)) : `${count(Number(text))} ${metric}`;
}

/** An exact amount, for the confirmation of a change. */
export function exact_amount(value: bigint, metric: string): string {
  return metric === "usd" ? `$${exact(value)}` : `${value / nanos_per_dollar} ${metric}`;
}

/** Part of a whole in percent, computed in integers. */
export function percent(part: bigint, whole: bigint): number {
  return whole <= 0n ? (part > 0n ? 100 : 0) : Number((part * 10_000n) / whole) / 100;
}

/** An amount of any metric in nano-units. */
export function units(text: string): bigint {
  return nanos(text);
}

/** Dollars as a float, only for positions in a chart. */
export function height(value: bigint): number {
  return Number(value) / 1e9;
}

export function count(value: number): string {
  if (value < 10_000) return value.toLocaleString("en");
  const [size, unit] = value < 1e6 ? [1e3, "k"] : value < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return `${(value / size).toFixed(value / size < 100 ? 1 : 0)}${unit}`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

export function length(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3_600) return `${Math.floor(s / 60)}m ${String(Math.floor(s % 60)).padStart(2, "0")}s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)}h ${String(Math.floor((s % 3_600) / 60)).padStart(2, "0")}m`;
  return `${Math.floor(s / 86_400)}d ${Math.floor((s % 86_400) / 3_600)}h`;
}

export function ago(at: number, now: number): string {
  const ms = now - at;
  if (Math.abs(ms) < 5_000) return "now";
  const coarse = (abs: number) => {
    const s = abs / 1000;
    if (s < 60) return `${Math.floor(s)} s`;
    if (s < 3_600) return `${Math.floor(s / 60)} min`;
    if (s < 86_400) return `${Math.floor(s / 3_600)} h`;
    return `${Math.floor(s / 86_400)} d`;
  };
  return ms < 0 ? `in ${coarse(-ms)}` : `${coarse(ms)} ago`;
}

/** "Thursday 14:00", or with the date if it is more than six days away, and the year if that differs. */
export function moment(at: Date, now = new Date()): string {
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (at.toDateString() === now.toDateString()) return `today ${time}`;
  const near = Math.abs(at.getTime() - now.getTime()) < 6 * 86_400_000;
  const day = near
    ? at.toLocaleDateString("en-GB", { weekday: "long" })
    : at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: at.getFullYear() === now.getFullYear() ? undefined : "numeric" });
  return `${day} ${time}`;
}

export function absolute(at: string): string {
  return `${new Date(at).toLocaleString("en-GB")}  (${at})`;
}

/** Shortened id: ids of one time differ at their end. */
export function short_id(id: string): string {
  const [kind, rest = ""] = id.split("_", 2);
  return rest.length > 8 ? `${kind}_…${rest.slice(-6)}` : id;
}

/** "timed_out" as "timed out". */
export function spoken(word: string): string {
  return word.replaceAll("_", " ");
}

/** A word quoted for a shell. Names come from clients and from the address. */
export function quoted(word: string): string {
  return /^[\w.,:/@=+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command to copy, with each word quoted for a shell. */
export function shell_command(...words: string[]): string {
  return words.map(quoted).join(" ");
}
