// The names of animals, categories and API keys, which events and orders refer to by id.

import { api, get, getAll } from "./api.js";
import { can } from "./session.js";

/** @import { Int64, Pet, StoreEvent } from "../types" */

export const names = {
  /** @type {Map<string, string>} */
  categories: new Map(),
  /** @type {Map<string, string>} */
  keys: new Map(),
  /** @type {Map<number, string>} "" if there is no such animal */
  pets: new Map(),

  async loadCategories() {
    // Events keep the names up to date, also while nothing can be loaded.
    if (!api.isOnline && names.categories.size) return;
    names.categories = new Map((await getAll("categories")).map(({ id, name }) => [String(id), name]));
  },

  /**
   * Loads the names of these keys and animals, if they are new.
   * @param {(string | undefined)[]} keys
   * @param {(number | undefined)[]} pets
   */
  async load(keys, pets = []) {
    if (keys.some((id) => id && !names.keys.has(id))) {
      const all = await getAll("keys").catch(() => []);
      for (const { id, name } of all) names.keys.set(String(id), name);
    }
    const unknown = [...new Set(pets)].filter((id) => id !== undefined && !names.pets.has(id));
    while (unknown.length && can("pets:read")) {
      const some = unknown.splice(0, 100);
      const page = await get(`pets?limit=100&id=${some}`).catch(() => null);
      for (const id of page ? some : []) names.pets.set(Number(id), "");
      for (const { id, name } of page?.data ?? []) names.pets.set(id, name);
    }
  },

  /** @param {StoreEvent} event */
  onEvent({ type, data }) {
    if (type.startsWith("pet.")) names.pets.set(data.id, type === "pet.deleted" ? "" : data.name);
    if (type.startsWith("key.")) names.keys.set(String(data.id), data.name);
    if (type === "category.updated") names.categories.set(String(data.id), data.name);
    if (type === "category.deleted") names.categories.delete(String(data.id));
  },

  sorted: () => [...names.categories].sort(([, a], [, b]) => a.localeCompare(b)),

  category: (/** @type {Int64 | string} */ id) => names.categories.get(String(id)) ?? `no. ${id}`,

  /** Who made a change. */
  who: (id = "") => (id ? `“${names.keys.get(id) ?? `key ${id}`}”` : "the service"),
};

/** As the service ignores case and accents in a search: case folding, and NFKD without combining marks. */
function simplify(text = "") {
  const plain = (/** @type {string} */ part) => part.normalize("NFKD").replace(/\p{M}/gu, "");
  return plain(plain(text).toLowerCase().replace(/[^ı]+/g, (part) => part.toUpperCase()));
}

/** The distinct words of a text, simplified, of which the service compares the first 64 characters. */
export const wordsOf = (text = "") => [...new Set((simplify(text).match(/[\p{Alphabetic}\p{N}]+/gu) ?? [])
  .map((word) => [...word].slice(0, 64).join("")))];

/** A search as the service takes it: at most eight words, or "" if it has none. */
export function searchOf(text = "") {
  const words = wordsOf(text);
  return words.length > 8 ? words.slice(0, 8).join(" ") : words.length ? text : "";
}

/** Whether each term is the start of a word. */
export function matchesWords(text = "", terms = "") {
  const words = wordsOf(text);
  return wordsOf(terms).every((term) => words.some((word) => word.startsWith(term)));
}

/** Whether a search finds an animal: each term is the start of a word of it or of its chip, or is its id. @param {Pet} pet */
export function matchesSearch({ id, name, breed = "", microchip = "" }, q = "") {
  const words = wordsOf(`${name} ${breed} ${microchip}`);
  return wordsOf(searchOf(q)).every((term) => term === String(id) || words.some((word) => word.startsWith(term)));
}

/** As the service ignores case: ß is SS, but ı is not I. */
export const fold = (name = "") =>
  name.normalize("NFD").toLowerCase().replace(/[^ı]+/g, (text) => text.toUpperCase()).normalize();
