// The imports and changes of many animals that were made with this browser, so that they can be undone.

/** @import { PastBatch } from "../../types" */

/** Several stores can be under one origin. */
const STORAGE_KEY = `petstore-past-batches ${location.pathname}`;
const MAX_KEPT = 50;

/** The newest first. @returns {PastBatch[]} */
export function pastBatches() {
  try {
    return JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]");
  } catch {
    return [];
  }
}

/** Adds a batch, or replaces what is known of it. @param {PastBatch} past */
export function remember(past) {
  const all = [past, ...pastBatches().filter(({ id }) => id !== past.id)].sort((a, b) => b.time - a.time);
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(all.slice(0, MAX_KEPT)));
  } catch {
    // No space: it can be undone under Activity only.
  }
}

/** @returns {PastBatch | undefined} */
export const findPast = (id = "") => pastBatches().find((past) => past.id === id);
