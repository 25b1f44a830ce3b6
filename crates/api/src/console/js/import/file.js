// A file to import: its kind, by its content and not by its name, and the tables in it.

import { decode, readRows, utf16Of } from "./text.js";
import { openWorkbook } from "./xlsx.js";
import { FileError, Zip } from "./zip.js";

/** @import { Sheet } from "../../types" */

const MAX_SIZE = 64 << 20;
const SAVE_AS = "Open it in a spreadsheet program, and save it as an Excel workbook (.xlsx) or as CSV.";
const PROTECTED = "The file is protected by a password. Save it without one.";

/** The beginnings of other files, in Latin-1. @type {[start: RegExp, kind: string][]} */
const OTHERS = [
  [/^\x89PNG/, "a picture (PNG)"],
  [/^\xff\xd8\xff/, "a picture (JPEG)"],
  [/^GIF8/, "a picture (GIF)"],
  [/^(?:RIFF....WEBP|BM.{4}\0{4}|II\*\0|MM\0\*)/s, "a picture"],
  [/^....ftyp(?:heic|heix|mif1|avif)/s, "a picture"],
  [/^\s*%PDF-/, "a PDF"],
  [/^\{\\rtf/, "a text document (RTF)"],
  [/^\x1f\x8b/, "a compressed file (GZIP)"],
  [/^(?:7z\xbc\xaf|Rar!)/, "a compressed archive"],
  [/^SQLite format 3\0/, "a database"],
];

const refuse = (kind = "", advice = "Choose a spreadsheet (.xlsx) or a CSV file.") =>
  new FileError(`This file is ${kind}, which is not a table. ${advice}`);

/** The start of a file, in Latin-1. @param {Uint8Array} bytes */
const latin1 = (bytes, length = 4096) => String.fromCharCode(...bytes.subarray(0, length));

/** Opens a file. @param {Uint8Array} bytes @returns {Promise<{ sheets: Sheet[], encoding: string }>} */
export async function openFile(bytes) {
  if (bytes.length > MAX_SIZE) throw new FileError("The file has more than 64 MiB. Split it into several files.");
  if (!bytes.length) throw new FileError("The file is empty.");
  const start = latin1(bytes);
  if (start.startsWith("PK\x03\x04")) return { sheets: await openArchive(new Zip(bytes)), encoding: "" };
  if (start.startsWith("PK\x05\x06")) throw refuse("an empty ZIP archive");
  if (start.startsWith("\xd0\xcf\x11\xe0")) throw ofOldOffice(bytes);
  const other = OTHERS.find(([pattern]) => pattern.test(start));
  if (other) throw refuse(other[1]);
  if (!utf16Of(bytes) && /^[^\n]*\0/.test(start.slice(0, 1024))) {
    throw new FileError("The file is not text, as it has NUL characters. Choose a spreadsheet (.xlsx) or a CSV file.");
  }
  const { text, encoding } = decode(bytes);
  const markup = text.slice(0, 2000).trimStart();
  if (/^\uFEFF?\s*<(?:!doctype html|html|head|body|table|meta)\b/i.test(markup)) {
    throw refuse("a web page (HTML)", SAVE_AS);
  }
  if (/^\uFEFF?\s*<\?xml\b/.test(markup)) throw refuse("an XML file", SAVE_AS);
  if (/^\uFEFF?\s*[[{]\s*["{\]}]/.test(markup)) {
    throw refuse("JSON", "`petstore import` reads JSON Lines; here, choose a spreadsheet (.xlsx) or a CSV file.");
  }
  return { sheets: [{ name: "", isHidden: false, rows: async () => ({ rows: await readRows(text), merged: [] }) }], encoding };
}

/** The sheets of a ZIP archive, if it is an Excel workbook. @param {Zip} zip */
async function openArchive(zip) {
  if (zip.has("xl/workbook.xml") || [...zip.entries.keys()].some((path) => /\/workbook\.xml$/.test(path))) return openWorkbook(zip);
  if (zip.has("xl/workbook.bin")) throw refuse("a binary Excel workbook (.xlsb)", "Save it as an Excel workbook (.xlsx).");
  if (zip.has("word/document.xml")) throw refuse("a Word document", "Copy its table into a spreadsheet, and save that.");
  if (zip.has("ppt/presentation.xml")) throw refuse("a presentation");
  if (zip.has("Index/Document.iwa") || zip.has("Index.zip")) {
    throw refuse("a Numbers spreadsheet", "In Numbers, choose File > Export To > Excel or CSV.");
  }
  if (zip.has("mimetype")) {
    let type = "";
    for await (const piece of zip.readText("mimetype")) type += piece;
    if (type.includes("opendocument.spreadsheet")) {
      throw refuse("an OpenDocument spreadsheet (.ods)", "Save it as an Excel workbook (.xlsx) or as CSV.");
    }
    if (type.includes("opendocument")) throw refuse("an OpenDocument file");
  }
  throw refuse("a ZIP archive", "Unpack it, and choose the spreadsheet in it.");
}

/** The reason why a compound file is not read: old Excel, old Word, or a new one that is encrypted. @param {Uint8Array} bytes */
function ofOldOffice(bytes) {
  const has = (name = "") => {
    const wanted = [...name].flatMap((letter) => [letter.charCodeAt(0), 0]);
    for (let at = bytes.indexOf(wanted[0]); at >= 0; at = bytes.indexOf(wanted[0], at + 1)) {
      if (wanted.every((byte, offset) => bytes[at + offset] === byte)) return true;
    }
    return false;
  };
  if (has("EncryptedPackage")) return new FileError(PROTECTED);
  if (has("WordDocument")) return refuse("a Word document", "Copy its table into a spreadsheet, and save that.");
  return refuse("an Excel workbook of before 2007 (.xls)", SAVE_AS);
}
