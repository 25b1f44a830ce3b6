// The words that headings and cells have in several languages. `petstore import` has the same list.

import { animal } from "../members.js";

/** @import { WordList, Words } from "../../types" */

/** The names of the members that have a column. */
const OWN_NAMES = animal.names.filter((name) => name !== "metadata");

/** @type {Map<string, string>} the few texts that a column of a long table repeats */
const simplified = new Map();
const MAX_SIMPLIFIED = 1000;

/** A text as words are compared: without case, accents, blanks and punctuation. */
export function simplify(text = "") {
  const known = simplified.get(text);
  if (known !== undefined) return known;
  const word = text.normalize("NFKD").toUpperCase().toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
  if (simplified.size < MAX_SIMPLIFIED) simplified.set(text, word);
  return word;
}

/** @param {Record<string, string[]>} list @returns {Map<string, string>} the names of the lists by their simplified words */
const invert = (list) => new Map(Object.entries(list).flatMap(([name, words]) =>
  [...words, name].map((word) => /** @type {[string, string]} */ ([simplify(word), name]))));

/** @param {Record<string, string[]>} list @returns {Map<string, string[]>} all names of each word */
function invertAll(list) {
  /** @type {Map<string, string[]>} */
  const names = new Map();
  for (const [name, words] of Object.entries(list)) for (const word of words) names.set(word, [...(names.get(word) ?? []), name]);
  return names;
}

/** @param {WordList} list @returns {Words} */
export function indexWords({ headings, flags, values, errors, signs }) {
  return {
    members: new Map([...OWN_NAMES, ...Object.keys(headings)].map((name) => [simplify(name), name])),
    headings: invert(headings),
    flags: invert(flags),
    status: invert(values.status),
    sex: invert(values.sex),
    flag: invert(values.flag),
    errors: new Set(errors),
    signs: invertAll(signs),
  };
}

/** @type {Promise<Words> | undefined} */
let words;

/** The words, loaded once. */
export function loadWords() {
  words ??= fetch(new URL("../../words.json", import.meta.url)).then((response) => {
    if (!response.ok) throw new Error(`words.json: ${response.status}`);
    return response.json();
  }).then(indexWords);
  words.catch(() => (words = undefined));
  return words;
}
