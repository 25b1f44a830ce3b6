// Saves the animals of a filter as CSV, as `petstore export` writes them.

import { escapeFormula, saveCsv } from "./csv.js";
import { count } from "./format.js";

/**
 * @param {import("./app.js").App} app
 * @param {string} query the filter
 * @param {(text: string) => void} progress
 */
export async function exportAnimals({ api, names }, query, progress) {
  await names.loadCategories();
  const rows = [["id", "name", "categoryId", "category", "status"]];
  /** @type {string | null} */
  let next = query;
  while (next) {
    /** @type {import("./api.js").Result} */
    const page = await api.get(`pets${next}`);
    for (const { id, name, categoryId, status = "" } of /** @type {import("./api.js").Pet[]} */ (page.data)) {
      const category = names.categories.get(String(categoryId)) ?? "";
      rows.push([String(id), escapeFormula(name), String(categoryId), escapeFormula(category), status]);
    }
    next = page.next;
    progress(count(rows.length - 1));
  }
  saveCsv("animals.csv", rows);
}
