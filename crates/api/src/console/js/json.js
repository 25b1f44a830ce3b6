// JSON whose integers are exact: those beyond 2^53 are read as BigInt, and written as digits. Control characters
// cannot be part of a name, so a string that starts with U+0000 stands for such an integer.

/** @param {string} text */
export function parse(text) {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}/g, (token) =>
    token[0] === '"' || Number.isSafeInteger(Number(token)) ? token : `"\\u0000${token}"`);
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value[0] === "\0" ? BigInt(value.slice(1)) : value);
}

/** @param {unknown} value */
export function stringify(value) {
  const text = JSON.stringify(value, (_, member) => (typeof member === "bigint" ? `\0${member}` : member));
  return text.replace(/"\\u0000(-?\d+)"/g, "$1");
}
