// Times and durations in words, and what is repeated.

import { el } from "./dom.js";
import { plural } from "./format.js";

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const dated = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "medium" });
/** The time of day; before today, with the date; in another year, the date with the year. */
export function when(time = "") {
  const date = new Date(time);
  const now = new Date();
  const format = date.toDateString() === now.toDateString() ? clock : date.getFullYear() === now.getFullYear() ? day : dated;
  return format.format(date);
}
export const clockOf = (time = "") => clock.format(new Date(time));
export const exactly = (time = "") => full.format(new Date(time));
export const timeOf = (time = "", text = when(time)) => el("time", { datetime: time, title: exactly(time) }, text);

const minute = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short" });
/** "2 August 2026 at 14:05". */
export const minuteOf = (time = "") => minute.format(new Date(time));

const date = new Intl.DateTimeFormat("en-GB", { dateStyle: "long" });
/** "2 August 2026". */
export const dateOf = (day = "") => date.format(new Date(`${day}T00:00`));

/** The age at a date of birth, as people say it: "5 days", "7 weeks", "3 months", "2 years". */
export function ageOf(birthDate = "", now = new Date()) {
  const [year, month, day] = birthDate.split("-").map(Number);
  const days = Math.round((Date.UTC(now.getFullYear(), now.getMonth(), now.getDate()) - Date.UTC(year, month - 1, day)) / 86_400_000);
  const months = (now.getFullYear() - year) * 12 + now.getMonth() + 1 - month - (now.getDate() < day ? 1 : 0);
  if (days < 1) return "newborn";
  if (days < 14) return plural(days, "day");
  if (months < 2) return plural(Math.floor(days / 7), "week");
  return months < 24 ? plural(months, "month") : plural(Math.floor(months / 12), "year");
}

/** "18:42 left", "2:05:00 left", "3 days left", or "" without a time. */
export function left(until = "") {
  if (!until) return "";
  const seconds = Math.ceil((Date.parse(until) - Date.now()) / 1000);
  if (seconds <= 0) return "expired";
  if (seconds >= 172_800) return `${plural(Math.floor(seconds / 86_400), "day")} left`;
  const text = new Date(seconds * 1000).toISOString().slice(11, 19);
  const hours = Math.floor(seconds / 3600);
  return `${hours ? hours + text.slice(2) : text.slice(3).replace(/^0/, "")} left`;
}

/** @param {() => void} action @param {AbortSignal} signal */
export function every(seconds = 1, action, signal) {
  const timer = setInterval(action, seconds * 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
}
