// The imports and changes of many animals that were made with this browser, so that they can be undone.

import { ApiError, send } from "../api.js";

/** @import { KeptAnimal, PastImport } from "../../types" */

/** Several stores can be under one origin. */
const STORAGE_KEY = `petstore-past-imports ${location.pathname}`;
const MAX_KEPT = 50;

/** The newest first. @returns {PastImport[]} */
export function pastImports() {
  try {
    return JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]");
  } catch {
    return [];
  }
}

/** Adds an import, or replaces what is known of it. @param {PastImport} past */
export function remember(past) {
  const all = [past, ...pastImports().filter(({ id }) => id !== past.id)].sort((a, b) => b.time - a.time);
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(all.slice(0, MAX_KEPT)));
  } catch {
    // No space: it cannot be undone here later.
  }
}

/** The import of the same file, if it was not undone. */
export const findSame = (hash = "") => pastImports().find((past) => past.hash === hash && !past.undone);

/**
 * Undoes an import or change, page by page: animals that it added are deleted, those that it changed are changed back,
 * and those that it deleted are restored. Those that were changed or ordered since are kept. Doing so again continues.
 * @param {PastImport} past
 * @param {(undone: number) => void} progress
 */
export async function undo(past, progress) {
  /** @type {KeptAnimal[]} */
  const kept = [];
  let [undone, cursor] = [0, ""];
  do {
    const { data } = await send("POST", `pets/batch/${past.id}/undo`, cursor ? { cursor } : {});
    undone += data.undone;
    kept.push(...data.kept);
    cursor = data.next ?? "";
    progress(undone);
  } while (cursor);
  remember({ ...past, undone: Date.now() });
  return { undone, kept };
}

/** True if its events are no longer kept. @param {unknown} error */
export const isTooOld = (error) => error instanceof ApiError && (error.status === 404 || error.status === 410);

/** A hash of a file, to recognise it. (`crypto.subtle` exists only over HTTPS.) @param {Uint8Array} bytes */
export function hashOf(bytes) {
  let [a, b] = [0x811c9dc5, 0x9e3779b9];
  for (let at = 0; at < bytes.length; at++) {
    a = Math.imul(a ^ bytes[at], 0x01000193);
    b = Math.imul(b ^ bytes[at] ^ (b >>> 15), 0x85ebca6b);
  }
  return [a, b, bytes.length].map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("");
}
