// Saves the animals of a filter as CSV, with the columns and cells of `petstore export`.

import { get } from "./api.js";
import { load } from "./app.js";
import { loadEscape, saveCsv } from "./csv.js";
import { count } from "./format.js";
import { animal, valueAt } from "./members.js";
import { names } from "./names.js";
import { decimal } from "./price.js";

/** @import { Escape, Pet, Result } from "../types" */

/** The columns that every table has. Others are left out if no animal has a value. */
const REQUIRED = ["id", "name", "categoryId", "category", "status"];

/** Returns the number of animals. @param {string[]} paths the lists @param {(text: string) => void} progress */
export async function exportAnimals(paths, progress) {
  const [escape] = await Promise.all([load(loadEscape()), names.loadCategories()]);
  /** @type {Record<string, string>[]} */
  const rows = [];
  for (let [next, ...others] = paths; next;) {
    /** @type {Result} */
    const page = await get(next);
    rows.push(...page.data.map((/** @type {Pet} */ pet) => cellsOf(pet, escape)));
    next = page.next ? `pets${page.next}` : (others.shift() ?? "");
    progress(count(rows.length));
  }
  const used = new Set(REQUIRED);
  for (const cells of rows) for (const column of Object.keys(cells)) used.add(column);
  const keys = [...used].filter((column) => column.startsWith("metadata.")).sort();
  const all = animal.members.flatMap(([name, { kind }]) =>
    kind === "pairs" ? keys : kind === "price" ? [name, "currency"] : kind === "id" ? [name, "category"] : [name]);
  const columns = ["id", ...all].filter((column) => used.has(column));
  saveCsv("animals.csv", [columns, ...rows.map((cells) => columns.map((column) => cells[column] ?? ""))]);
  return rows.length;
}

/** The cells that have a value, by column. @param {Pet} pet @param {Escape} escape */
function cellsOf(pet, escape) {
  /** @type {Record<string, string>} */
  const cells = { id: String(pet.id), category: escape(names.categories.get(String(pet.categoryId))) };
  for (const [path, { kind }] of animal.members) {
    const value = valueAt(pet, path);
    if (value === undefined) continue;
    if (kind === "price") [cells[path], cells.currency] = [decimal(value), value.currency];
    else if (kind === "pairs") for (const [key, text] of Object.entries(value)) cells[`${path}.${key}`] = escape(text);
    else cells[path] = !kind || kind === "lines" ? escape(value) : String(value);
  }
  return cells;
}
