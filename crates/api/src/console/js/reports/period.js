// Periods of days, such as "this month". A day is written as in the API: "2026-11-18".

import { localDay } from "../days.js";

/** @import { Days } from "../../types" */

export const PERIODS = {
  today: "Today",
  week: "This week",
  month: "This month",
  "last-month": "Last month",
  year: "This year",
  "last-year": "Last year",
  dates: "Own dates",
};

const DAY = 86_400_000;
const timeOf = (day = "") => Date.parse(`${day}T00:00Z`);
const dayAt = (time = 0) => new Date(time).toISOString().slice(0, 10);
/** The day with these numbers; the 0th day of a month is the last one of the month before. */
const dayOf = (year = 0, month = 1, day = 1) => dayAt(Date.UTC(year, month - 1, day));

/** Returns true if a text is a day of the calendar. */
export const isDay = (text = "") => /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(timeOf(text)) && dayAt(timeOf(text)) === text;

const addDays = (day = "", days = 0) => dayAt(timeOf(day) + days * DAY);

/** The number of days, the first and the last one included. @param {Days} days */
export const lengthOf = ({ from, to }) => (timeOf(to) - timeOf(from)) / DAY + 1;

export const timeZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";

/** Weeks start on Monday. */
const mondayOf = (day = "") => addDays(day, -((new Date(timeOf(day)).getUTCDay() + 6) % 7));

/** The days of a period that is not the person's own. @returns {Days} */
export function daysOf(period = "", today = localDay()) {
  const [year, month] = today.split("-").map(Number);
  if (period === "today") return { from: today, to: today };
  if (period === "week") return { from: mondayOf(today), to: addDays(mondayOf(today), 6) };
  if (period === "last-month") return { from: dayOf(year, month - 1), to: dayOf(year, month, 0) };
  if (period === "year") return { from: dayOf(year), to: dayOf(year, 12, 31) };
  if (period === "last-year") return { from: dayOf(year - 1), to: dayOf(year - 1, 12, 31) };
  return { from: dayOf(year, month), to: dayOf(year, month + 1, 0) };
}

/** The first days of the days, weeks or months, as far as they lie in the period. @param {Days} days @returns {string[]} */
export function startsOf({ from, to }, by = "day") {
  const starts = [];
  for (let day = from; day <= to;) {
    starts.push(day);
    const [year, month] = day.split("-").map(Number);
    day = by === "day" ? addDays(day, 1) : by === "week" ? addDays(mondayOf(day), 7) : dayOf(year, month + 1);
  }
  return starts;
}

/** @param {Intl.DateTimeFormatOptions} options */
const formatOf = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options });
const long = formatOf({ dateStyle: "long" });
const weekday = formatOf({ weekday: "long", day: "numeric", month: "long", year: "numeric" });
const shortDay = formatOf({ day: "numeric", month: "short" });
const shortWeekday = formatOf({ weekday: "short", day: "numeric" });
const month = formatOf({ month: "long", year: "numeric" });
const shortMonth = formatOf({ month: "short" });
const shortMonthOfYear = formatOf({ month: "short", year: "numeric" });

/** "2026", "November 2026", "18 November 2026", "16–22 November 2026". @param {Days} days */
export function periodName({ from, to }) {
  const isWhole = from.endsWith("-01") && addDays(to, 1).endsWith("-01");
  if (isWhole && from.endsWith("-01-01") && to === `${from.slice(0, 4)}-12-31`) return from.slice(0, 4);
  if (isWhole && from.slice(0, 7) === to.slice(0, 7)) return month.format(timeOf(from));
  return long.formatRange(timeOf(from), timeOf(to));
}

/** The name of a day, or of the part of a week or month that lies in the period. @param {Days} days */
export function groupName(days, start = "", by = "day") {
  if (by === "day") return weekday.format(timeOf(start));
  const last = by === "week" ? addDays(mondayOf(start), 6) : daysOf("month", start).to;
  return periodName({ from: start, to: last < days.to ? last : days.to });
}

/** Short names below a chart: "Mon 16", "16 Nov", "Nov", "Nov 2026". @param {string[]} starts */
export function labelsOf(starts, by = "day") {
  const isOneYear = starts[0].slice(0, 4) === starts[starts.length - 1].slice(0, 4);
  const format = by === "month" ? (isOneYear ? shortMonth : shortMonthOfYear) : by === "day" && starts.length <= 7 ? shortWeekday : shortDay;
  return starts.map((start) => format.format(timeOf(start)));
}
