// Amounts as people and spreadsheets write them.

/** Marks between groups of three digits that are never decimal marks: blanks and apostrophes. */
const SEPARATORS = " \u00a0\u202f\u2009'’";
/** @typedef {{ whole: string, fraction: string, mark: string, isAmbiguous: boolean }} Amount with the decimal mark, or what may be one */

/** The digits without the marks between groups of three, if that is what the marks do. */
function ungroup(text = "", mark = "") {
  const [first, ...groups] = text.split(mark);
  return /^[1-9]\d{0,2}$/.test(first) && groups.every((group) => /^\d{3}$/.test(group)) ? first + groups.join("") : null;
}

/** The parts of an amount. `isSheet`: the numbers of a workbook have a decimal point. @returns {Amount | null} */
export function parseNumber(text = "", isSheet = false) {
  /** @returns {Amount | null} */
  const clear = (/** @type {string | null} */ whole, fraction = "", mark = "") => (whole === null ? null : { whole, fraction, mark, isAmbiguous: false });
  const [, whole = "", mark = "", fraction = ""] = text.match(/^(.*)(\D)(\d*)$/s) ?? [];
  if (!mark) return clear(text);
  if (SEPARATORS.includes(mark)) return clear(ungroup(text, mark));
  if (mark !== "." && mark !== ",") return null;
  const [other] = whole.match(/\D/) ?? [];
  // Several of the same mark separate groups, so the other mark is the decimal one.
  if (other === mark) return clear(ungroup(text, mark), "", mark === "." ? "," : ".");
  if (other) return clear(ungroup(whole, other), fraction, mark);
  if (isSheet && mark === ".") return clear(whole, fraction);
  const isAmbiguous = fraction.length === 3 && ungroup(text, mark) !== null;
  return { whole, fraction, mark, isAmbiguous };
}
