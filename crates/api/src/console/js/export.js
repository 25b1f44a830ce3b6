// Saves the animals of a filter as CSV, as `petstore export` writes them.

import { get } from "./api.js";
import { escapeFormula, saveCsv } from "./csv.js";
import { count } from "./format.js";
import { names } from "./names.js";

/** @import { Pet, Result } from "../types" */

/** @param {string} path the list @param {(text: string) => void} progress */
export async function exportAnimals(path, progress) {
  await names.loadCategories();
  const rows = [["id", "name", "categoryId", "category", "status"]];
  for (let next = path; next;) {
    /** @type {Result} */
    const page = await get(next);
    for (const { id, name, categoryId, status = "" } of /** @type {Pet[]} */ (page.data)) {
      const category = names.categories.get(String(categoryId)) ?? "";
      rows.push([String(id), escapeFormula(name), String(categoryId), escapeFormula(category), status]);
    }
    next = page.next ? `pets${page.next}` : "";
    progress(count(rows.length - 1));
  }
  saveCsv("animals.csv", rows);
}
