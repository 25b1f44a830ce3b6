// Undoes an import, or a change of many animals.

import { ApiError, send } from "../api.js";
import { names } from "../names.js";
import { can } from "../session.js";
import { findPast, remember } from "./past-batches.js";
import { reasonOf } from "./reasons.js";

/** @import { RejectedAnimal, UndoResult } from "../../types" */

/**
 * Undoes a batch, page by page: animals that it added are deleted, those that it changed are changed back, and those
 * that it deleted are restored. Those that were changed or ordered since are kept. Categories that it created are
 * deleted, unless they are used. Calling it again continues.
 * @param {string} id
 * @param {(undone: number) => void} progress
 * @returns {Promise<UndoResult>}
 */
export async function undo(id, progress) {
  /** @type {RejectedAnimal[]} */
  const kept = [];
  let undone = 0;
  let categories = 0;
  let purged = 0;
  let purgedPhotos = 0;
  let cursor = "";
  do {
    const { data } = await send("POST", `pets/batch/${id}/undo`, cursor ? { cursor } : {});
    undone += data.undone;
    categories += data.categories;
    purged = data.purged ?? 0;
    purgedPhotos += data.purgedPhotos ?? 0;
    // An import that was still running is read from its newest change once more.
    const known = new Set(kept.map(({ id }) => id));
    for (const { id, reason, message } of data.kept) if (!known.has(id)) kept.push({ id, reason: reasonOf(reason, message) });
    cursor = data.next ?? "";
    progress(undone);
  } while (cursor);
  if (categories && can("pets:read")) await names.loadCategories();
  const past = findPast(id);
  if (past) remember({ ...past, undone: Date.now() });
  return { undone, kept, categories, purged, purgedPhotos };
}

/** True if its events are no longer kept. @param {unknown} error */
export const isTooOld = (error) => error instanceof ApiError && (error.status === 404 || error.status === 410);
