// Numbers of a spreadsheet as text. A date is a number of days, which only the format of its cell tells from others.

/** The formats without a code in the file that show dates, and times of day. */
const DATES = [[14, 17], [22, 22], [27, 31], [36, 36], [50, 58]];
const TIMES = [[18, 21], [32, 35], [45, 47]];

/** The kind of number that a format shows. @returns {"date" | "time" | ""} */
export function formatKind(id = 0, code = "") {
  const isIn = (/** @type {number[][]} */ ranges) => ranges.some(([first, last]) => id >= first && id <= last);
  if (!code) return isIn(DATES) ? "date" : isIn(TIMES) ? "time" : "";
  const [positive] = code.replace(/"[^"]*"|\\.|_.|\*./g, "").split(";");
  const letters = positive.replace(/\[(?!(?:h+|m+|s+)\])[^\]]*\]/gi, "").replace(/general/gi, "");
  return /[yd]/i.test(letters) ? "date" : /[hs]/i.test(letters) ? "time" : /m/i.test(letters) ? "date" : "";
}

/** The date of a number of days. The day 60 of the system of 1900 is 29 February, which was none. */
export function dateText(days = 0, is1904 = false) {
  if (Math.floor(days) === 60 && !is1904) return "1900-02-29";
  const epoch = is1904 ? Date.UTC(1904, 0, 1) : Date.UTC(1899, 11, days < 60 ? 31 : 30);
  const date = new Date(epoch + Math.floor(days) * 86_400_000);
  const isDate = days >= (is1904 ? 0 : 1) && date.getUTCFullYear() <= 9999;
  return isDate ? date.toISOString().slice(0, 10) : numberText(String(days));
}

/** The time of day of a number of days. */
export function timeText(days = 0) {
  const seconds = Math.round((days - Math.floor(days)) * 86_400) % 86_400;
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

/** A number as a spreadsheet shows it, with 15 significant digits: 19.99, but not 19.989999999999998. */
export function numberText(text = "") {
  const value = Number(text);
  if (!text.trim() || !Number.isFinite(value)) return text;
  const rounded = Number(value.toPrecision(15));
  return Math.abs(rounded) >= 1e21 ? String(BigInt(rounded)) : expand(String(rounded));
}

/** 1e-7 in full. */
function expand(text = "") {
  const [, sign, digits, fraction = "", exponent] = text.match(/^(-?)(\d)(?:\.(\d+))?e-(\d+)$/) ?? [];
  return exponent ? `${sign}0.${"0".repeat(Number(exponent) - 1)}${digits}${fraction}` : text;
}
