// Categories by name.

import { get, send } from "./api.js";
import { fold, names } from "./names.js";

export const findCategory = (name = "") => [...names.categories].find(([, other]) => fold(other) === fold(name));

/** The lowest number without a name and without animals: they would get the category, too. */
async function freeNumber(taken = new Set([""])) {
  for (let free = 1; ; free++) {
    const id = String(free);
    if (names.categories.has(id) || taken.has(id)) continue;
    if (!(await get(`pets?limit=1&categoryId=${id}`)).data.length) return id;
  }
}

/**
 * The id of the category with this name, which is created if it is new: as a part of a batch, if there is one. It gets
 * none of the numbers that are taken.
 * @param {Set<string>} [taken]
 * @returns {Promise<string>}
 */
export async function createCategory(name = "", batchId = "", taken) {
  const found = findCategory(name);
  if (found) return found[0];
  const id = await freeNumber(taken);
  return send("PUT", `categories/${id}`, { name, ...(batchId && { batchId }) }, { "If-None-Match": "*" }).then(() => {
    names.categories.set(id, name);
    return id;
  }, async (error) => {
    // Another category has this number (412) or name (409).
    if (error.status !== 412 && error.status !== 409) throw error;
    await names.loadCategories();
    if (error.status === 409 && !findCategory(name)) throw error;
    return createCategory(name, batchId, taken);
  });
}
