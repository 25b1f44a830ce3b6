// The number of a microchip.

/** The digits of a text that is the number of a microchip, perhaps grouped with blanks or hyphens; or "". */
export function chipOf(text = "") {
  const digits = text.replace(/[\s-]/g, "");
  return /^(?:\d{9}|\d{10}|\d{15})$/.test(digits) ? digits : "";
}
