// Excel workbooks (ECMA-376, the part about spreadsheets): the cells of a sheet as text.

import { dateText, formatKind, numberText, timeText } from "./number-format.js";
import { attribute, readXml } from "./xml.js";
import { FileError } from "./zip.js";

/** @import { Row, Sheet } from "../../types" */
/** @import { Zip } from "./zip.js" */

const MAX_ROWS = 1_048_576;
const MAX_COLUMNS = 16_384;
/** The limits of what is kept in memory: cells, and characters of shared texts. */
const MAX_CELLS = 8_000_000;
const MAX_TEXT = 1 << 27;
const TOO_LARGE = "The spreadsheet has too many cells. Split it into several files.";

/** A text may have control characters as `_x000D_`. */
const unescapeText = (text = "") => !text.includes("_x") ? text
  : text.replace(/_x([0-9a-f]{4})_/gi, (_, code) => String.fromCharCode(parseInt(code, 16)));

/** The names of the sheets, and how to read one. @param {Zip} zip */
export async function openWorkbook(zip) {
  const { path, related } = await findWorkbook(zip);
  const { sheets, is1904 } = await readSheetNames(zip, path);
  const find = (kind = "") => [...related.values()].find(({ type }) => type.endsWith(`/${kind}`))?.path;
  const texts = find("sharedStrings");
  const styles = find("styles");
  const context = {
    is1904,
    texts: texts && zip.has(texts) ? await readTexts(zip, texts) : [],
    kinds: styles && zip.has(styles) ? await readStyles(zip, styles) : [],
  };
  /** @type {Sheet[]} */
  const all = sheets.flatMap(({ name, id, isHidden }) => {
    const found = related.get(id);
    // Others are charts, or macros.
    return found?.type.endsWith("/worksheet") ? [{ name, isHidden, rows: () => readSheet(zip, found.path, context) }] : [];
  });
  return all;
}

/** The path of the workbook, and of its parts by their id. @param {Zip} zip */
async function findWorkbook(zip) {
  const root = zip.has("_rels/.rels") ? await readRelations(zip, "_rels/.rels", "") : new Map();
  const path = [...root.values()].find(({ type }) => type.endsWith("/officeDocument"))?.path ?? "xl/workbook.xml";
  const [, folder, file] = path.match(/^(.*?)([^/]*)$/) ?? [];
  return { path, related: await readRelations(zip, `${folder}_rels/${file}.rels`, folder) };
}

/** @param {Zip} zip @param {string} path @param {string} folder that targets are relative to */
async function readRelations(zip, path, folder) {
  /** @type {Map<string, { type: string, path: string }>} */
  const all = new Map();
  await readXml(zip.readText(path), {
    open(name, attributes) {
      if (name !== "Relationship") return;
      const target = attribute(attributes, "Target") ?? "";
      const full = new URL(target.startsWith("/") ? target : folder + target, "file:///").pathname.slice(1);
      all.set(attribute(attributes, "Id") ?? "", { type: attribute(attributes, "Type") ?? "", path: decodeURI(full) });
    },
  });
  return all;
}

/** @param {Zip} zip @param {string} path */
async function readSheetNames(zip, path) {
  /** @type {{ name: string, id: string, isHidden: boolean }[]} */
  const sheets = [];
  let is1904 = false;
  await readXml(zip.readText(path), {
    open(name, attributes) {
      if (name === "workbookPr") is1904 = /^(1|true|on)$/.test(attribute(attributes, "date1904") ?? "");
      if (name !== "sheet") return;
      sheets.push({
        name: attribute(attributes, "name") ?? "",
        // With its prefix: `sheetId` is another attribute.
        id: attributes.match(/:id\s*=\s*["']([^"']*)/)?.[1] ?? "",
        isHidden: /^(very)?hidden$/i.test(attribute(attributes, "state") ?? ""),
      });
    },
  });
  return { sheets, is1904 };
}

/** The texts that cells refer to by their position; parts of rich text are joined. @param {Zip} zip @param {string} path */
async function readTexts(zip, path) {
  /** @type {string[]} */
  const texts = [];
  const collect = textCollector();
  let size = 0;
  await readXml(zip.readText(path), {
    ...collect,
    close(name) {
      collect.close(name);
      if (name !== "si") return;
      const text = collect.take();
      size += text.length;
      if (size > MAX_TEXT || texts.push(text) > MAX_CELLS) throw new FileError(TOO_LARGE);
    },
  });
  return texts;
}

/** Collects the text of `t` elements, except in `rPh`, which says how Japanese text is pronounced. */
function textCollector() {
  let text = "";
  let isText = false;
  let isPhonetic = false;
  return {
    open(name = "") {
      if (name === "t") isText = !isPhonetic;
      if (name === "rPh") isPhonetic = true;
    },
    text(part = "") {
      if (isText) text += part;
    },
    close(name = "") {
      if (name === "t") isText = false;
      if (name === "rPh") isPhonetic = false;
    },
    take() {
      const all = unescapeText(text);
      text = "";
      return all;
    },
  };
}

/** The kinds of numbers that cell styles show, by their position. @param {Zip} zip @param {string} path */
async function readStyles(zip, path) {
  /** @type {Map<number, string>} */
  const codes = new Map();
  /** @type {string[]} */
  const kinds = [];
  let isCell = false;
  await readXml(zip.readText(path), {
    open(name, attributes) {
      const id = Number(attribute(attributes, "numFmtId"));
      if (name === "numFmt") codes.set(id, attribute(attributes, "formatCode") ?? "");
      if (name === "cellXfs") isCell = true;
      if (name === "xf" && isCell) kinds.push(formatKind(id, codes.get(id)));
    },
    close(name) {
      if (name === "cellXfs") isCell = false;
    },
  });
  return kinds;
}

/** The position of a cell such as "BC7": [54, 7]. */
function position(reference = "") {
  const [, letters, digits] = reference.match(/^([A-Z]{1,3})(\d{1,7})$/) ?? [];
  return letters ? [[...letters].reduce((column, letter) => column * 26 + letter.charCodeAt(0) - 64, 0) - 1, Number(digits)] : null;
}

/**
 * The rows of a sheet that are not empty.
 * @param {Zip} zip
 * @param {string} path
 * @param {{ is1904: boolean, texts: string[], kinds: string[] }} context
 */
async function readSheet(zip, path, { is1904, texts, kinds }) {
  /** @type {Row[]} */
  const rows = [];
  /** @type {[from: number[], to: number[]][]} */
  const merged = [];
  const inline = textCollector();
  /** @type {Row} */
  let row = { line: 0, cells: [] };
  let count = 0;
  let column = 0;
  let type = "";
  let style = 0;
  let value = "";
  let isValue = false;

  const cellText = () => {
    if (type === "inlineStr") return inline.take();
    if (type === "s") return texts[Number(value)] ?? "";
    if (type === "str") return unescapeText(value);
    if (type === "b") return value.trim() === "1" ? "TRUE" : value.trim() && "FALSE";
    if (type === "d") return value.trim().replace(/T.*$/, "");
    const number = Number(value);
    if (type === "e" || !value.trim() || Number.isNaN(number)) return value.trim();
    return kinds[style] === "date" ? dateText(number, is1904) : kinds[style] === "time" ? timeText(number) : numberText(value);
  };

  await readXml(zip.readText(path), {
    open(name, attributes) {
      if (name === "row") {
        const line = Number(attribute(attributes, "r") ?? row.line + 1);
        if (!(line > 0 && line <= MAX_ROWS)) throw new FileError("The spreadsheet has more than 1,048,576 rows.");
        row = { line, cells: [] };
      } else if (name === "c") {
        column = position(attribute(attributes, "r"))?.[0] ?? row.cells.length;
        if (column >= MAX_COLUMNS) throw new FileError(TOO_LARGE);
        type = attribute(attributes, "t") ?? "n";
        style = Number(attribute(attributes, "s") ?? 0);
        value = "";
      } else if (name === "v") isValue = true;
      else if (name === "mergeCell") {
        const [from, to] = (attribute(attributes, "ref") ?? "").split(":").map(position);
        if (from && to && merged.length < MAX_COLUMNS) merged.push([from, to]);
      } else inline.open(name);
    },
    text(part) {
      if (isValue) value += part;
      else inline.text(part);
    },
    close(name) {
      if (name === "v") isValue = false;
      else if (name === "c") {
        const text = cellText();
        if (text) {
          count += Math.max(column + 1 - row.cells.length, 0);
          if (count > MAX_CELLS) throw new FileError(TOO_LARGE);
          while (row.cells.length < column) row.cells.push("");
          row.cells[column] = text;
        }
      } else if (name === "row" && row.cells.some((cell) => cell.trim())) rows.push(row);
      else inline.close(name);
    },
  });
  return { rows, merged };
}
