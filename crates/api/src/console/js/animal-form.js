// The fields of an animal, and the dialog that adds one.

import { get } from "./api.js";
import { toast } from "./app.js";
import { createCategory } from "./categories.js";
import { localDay } from "./days.js";
import { el, fill } from "./dom.js";
import { fieldsOf } from "./fields.js";
import { formDialog } from "./forms.js";
import { animal } from "./members.js";
import { names } from "./names.js";
import { postOnce } from "./once.js";

/** @import { ApiError } from "./api.js" */
/** @import { Pet, Values } from "../types" */

/** Instead of the number of a category: its name is typed. */
const NEW = "new";
/** Its number is typed. */
const OTHER = "other";

/** The fields of a category: one that has a name, a new one, or a number. */
function categoryInputs() {
  const text = { required: true, autocomplete: "off" };
  const newName = el("input", { ...text, maxlength: 100, "aria-label": "New category", placeholder: "Such as Rabbits" });
  const number = el("input", { ...text, inputmode: "numeric", pattern: "-?[0-9]{1,19}",
    title: "A whole number", "aria-label": "Number of the category", placeholder: "Number, such as 3" });
  const category = el("select", { name: "categoryId", onchange: () => showTyped()?.focus() });
  const showTyped = () => {
    const typed = { [NEW]: newName, [OTHER]: number }[category.value];
    for (const input of [newName, number]) input.hidden = input.disabled = input !== typed;
    return typed;
  };
  return {
    element: el("div.field", category, newName, number),
    newName,
    get value() {
      return (category.value === OTHER && number.value.trim()) || category.value;
    },
    set value(id) {
      // It is being typed.
      if (id === this.value && document.activeElement === showTyped()) return;
      const options = names.sorted();
      if (/\d/.test(id) && !names.categories.has(id)) options.push([id, `no. ${id}`]);
      options.push([NEW, "New category…"], [OTHER, "Another number…"]);
      fill(category, options.map(([value, label]) => el("option", { value }, label)));
      category.value = id || options[0][0];
      showTyped();
    },
  };
}

/** @param {Values} initial */
export function animalFields(initial) {
  const category = categoryInputs();
  const hint = el("small");
  const base = fieldsOf(animal.members, { categoryId: category }, { status: hint });
  const status = /** @type {HTMLSelectElement} */ (base.controls.status);
  const isNew = !initial.name;
  const isUsual = ({ section = "head", kind = "" }) => section === "head" || (isNew && kind === "date");
  const fields = Object.assign(base, {
    elements: [
      base.grid(isUsual),
      el("details", el("summary", "Description, notes, origin and more"), base.grid((member) => !isUsual(member))),
    ],
    /** Creates the category that was typed, and returns all values. */
    async complete() {
      if (category.value === NEW) fields.values = { ...fields.values, categoryId: await createCategory(category.newName.value) };
      return fields.values;
    },
    /** While an order has the animal, only the order changes its status. */
    lock(locked = false) {
      status.disabled = locked;
      hint.textContent = locked ? "Follows the order." : "";
    },
    /** Names the animal that has the same chip, and leads there. @param {ApiError} error */
    async explain({ code }) {
      if (code !== "microchip_taken") return;
      const { data } = await get(`pets?microchip=${encodeURIComponent(fields.values.microchip)}`);
      const other = /** @type {Pet[]} */ (data).find(({ status }) => status !== "sold");
      return other && [el("a", { href: `#/animals/${other.id}` }, other.name), " has this chip."];
    },
  });
  fields.values = initial;
  return fields;
}

/** @param {Partial<Values>} initial the category that is chosen at first, and the like @param {(pet: Pet) => void} added */
export function addAnimal(initial, added) {
  const fields = animalFields({ ...animal.noValues, status: "available", acquiredOn: localDay(), ...initial });
  const post = postOnce();
  const box = formDialog(["Add animal", "Add animal"], fields.elements, async () => {
    const { data } = await post("pets", animal.changes(await fields.complete()));
    toast(`${data.name} was added.`);
    added(data);
  }, fields.explain);
  box.classList.add("large");
  box.addEventListener("click", ({ target }) => target instanceof HTMLAnchorElement && box.close());
  if (!names.categories.size) names.loadCategories().then(() => (fields.values = fields.values), () => {});
}
