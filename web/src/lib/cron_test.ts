import { expect, test } from "vitest";
import { cron_words, every_words, seconds_words } from "./cron";

test.each([
  ["0 9 * * mon-fri", "Mon–Fri at 09:00"],
  ["0 9,17 * * *", "daily at 09:00, 17:00"],
  ["30 6 * * 0,6", "Sun, Sat at 06:30"],
  ["30 6 * * 7", "Sun at 06:30"],
  ["* * * * *", "every minute"],
  ["*/15 * * * *", "every 15 min"],
  ["*/15 9-17 * * 1-5", "every 15 min, 09:00–17:59, Mon–Fri"],
  ["0 * * * *", "every hour"],
  ["5 * * * *", "every hour at :05"],
  ["0 */6 * * *", "every 6 h at :00"],
  ["30 9-17 * * 1-5", "every hour, 09:30–17:30, Mon–Fri"],
  ["0 3 1 * *", "on day 1 of the month at 03:00"],
  ["0 3 1 jan,jul *", "on day 1 in Jan, Jul at 03:00"],
  ["0 3 * 6 *", "every day in Jun at 03:00"],
  ["0 3 * 6 mon", "Mon in Jun at 03:00"],
  ["@hourly", "every hour"],
  ["@Daily", "daily at 00:00"],
  ["@weekly", "Sun at 00:00"],
  ["@monthly", "on day 1 of the month at 00:00"],
  ["@yearly", "on day 1 in Jan at 00:00"],
])("%s is %s", (expression, words) => {
  expect(cron_words(expression)).toBe(words);
});

// These have no short words, or would get wrong ones.
test.each([
  "*/7 * * * *", // The last step of an hour is shorter.
  "0 */5 * * *",
  "0 0 13 * 5", // The 13th or a Friday: cron's "or" has no short words.
  "0 1,2,3,4,5 * * *",
  "0 0 1,15 * *",
  "0 0 * * 8",
  "0 0 * 13 *",
  "0 0 * * mon-tue-wed",
  "0 0 * *",
  "0 0 * * * *",
  "nonsense",
  "",
])("%s stays an expression", (expression) => {
  expect(cron_words(expression)).toBeUndefined();
});

test("an interval is said in the largest unit that is exact", () => {
  expect([60, 3_600, 86_400].map(every_words)).toEqual(["every minute", "every hour", "every day"]);
  expect([900, 7_200, 172_800, 90].map(every_words)).toEqual(["every 15 min", "every 2 h", "every 2 d", "every 90 s"]);
  expect([0, 1, 60, 3_600].map(seconds_words)).toEqual(["0 s", "1 s", "1 min", "1 h"]);
});
