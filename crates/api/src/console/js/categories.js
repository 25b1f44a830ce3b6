// Categories by name.

import { send } from "./api.js";
import { fold, names } from "./names.js";

export const findCategory = (name = "") => [...names.categories].find(([, other]) => fold(other) === fold(name));

export function freeNumber() {
  let free = 1;
  while (names.categories.has(String(free))) free++;
  return String(free);
}

/** The id of the category with this name, which is created if it is new. @returns {Promise<string>} */
export async function createCategory(name = "") {
  const found = findCategory(name);
  if (found) return found[0];
  const id = freeNumber();
  return send("PUT", `categories/${id}`, { name }, { "If-None-Match": "*" }).then(() => {
    names.categories.set(id, name);
    return id;
  }, async (error) => {
    // Another category has this number (412) or name (409).
    if (error.status !== 412 && error.status !== 409) throw error;
    await names.loadCategories();
    if (error.status === 409 && !findCategory(name)) throw error;
    return createCategory(name);
  });
}
