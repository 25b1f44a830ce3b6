// Numbers, times and durations in words.

const numbers = new Intl.NumberFormat("en");
/** @param {number} value */
export const count = (value) => numbers.format(value);

/**
 * "1 animal", "1,284 animals".
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
/**
 * "2 minutes ago".
 * @param {string | number} time
 */
export function ago(time) {
  const seconds = (Date.now() - new Date(time).getTime()) / 1000;
  if (seconds < 5) return "just now";
  if (seconds < 60) return relative.format(-Math.floor(seconds), "second");
  if (seconds < 3600) return relative.format(-Math.floor(seconds / 60), "minute");
  if (seconds < 86_400) return relative.format(-Math.floor(seconds / 3600), "hour");
  return relative.format(-Math.floor(seconds / 86_400), "day");
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "medium" });
/**
 * The time of day; before today, with the date.
 * @param {string} time
 */
export function when(time) {
  const date = new Date(time);
  return (date.toDateString() === new Date().toDateString() ? clock : day).format(date);
}
/** @param {string} time */
export const exactly = (time) => full.format(new Date(time));

/**
 * "18:42", "2:05:00" or "3 days".
 * @param {number} milliseconds
 */
export function left(milliseconds) {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  if (seconds >= 172_800) return plural(Math.floor(seconds / 86_400), "day");
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}
