// Batches of the event log, made by any key, so that they can be undone.

import { get } from "../api.js";
import { batchText } from "../words.js";
import { findPast } from "./past-batches.js";

/** @import { PastBatch, Result } from "../../types" */

/** Events per request. */
const PER_REQUEST = 1000;
/** The requests after which a batch is not counted further. */
const MAX_REQUESTS = 100;
const MAX_ID = 64;
const PREFIX = "undo-";

/**
 * The id of the batch that undoes this one, as the service names it: readable, or else a hash. (`crypto.subtle` exists
 * only over HTTPS, and on this computer; without it, such an id is not known and "".)
 */
export async function undoIdOf(id = "") {
  const readable = PREFIX + id;
  if (readable.length <= MAX_ID) return readable;
  if (!crypto.subtle) return "";
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(readable));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** True if the id says that a batch undoes another one. */
export const isUndoId = (id = "") => id.startsWith(PREFIX);

/** A batch as the history has it, or else as the log does. @returns {Promise<PastBatch>} */
export async function findBatch(id = "", isUndo = false) {
  const known = findPast(id);
  if (known) return known;
  /** @type {Record<string, number>} */
  const types = {};
  let next = `?batch=${id}&sort=desc&limit=${PER_REQUEST}`;
  for (let requests = 0; next && requests < MAX_REQUESTS; requests++) {
    /** @type {Result} */
    const page = await get(`events${next}`);
    for (const { type } of page.data) types[type] = (types[type] ?? 0) + 1;
    next = page.next ?? "";
  }
  const [added, changed, deleted] = ["created", "updated", "deleted"].map((what) => types[`pet.${what}`] ?? 0);
  const kind = added && !isUndo ? "import" : "change";
  return { id, name: batchText(types, isUndo), kind, time: Date.now(), added, changed, deleted,
    categories: isUndo ? 0 : types["category.updated"], isLonger: next !== "" };
}
