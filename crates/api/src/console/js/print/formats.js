// The formats that papers are printed in. Lengths are in millimetres.

/** @import { CardFormat, PageSize } from "../../types" */

export const A4 = { width: 210, height: 297 };
const LETTER = { width: 215.9, height: 279.4 };
export const A6 = { width: 105, height: 148 };

/**
 * Cards that fill a sheet, which is cut between them.
 * @param {PageSize} size
 * @param {string} kind as a class
 * @returns {CardFormat}
 */
const cards = (id = "", label = "", size, kind, columns = 1, rows = 1) =>
  ({ id, label, size, kind, columns, rows, card: { width: size.width / columns, height: size.height / rows }, left: 0, top: 0, gap: 0 });

export const CAGE_CARDS = [
  cards("card-a4-4", "A4, four cards on a sheet", A4, "quarters", 2, 2),
  cards("card-a4-2", "A4, two large cards on a sheet", A4, "halves", 1, 2),
  cards("card-letter-4", "Letter, four cards on a sheet", LETTER, "quarters", 2, 2),
  cards("card-letter-2", "Letter, two large cards on a sheet", LETTER, "halves", 1, 2),
  cards("card-a6", "A6, one card", A6, ""),
];

/** Sheets of self-adhesive labels as shops sell them. @type {CardFormat[]} */
export const LABELS = [
  { id: "label-a4", label: "A4, 24 labels of 63.5 × 33.9 mm (Avery L7159)", size: A4, kind: "",
    columns: 3, rows: 8, card: { width: 63.5, height: 33.9 }, left: 7.25, top: 12.9, gap: 2.5 },
  { id: "label-letter", label: "Letter, 30 labels of 2⅝ × 1 in (Avery 5160)", size: LETTER, kind: "",
    columns: 3, rows: 10, card: { width: 66.675, height: 25.4 }, left: 4.76, top: 12.7, gap: 3.175 },
];

/** A roll has the length of what is printed. */
export const RECEIPTS = [
  { id: "receipt-a4", label: "A4", kind: "", size: A4 },
  { id: "receipt-letter", label: "Letter", kind: "", size: LETTER },
  { id: "receipt-a6", label: "A6", kind: "a6", size: A6 },
  { id: "receipt-80", label: "Till roll, 80 mm", kind: "roll", size: { width: 80, height: 0 } },
  { id: "receipt-58", label: "Till roll, 58 mm", kind: "roll", size: { width: 58, height: 0 } },
];
