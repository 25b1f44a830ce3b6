// A reader of the XML in spreadsheets: elements, attributes and text, without namespaces and document types. It takes a
// text in pieces, so that a long sheet is never in memory as a whole, and works without a browser.

import { pacer } from "../pace.js";
import { FileError } from "./zip.js";

/** @import { XmlHandler } from "../../types" */

/** The maximum length of a tag, a comment or a text. */
const MAX_TOKEN = 1 << 20;
const TAG = /<(\/?)(?:[\w.-]+:)?([\w.-]+)((?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>/y;
const BROKEN = "The file is damaged: a part of it cannot be read.";
/** @type {Record<string, string>} */
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

/** Resolves references such as `&amp;` and `&#10;`. */
const unescapeXml = (text = "") => !text.includes("&") ? text
  : text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w+));/gi, (all, hex, digits, name) => {
    if (name) return ENTITIES[name] ?? all;
    const code = hex ? parseInt(hex, 16) : Number(digits);
    return code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });

/** @type {Map<string, RegExp>} */
const patterns = new Map();

/** An attribute by its name, without a prefix. */
export function attribute(attributes = "", name = "") {
  const pattern = patterns.get(name) ?? new RegExp(`\\s(?:[\\w.-]+:)?${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`);
  patterns.set(name, pattern);
  const found = pattern.exec(attributes);
  return found ? unescapeXml(found[1] ?? found[2]) : undefined;
}

/** Calls the handler for what is in a text. @param {AsyncIterable<string>} pieces @param {XmlHandler} handler */
export async function readXml(pieces, handler) {
  const turn = pacer();
  let rest = "";
  for await (const piece of pieces) {
    const text = rest + piece;
    let at = 0;
    for (let count = 1; ; count++) {
      const end = nextToken(text, at, handler);
      if (end === at) break;
      at = end;
      if (count % 256 === 0) await turn();
    }
    rest = text.slice(at);
    if (rest.length > MAX_TOKEN) throw new FileError(BROKEN);
  }
  if (rest.trim()) throw new FileError(BROKEN);
}

/** Handles one token. Returns its end, or its start if the text does not have all of it. @param {XmlHandler} handler */
function nextToken(text = "", at = 0, handler) {
  const start = text.indexOf("<", at);
  if (start < 0) return at;
  if (start > at) handler.text?.(unescapeXml(text.slice(at, start)));
  const mark = text[start + 1];
  if (mark === "!" || mark === "?") {
    const [opening, closing] = SKIPPED.find(([opening]) => text.startsWith(opening, start)) ?? ["", ""];
    // A document type could define entities that explode.
    if (!opening) {
      if (text.length - start >= 9) throw new FileError(BROKEN);
      return start > at ? start : at;
    }
    const end = text.indexOf(closing, start + opening.length);
    if (end < 0) return start > at ? start : at;
    if (opening === CDATA) handler.text?.(text.slice(start + opening.length, end));
    return end + closing.length;
  }
  TAG.lastIndex = start;
  const found = TAG.exec(text);
  if (!found) {
    if (text.indexOf(">", start) >= 0 && text.length - start > MAX_TOKEN) throw new FileError(BROKEN);
    return start > at ? start : at;
  }
  const [, isEnd, name, attributes, isEmpty] = found;
  if (!isEnd) handler.open?.(name, attributes);
  if (isEnd || isEmpty) handler.close?.(name);
  return TAG.lastIndex;
}

const CDATA = "<![CDATA[";
const SKIPPED = [["<!--", "-->"], [CDATA, "]]>"], ["<?", "?>"]];
