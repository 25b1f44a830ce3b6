// The fields of an animal, for adding and editing one. Values are text: the category is
// the digits of its number, and no status is "".

import { el, field, fill } from "./dom.js";

/** @typedef {{ name: string, categoryId: string, status: string }} Values */

/** @type {Record<keyof Values, string>} */
export const LABELS = { name: "Name", categoryId: "Category", status: "Status" };
export const FIELDS = /** @type {(keyof Values)[]} */ (Object.keys(LABELS));

/** @param {import("./api.js").Pet} pet @returns {Values} */
export const valuesOf = ({ name, categoryId, status = /** @type {any} */ ("") }) => ({ name, categoryId: String(categoryId), status });

const OTHER = "other";

/**
 * @param {import("./names.js").Names} names
 * @param {Values} initial
 */
export function animalFields({ categories }, initial) {
  const name = el("input", { name: "name", required: true, maxlength: 255, autocomplete: "off" });
  const category = el("select", { name: "category" });
  const number = el("input", { name: "number", required: true, inputmode: "numeric", pattern: "-?[0-9]{1,19}", title: "A whole number", "aria-label": "Number of the category", placeholder: "Number, such as 3" });
  const status = el("select", { name: "status" }, ...["available", "pending", "sold", ""].map((value) => el("option", { value }, value || "no status")));
  const hint = el("small");
  const showNumber = () => (number.hidden = number.disabled = category.value !== OTHER);
  category.addEventListener("change", () => showNumber() || number.focus());
  const fields = {
    elements: [field(LABELS.name, name), el("div", { class: "field" }, field(LABELS.categoryId, category), number), field(LABELS.status, status, hint)],
    /** @returns {Values} */
    get values() {
      const id = category.value === OTHER ? number.value.trim() : category.value;
      return { name: name.value, categoryId: id, status: status.value };
    },
    set values(values) {
      if (name.value !== values.name) name.value = values.name;
      status.value = values.status;
      const id = values.categoryId;
      const named = [...categories].sort(([, a], [, b]) => a.localeCompare(b));
      if (id && !categories.has(id)) named.push([id, `no. ${id}`]);
      fill(category, ...named.map(([value, label]) => el("option", { value }, label)), el("option", { value: OTHER }, "Another number…"));
      category.value = id || (named[0]?.[0] ?? OTHER);
      showNumber();
    },
    /** While an order has the animal, only the order changes its status. @param {boolean} locked */
    set locked(locked) {
      status.disabled = locked;
      hint.textContent = locked ? "Follows the order." : "";
    },
  };
  fields.values = initial;
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
  if (after.categoryId !== before?.categoryId) body.categoryId = BigInt(after.categoryId || 0);
  if (after.status !== (before?.status ?? "")) body.status = after.status || null;
  return body;
}
