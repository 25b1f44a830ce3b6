// The order of the photos of an animal, deleting one, and undoing that.

import { ApiError, send } from "../api.js";
import { message, toast } from "../app.js";

/** @import { Pet, Photo } from "../../types" */

/** A change is tried again this often while others change the animal. */
const ATTEMPTS = 5;
/** The time for which a deleted photo can be restored, in milliseconds. */
const UNDO_FOR = 10_000;

/**
 * Changes the order of the photos as they are by then: others may have added one, which must not be lost. Returns the
 * photos of the animal.
 * @param {number} petId
 * @param {(ids: number[]) => number[]} change
 * @returns {Promise<Photo[]>}
 */
async function rearrange(petId, change) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    // An empty patch changes nothing, and returns the animal with its ETag.
    const { data: { photos = [] }, etag = "" } = await send("PATCH", `pets/${petId}`, {});
    const ids = photos.map((/** @type {Photo} */ { id }) => id);
    const wanted = change(ids);
    // Also if the response to an earlier attempt was lost.
    if (String(wanted) === String(ids)) return photos;
    try {
      return (await send("PUT", `pets/${petId}/photos`, { ids: wanted }, { "If-Match": etag })).data;
    } catch (error) {
      if (/** @type {any} */ (error).status !== 412) throw error;
    }
  }
  throw new ApiError(412, "", "Others are changing this animal right now. Try again.");
}

/** The ids with one of them at another place. */
const moved = (ids = [0], id = 0, at = 0) => ids.filter((other) => other !== id).toSpliced(at, 0, id);

export const movePhoto = (petId = 0, id = 0, at = 0) =>
  rearrange(petId, (ids) => (ids.includes(id) ? moved(ids, id, at) : ids));

/**
 * Deletes a photo, and offers to undo that.
 * @param {Pet} pet
 * @param {number} id
 * @param {(photos: Photo[]) => void} restored
 */
export async function deletePhoto({ id: petId, name, photos = [] }, id, restored) {
  const at = photos.findIndex((photo) => photo.id === id);
  try {
    await send("DELETE", `pets/${petId}/photos/${id}`);
  } catch (error) {
    // Another person was faster.
    if (/** @type {any} */ (error).status !== 404) throw error;
  }
  const undo = () => rearrange(petId, (ids) => moved(ids, id, at)).then(restored, (error) => {
    if (!(error instanceof ApiError)) throw error;
    toast(message(error), "danger");
  });
  toast(`A photo of ${name} was deleted.`, "", { label: "Undo", time: UNDO_FOR, run: undo });
}
