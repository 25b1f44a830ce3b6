// Tables that are text: CSV, and cells that are pasted from a spreadsheet, as `petstore import` reads them.

import { pacer } from "../pace.js";
import { FileError } from "./zip.js";

/** @import { Row } from "../../types" */

/** Size limit of a cell: far more than an animal needs. */
const MAX_CELL = 65_536;

/** The start of a file in which a byte order mark is missed. */
const START = 1024;

/**
 * The kind of UTF-16: by the byte order mark, or else by the zeros in ASCII characters, of which a table has many. "" if
 * it is none.
 * @param {Uint8Array} bytes
 */
export function utf16Of(bytes) {
  const mark = { "255 254": "utf-16le", "254 255": "utf-16be" }[bytes.subarray(0, 2).join(" ")];
  if (mark || bytes.length % 2) return mark ?? "";
  const start = bytes.subarray(0, START);
  const zeros = (parity = 0) => start.filter((byte, at) => byte === 0 && at % 2 === parity).length;
  const even = zeros(0);
  const odd = zeros(1);
  if (Math.max(even, odd) < start.length / 4 || Math.min(even, odd)) return "";
  return odd ? "utf-16le" : "utf-16be";
}

/** The text of a file: UTF-16, UTF-8, or what Windows wrote before. @param {Uint8Array} bytes */
export function decode(bytes) {
  const utf16 = utf16Of(bytes);
  try {
    return { text: new TextDecoder(utf16 || "utf-8", { fatal: true }).decode(bytes), encoding: utf16 };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    if (utf16) throw new FileError("The file is damaged: it is not complete UTF-16.");
    return { text: new TextDecoder("windows-1252").decode(bytes), encoding: "windows-1252" };
  }
}

const countLines = (text = "") => text.match(/\r\n?|\n/g)?.length ?? 0;

/** Reads the rows that are not empty. A spreadsheet separates cells that are copied from it by tabs. */
export async function readRows(text = "", pasted = false) {
  const [sep, named] = text.match(/^\uFEFF?(?:sep=([\t -~]?)[^\r\n]*(?:\r\n?|\n))?\uFEFF?/i) ?? [""];
  const [header] = text.slice(sep.length).trimStart().split(/[\r\n]/, 1);
  const count = (mark = "") => header.split(mark).length;
  const likely = [";", "\t", ","].reduce((best, mark) => (count(mark) >= count(best) ? mark : best));
  const delimiter = named || (pasted && header.includes("\t") ? "\t" : likely);
  const quoted = /"([^"]*(?:""[^"]*)*)"/y;
  const plain = new RegExp(`[^\\r\\n\\x${delimiter.charCodeAt(0).toString(16).padStart(2, "0")}]*`, "y");
  const newline = /\r?\n|\r/y;
  const turn = pacer();
  let at = sep.length;
  /** @param {RegExp} pattern */
  const take = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  /** @type {Row[]} */
  const rows = [];
  for (let line = /[\r\n]/.test(sep) ? 2 : 1; at < text.length;) {
    const start = at;
    const cells = [];
    do {
      const quote = text[at] === '"';
      const first = quote ? line + countLines(text.slice(start, at)) : 0;
      const found = quote && take(quoted);
      const rest = String(take(plain));
      // Text follows a quoted cell of several lines: the closing quote was meant to open another cell.
      const isOpen = quote && (!found || found[0].length > MAX_CELL || (rest && /[\r\n]/.test(found[1])));
      if (isOpen) throw new FileError(`Line ${first}: a quote is not closed.`);
      cells.push((found ? found[1].replaceAll('""', '"') : "") + rest);
    } while (text[at] === delimiter && ++at);
    take(newline);
    if (cells.some((cell) => cell.trim())) rows.push({ line, cells });
    line += countLines(text.slice(start, at));
    if (rows.length % 64 === 0) await turn();
  }
  return rows;
}
