// Animals without a date of acquisition, which the register of acquired animals cannot list.

import { get } from "../api.js";
import { count, plural } from "../format.js";

/** @import { Pet, RegisterEntry, Result } from "../../types" */

/** The newest animals in stock are looked through: pages of 100. */
const PAGES = 10;

/** `isLimited`: there are older ones. @typedef {{ without: number, looked: number, isLimited: boolean }} Undated */

/** @param {AbortSignal} signal @returns {Promise<Undated>} */
export async function loadUndated(signal) {
  let next = "?status=available,pending&sort=desc&limit=100";
  let without = 0;
  let looked = 0;
  for (let page = 0; page < PAGES && next; page++) {
    /** @type {Result} */
    const { data, next: more } = await get(`pets${next}`, signal);
    const pets = /** @type {Pet[]} */ (data);
    looked += pets.length;
    without += pets.filter(({ acquiredOn }) => !acquiredOn).length;
    next = more ?? "";
  }
  return { without, looked, isLimited: next !== "" };
}

const has = (number = 0) => (number === 1 ? "has" : "have");

/** @param {Undated} stock @param {{ entries: RegisterEntry[], isLimited: boolean }} sold */
export function undatedText({ without, looked, isLimited }, { entries, isLimited: isPart }) {
  const sold = new Set(entries.filter(({ name, acquiredOn }) => name && !acquiredOn).map(({ petId }) => petId)).size;
  return ["Animals without a date of acquisition are not listed here.",
    isLimited ? ` Of the newest ${count(looked)} animals in stock, ${count(without)} ${has(without)} none.`
      : without > 0 && ` ${plural(without, "animal")} in stock ${has(without)} none.`,
    sold > 0 && ` ${isPart ? "At least " : ""}${plural(sold, "animal")} sold in this period ${has(sold)} none.`];
}
