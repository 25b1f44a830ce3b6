// Times and durations in words, and what is repeated.

import { el } from "./dom.js";
import { plural } from "./format.js";

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "medium" });
/** The time of day; before today, with the date. */
export function when(time = "") {
  const date = new Date(time);
  return (date.toDateString() === new Date().toDateString() ? clock : day).format(date);
}
export const exactly = (time = "") => full.format(new Date(time));
export const timeOf = (time = "", text = when(time)) => el("time", { datetime: time, title: exactly(time) }, text);

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
