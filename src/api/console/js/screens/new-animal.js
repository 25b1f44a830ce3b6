// Adding animals: a dialog, and examples for an empty store.

import { animalFields, changes } from "../animal-fields.js";
import { dialog, message, toast } from "../app.js";
import { button, el } from "../dom.js";

/** @import { App } from "../app.js" */
/** @import { Pet } from "../api.js" */

/**
 * @param {App} app
 * @param {string} categoryId the one that is chosen at first
 * @param {(pet: Pet) => void} added
 */
export function addAnimal(app, categoryId, added) {
  const fields = animalFields(app.names, { name: "", categoryId, status: "available" });
  const post = app.api.once();
  const problem = el("p", { class: "problem", role: "alert" });
  const submit = el("button", { class: "btn primary", "data-write": true }, "Add animal");
  const form = el("form", null, ...fields.elements, problem,
    el("div", { class: "actions" }, submit, button("Cancel", { class: "btn", onclick: () => box.close() })));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    app.act(submit, async () => {
      const { data } = await post("pets", changes(fields.values));
      box.close();
      toast(`${data.name} was added.`);
      added(data);
    }, (error) => void (problem.textContent = message(error)));
  });
  const box = dialog("Add animal", form);
}

const CATEGORIES = ["Dogs", "Cats", "Rabbits", "Parrots", "Tortoises"];
const ANIMALS = ["Biscuit", "Juniper", "Moss", "Sir Reginald", "Ärmel", "Momo", "Pepper", "Olive", "Zed", "Clementine"];

/** @param {App} app @param {ReturnType<App["api"]["once"]>} post */
export async function loadExamples({ api }, post) {
  for (const [at, name] of CATEGORIES.entries()) {
    await api.send("PUT", `categories/${at + 1}`, { name }, { "If-None-Match": "*" }).catch(() => {});
  }
  for (const [at, name] of ANIMALS.entries()) {
    await post("pets", { name, categoryId: 1 + (at % CATEGORIES.length), status: "available" });
  }
}
