// Saves the animals of a filter as CSV, as `petstore export` writes them.

import { get } from "./api.js";
import { escapeFormula, saveCsv } from "./csv.js";
import { count } from "./format.js";
import { names } from "./names.js";
import { decimal } from "./price.js";

/** @import { Pet, Result } from "../types" */

/** @param {string} path the list @param {(text: string) => void} progress */
export async function exportAnimals(path, progress) {
  await names.loadCategories();
  /** @type {Pet[]} */
  const pets = [];
  for (let next = path; next;) {
    /** @type {Result} */
    const page = await get(next);
    pets.push(...page.data);
    next = page.next ? `pets${page.next}` : "";
    progress(count(pets.length));
  }
  const keys = [...new Set(pets.flatMap(({ metadata }) => Object.keys(metadata ?? {})))].sort();
  saveCsv("animals.csv", [
    ["id", "name", "categoryId", "category", "status", ...COLUMNS, ...keys.map((key) => `metadata.${key}`)],
    ...pets.map((pet) => cellsOf(pet, keys)),
  ]);
}

/** The columns of the members that an animal may have, in the order of the service. */
const COLUMNS = ["breed", "sex", "birthDate", "color", "microchip", "price", "currency", "description", "notes", "location",
  "acquiredOn", "source.name", "source.address", "source.licence"];

/** @param {Pet} pet @param {string[]} keys of the metadata */
function cellsOf(pet, keys) {
  const { id, name, categoryId, status = "", sex = "", birthDate = "", microchip = "", price, acquiredOn = "", source } = pet;
  const texts = (/** @type {(string | undefined)[]} */ ...all) => all.map((text) => escapeFormula(text ?? ""));
  return [
    String(id), escapeFormula(name), String(categoryId), escapeFormula(names.categories.get(String(categoryId)) ?? ""), status,
    ...texts(pet.breed), sex, birthDate, ...texts(pet.color), microchip, price ? decimal(price) : "", price?.currency ?? "",
    ...texts(pet.description, pet.notes, pet.location), acquiredOn,
    ...texts(source?.name, source?.address, source?.licence, ...keys.map((key) => pet.metadata?.[key])),
  ];
}
