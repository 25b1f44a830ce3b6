// Saving what is typed into the fields of a record, but not over what others have changed at the same time.

import { ApiError, get, send } from "./api.js";

/** @import { EditedRecord, Result, Values } from "../types" */

/** A change is tried again this often while others change the resource. */
const ATTEMPTS = 5;

/**
 * Returns a function that saves, and returns the resource with its ETag.
 * @template {string} Name
 * @param {EditedRecord<Name>} record
 * @param {{ values: Record<Name, string> }} fields
 * @param {string} path
 * @param {Result} read the resource that the fields show
 * @returns {() => Promise<Result>}
 */
export function saver(record, fields, path, read) {
  let current = read;
  let base = record.valuesOf(read.data);
  return async () => {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const mine = record.normalise(fields.values);
      const body = record.changes(mine, base);
      if (!Object.keys(body).length) return current;
      const saved = await send("PATCH", path, body, { "If-Match": current.etag ?? "" }).catch((error) => {
        if (error.status !== 412) throw error;
      });
      if (saved) {
        [current, base] = [saved, record.valuesOf(saved.data)];
        return saved;
      }
      // It was changed, perhaps by an earlier attempt whose response was lost.
      current = await get(path);
      const theirs = record.valuesOf(current.data);
      const edited = record.names.filter((name) => mine[name] !== base[name]);
      const rivals = edited.filter((name) => theirs[name] !== base[name] && theirs[name] !== mine[name]);
      fields.values = { ...theirs, .../** @type {Record<Name, string>} */ (Object.fromEntries(edited.map((name) => [name, mine[name]]))) };
      base = theirs;
      if (rivals.length) {
        throw new ApiError(412, "", rivals.map((name) =>
          `${name}: Another person has changed this to “${theirs[name] || "nothing"}”. Save again to keep yours.`).join("; "));
      }
    }
    throw new ApiError(412, "", "Others are changing this right now. Try again.");
  };
}
