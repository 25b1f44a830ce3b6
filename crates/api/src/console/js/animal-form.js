// The fields of an animal, and the dialog that adds one.

import { toast } from "./app.js";
import { createCategory } from "./categories.js";
import { el, fill } from "./dom.js";
import { field, formDialog } from "./forms.js";
import { names } from "./names.js";
import { postOnce } from "./once.js";

/** @import { Pet, Values } from "../types" */

export const LABELS = { name: "Name", categoryId: "Category", status: "Status" };
export const FIELDS = /** @type {(keyof Values)[]} */ (Object.keys(LABELS));
/** Instead of the number of a category: its name is typed, or its number. */
const [NEW, OTHER] = ["new", "other"];

/** @param {Pet} pet @returns {Values} */
export const valuesOf = ({ name, categoryId, status }) => ({ name, categoryId: String(categoryId), status: status ?? "" });

/** @param {Values} initial */
export function animalFields(initial) {
  const text = { required: true, autocomplete: "off" };
  const name = el("input", { ...text, name: "name", maxlength: 255 });
  const newName = el("input", { ...text, maxlength: 100, "aria-label": "New category", placeholder: "Such as Rabbits" });
  const number = el("input", { ...text, name: "number", inputmode: "numeric", pattern: "-?[0-9]{1,19}",
    title: "A whole number", "aria-label": "Number of the category", placeholder: "Number, such as 3" });
  const category = el("select", { name: "category", onchange: () => showTyped()?.focus() });
  const status = el("select", { name: "status" },
    ["available", "pending", "sold", ""].map((value) => el("option", { value }, value || "no status")));
  const hint = el("small");
  const showTyped = () => {
    const typed = { [NEW]: newName, [OTHER]: number }[category.value];
    for (const input of [newName, number]) input.hidden = input.disabled = input !== typed;
    return typed;
  };
  const fields = {
    elements: [field(LABELS.name, name), el("div.field", field(LABELS.categoryId, category), newName, number),
      field(LABELS.status, status, hint)],
    /** @returns {Values} */
    get values() {
      const id = (category.value === OTHER && number.value.trim()) || category.value;
      return { name: name.value, categoryId: id, status: status.value };
    },
    set values(values) {
      if (name.value !== values.name) name.value = values.name;
      status.value = values.status;
      const id = values.categoryId;
      const options = names.sorted();
      if (/\d/.test(id) && !names.categories.has(id)) options.push([id, `no. ${id}`]);
      options.push([NEW, "New category…"], [OTHER, "Another number…"]);
      fill(category, options.map(([value, label]) => el("option", { value }, label)));
      category.value = id || options[0][0];
      showTyped();
    },
    /** Creates the category that was typed, and returns all values. */
    async complete() {
      if (category.value === NEW) fields.values = { ...fields.values, categoryId: await createCategory(newName.value) };
      return fields.values;
    },
    /** While an order has the animal, only the order changes its status. */
    lock(locked = false) {
      status.disabled = locked;
      hint.textContent = locked ? "Follows the order." : "";
    },
  };
  fields.values = initial;
  return fields;
}

/** The members of an animal that differ, as the API takes them. @param {Values} after @param {Values} [before] */
export function changes({ name, categoryId, status }, before) {
  return {
    ...(name !== before?.name && { name }),
    ...(categoryId !== before?.categoryId && { categoryId: /\d/.test(categoryId) && BigInt(categoryId) }),
    ...(status !== (before?.status ?? "") && { status: status || null }),
  };
}

/** @param {string} categoryId the one that is chosen at first @param {(pet: Pet) => void} added */
export function addAnimal(categoryId, added) {
  const fields = animalFields({ name: "", categoryId, status: "available" });
  const post = postOnce();
  formDialog(["Add animal", "Add animal"], fields.elements, async () => {
    const { data } = await post("pets", changes(await fields.complete()));
    toast(`${data.name} was added.`);
    added(data);
  });
  if (!names.categories.size) names.loadCategories().then(() => (fields.values = fields.values), () => {});
}
