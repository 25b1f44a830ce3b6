// A change of photos in words.

import { stringify } from "../json.js";
import { plural } from "../format.js";

/** @import { Photo } from "../../types" */

/**
 * "2 photos added", "photo deleted", "photos reordered", or "" if nothing has changed.
 * @param {{ photos?: Photo[] }} before
 * @param {{ photos?: Photo[] }} after
 */
export function photoChange({ photos: then = [] }, { photos: now = [] }) {
  const missing = (/** @type {Photo[]} */ some, /** @type {Photo[]} */ others) =>
    some.filter(({ id }) => !others.some((other) => other.id === id)).length;
  const counted = (size = 0, verb = "") => size > 0 && `${size === 1 ? "photo" : plural(size, "photo")} ${verb}`;
  const parts = [counted(missing(now, then), "added"), counted(missing(then, now), "deleted")].filter(Boolean);
  return parts.join(", ") || (stringify(then) === stringify(now) ? "" : "photos reordered");
}
