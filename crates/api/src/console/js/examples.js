// Examples for an empty store.

import { send } from "./api.js";
import { createCategory } from "./categories.js";

const ANIMALS = {
  Dogs: ["Biscuit", "Momo"],
  Cats: ["Juniper", "Pepper"],
  Rabbits: ["Moss", "Olive"],
  Parrots: ["Sir Reginald", "Zed"],
  Tortoises: ["Ärmel", "Clementine"],
};

export async function addExamples() {
  for (const [category, animals] of Object.entries(ANIMALS)) {
    const categoryId = BigInt(await createCategory(category));
    for (const name of animals) await send("POST", "pets", { name, categoryId, status: "available" });
  }
}
