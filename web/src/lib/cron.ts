// Cron expressions as short English. An expression without a short and exact text has none, because a wrong one would
// mislead.

const macros: Record<string, string> = {
  "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
};
const weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const months = ["", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** "0 9 * * mon-fri" as "Mon–Fri at 09:00"; undefined if there is no short text. */
export function cron_words(text: string): string | undefined {
  const fields = (macros[text.trim().toLowerCase()] ?? text.trim()).split(/\s+/);
  if (fields.length !== 5) return undefined;
  const [minute, hour, day, month, weekday] = fields as [string, string, string, string, string];
  const time = time_words(minute, hour);
  const on = day_words(day, month, weekday);
  if (time === undefined || on === undefined) return undefined;
  if (time.startsWith("at ")) return `${on || "daily"} ${time}`;
  return on ? `${time}, ${on}` : time;
}

/** 900 as "every 15 min". */
export function every_words(seconds: number): string {
  const ones: Record<number, string> = { 60: "minute", 3_600: "hour", 86_400: "day" };
  return `every ${ones[seconds] ?? seconds_words(seconds)}`;
}

/** 900 as "15 min": in the largest unit that is exact. */
export function seconds_words(seconds: number): string {
  for (const [size, unit] of [[86_400, "d"], [3_600, "h"], [60, "min"]] as const) {
    if (seconds > 0 && seconds % size === 0) return `${seconds / size} ${unit}`;
  }
  return `${seconds} s`;
}

const number = (text: string) => (/^\d{1,2}$/.test(text) ? Number(text) : undefined);
const two = (value: number) => String(value).padStart(2, "0");

/** Step of a field such as every fifteenth minute, if it divides the whole evenly. */
function even(field: string, whole: number): number | undefined {
  const step = field.startsWith("*/") ? number(field.slice(2)) : undefined;
  return step && whole % step === 0 ? step : undefined;
}

function time_words(minute: string, hour: string): string | undefined {
  const at = number(minute);
  const step = minute === "*" ? 1 : even(minute, 60);
  const hours = /^(\d{1,2})-(\d{1,2})$/.exec(hour);
  if (at !== undefined) {
    if (hour === "*") return at === 0 ? "every hour" : `every hour at :${two(at)}`;
    const each = even(hour, 24);
    if (each !== undefined) return `every ${each} h at :${two(at)}`;
    if (hours) return `every hour, ${two(Number(hours[1]))}:${two(at)}–${two(Number(hours[2]))}:${two(at)}`;
    const list = hour.split(",").map(number);
    if (list.length > 4 || list.includes(undefined)) return undefined;
    return `at ${list.map((each) => `${two(each!)}:${two(at)}`).join(", ")}`;
  }
  if (step === undefined) return undefined;
  const pace = step === 1 ? "every minute" : `every ${step} min`;
  if (hour === "*") return pace;
  return hours ? `${pace}, ${two(Number(hours[1]))}:00–${two(Number(hours[2]))}:59` : undefined;
}

function day_words(day: string, month: string, weekday: string): string | undefined {
  const in_months = month === "*" ? "" : named(month, months);
  if (in_months === undefined) return undefined;
  const of_month = in_months ? ` in ${in_months}` : "";
  if (day === "*" && weekday === "*") return of_month ? `every day${of_month}` : "";
  if (day === "*") {
    const on = named(weekday, weekdays);
    return on === undefined ? undefined : on + of_month;
  }
  if (weekday !== "*" || number(day) === undefined) return undefined;
  return `on day ${Number(day)}${of_month || " of the month"}`;
}

/** "mon-fri,sun" as "Mon–Fri, Sun". */
function named(field: string, names: string[]): string | undefined {
  const one = (text: string) => {
    const known = names.findIndex((name) => name.toLowerCase() === text.toLowerCase());
    return text === "" ? undefined : names[known >= 0 ? known : number(text) ?? -1];
  };
  const parts = field.split(",").map((part) => part.split("-").map(one));
  if (parts.some((part) => part.length > 2 || part.some((name) => !name))) return undefined;
  return parts.map((part) => part.join("–")).join(", ");
}
