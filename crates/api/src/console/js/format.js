// Numbers, chips, and how long ago something was, in words.

const numbers = new Intl.NumberFormat("en");
export const count = (value = 0) => numbers.format(value);

/** "1 animal", "1,284 animals". */
export const plural = (value = 0, one = "", many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** "Female". */
export const capitalized = (text = "") => text && text[0].toUpperCase() + text.slice(1);

/** "985 112 004 567 890". */
export const groupDigits = (chip = "") => chip.match(/.{1,3}/g)?.join(" ") ?? "";

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = /** @type {const} */ ([["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]]);
/** "2 minutes ago". @param {string | number} time */
export function ago(time) {
  const seconds = (Date.now() - new Date(time).getTime()) / 1000;
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? UNITS[3];
  return seconds < 5 ? "just now" : relative.format(-Math.floor(seconds / length), unit);
}
