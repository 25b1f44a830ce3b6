// The fields of an animal, for adding and editing one. Values are text: the category is
// the digits of its number, and no status is "".

import { el, field, fill } from "./dom.js";
import { statusWord } from "./words.js";

/** @import { Pet, PetStatus } from "./api.js" */
/** @import { App } from "./app.js" */
/** @typedef {{ name: string, categoryId: string, status: string }} Values */

/** @param {Pet} pet @returns {Values} */
export const valuesOf = (pet) => ({ name: pet.name, categoryId: String(pet.categoryId), status: pet.status ?? "" });

const OTHER = "other";

/**
 * @param {App} app
 * @param {Values} values
 */
export function animalFields(app, values) {
  const { categories } = app.names;
  const name = el("input", { name: "name", required: true, maxlength: 255, autocomplete: "off" });
  const category = el("select", { name: "category" });
  const number = el("input", { name: "number", inputmode: "numeric", pattern: "-?[0-9]{1,19}", title: "A whole number", "aria-label": "Number of the category", placeholder: "Number" });
  const status = el("select", { name: "status" }, ...["available", "pending", "sold", ""].map((value) =>
    el("option", { value }, statusWord(/** @type {PetStatus} */ (value || undefined)))));
  const hint = el("small");
  const showNumber = () => {
    number.hidden = number.disabled = category.value !== OTHER;
    number.required = !number.hidden;
  };
  category.addEventListener("change", () => (showNumber(), number.focus()));
  const fields = {
    elements: [field("Name", name), el("div", { class: "field" }, field("Category", category), number), field("Status", status, hint)],
    /** @returns {Values} */
    get values() {
      const id = category.value === OTHER ? number.value.trim() : category.value;
      return { name: name.value, categoryId: id, status: status.value };
    },
    set values(values) {
      if (name.value !== values.name) name.value = values.name;
      status.value = values.status;
      const named = [...categories].sort(([, a], [, b]) => a.localeCompare(b));
      if (values.categoryId && !categories.has(values.categoryId)) named.push([values.categoryId, `no. ${values.categoryId}`]);
      fill(category, ...named.map(([value, label]) => el("option", { value }, label)), el("option", { value: OTHER }, "Another number…"));
      category.value = values.categoryId || (named[0]?.[0] ?? OTHER);
      showNumber();
    },
    /** While an order has the animal, only the order changes its status. @param {string} reason */
    lockStatus(reason) {
      status.disabled = Boolean(reason);
      hint.textContent = reason;
    },
  };
  fields.values = values;
  return fields;
}

/**
 * The members of an animal that differ, as the API takes them.
 * @param {Values} after
 * @param {Values} [before]
 */
export function changes(after, before) {
  /** @type {Record<string, unknown>} */
  const body = {};
  if (after.name !== before?.name) body.name = after.name;
  if (after.categoryId !== before?.categoryId) body.categoryId = BigInt(after.categoryId);
  if (after.status !== (before?.status ?? "")) body.status = after.status || null;
  return body;
}
