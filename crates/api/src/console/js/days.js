// Days in words.

import { when } from "./times.js";

export const DAY = 86_400_000;

const date = new Intl.DateTimeFormat("en-GB", { dateStyle: "long" });

/** "2 August 2026". */
export const dayOf = (time = "") => date.format(new Date(time));

/** The day of a time in the time zone of the browser, as a date input has it. @param {Date | string | number} time */
export const localDay = (time = new Date()) => new Date(time).toLocaleDateString("sv");

const weekday = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long" });

/** "Today", "Yesterday", "Monday 3 August", "2 August 2025". */
export function dayName(time = "") {
  const at = new Date(time);
  const now = new Date();
  const days = Math.round((new Date(now).setHours(12, 0, 0, 0) - new Date(at).setHours(12, 0, 0, 0)) / DAY);
  if (days < 2) return days < 1 ? "Today" : "Yesterday";
  return at.getFullYear() === now.getFullYear() ? weekday.format(at) : dayOf(time);
}

/** "today 14:05", "3 Aug, 14:05", and the day alone of another year. */
export function onDay(time = "") {
  const at = new Date(time);
  const now = new Date();
  if (at.getFullYear() !== now.getFullYear()) return dayOf(time);
  return at.toDateString() === now.toDateString() ? `today ${when(time)}` : when(time);
}
