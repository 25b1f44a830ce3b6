// The fields of an animal, and the dialog that adds one.

import { get } from "./api.js";
import { toast } from "./app.js";
import { createCategory } from "./categories.js";
import { el, fill } from "./dom.js";
import { field, formDialog } from "./forms.js";
import { LABELS, NO_VALUES, changes } from "./members.js";
import { names } from "./names.js";
import { postOnce } from "./once.js";
import { priceInputs } from "./price.js";

/** @import { ApiError } from "./api.js" */
/** @import { Attributes, Pet, Values } from "../types" */

/** Instead of the number of a category: its name is typed, or its number. */
const [NEW, OTHER] = ["new", "other"];

/** @param {Values} initial */
export function animalFields(initial) {
  const text = { required: true, autocomplete: "off" };
  const newName = el("input", { ...text, maxlength: 100, "aria-label": "New category", placeholder: "Such as Rabbits" });
  const number = el("input", { ...text, inputmode: "numeric", pattern: "-?[0-9]{1,19}",
    title: "A whole number", "aria-label": "Number of the category", placeholder: "Number, such as 3" });
  const category = el("select", { name: "categoryId", onchange: () => showTyped()?.focus() });
  const hint = el("small");
  const price = priceInputs();
  /** @param {keyof Values} name @param {Attributes} [more] */
  const input = (name, more) => el("input", { name, autocomplete: "off", maxlength: name.startsWith("source.") ? 200 : 100, ...more });
  /** @param {keyof Values} name @param {Attributes} [more] */
  const area = (name, more) => el("textarea", { name, rows: 2, maxlength: 2000, ...more });
  /** @param {keyof Values} name @param {Record<string, string>} options */
  const select = (name, options) => el("select", { name }, Object.entries(options).map(([value, label]) => el("option", { value }, label)));
  const status = select("status", { available: "available", pending: "pending", sold: "sold", "": "no status" });
  /** @type {Record<string, { value: string }>} the fields whose values are their texts */
  const plain = {
    name: input("name", { required: true, maxlength: 255 }),
    status,
    breed: input("breed"),
    color: input("color"),
    sex: select("sex", { "": "–", female: "female", male: "male", unknown: "unknown" }),
    birthDate: input("birthDate", { type: "date" }),
    microchip: input("microchip", { inputmode: "numeric", placeholder: "9, 10 or 15 digits" }),
    location: input("location", { placeholder: "Such as Kennel 4" }),
    price,
    description: area("description", { placeholder: "For customers" }),
    notes: area("notes", { placeholder: "For staff only" }),
    acquiredOn: input("acquiredOn", { type: "date" }),
    "source.name": input("source.name"),
    "source.address": input("source.address"),
    "source.licence": input("source.licence"),
    metadata: area("metadata", { placeholder: "One per line, such as litter: 2026-07", maxlength: false }),
  };
  const showTyped = () => {
    const typed = { [NEW]: newName, [OTHER]: number }[category.value];
    for (const input of [newName, number]) input.hidden = input.disabled = input !== typed;
    return typed;
  };
  /** @param {...keyof Values} some */
  const labelled = (...some) => some.map((name) => field(LABELS[name], /** @type {any} */ (plain[name])));
  const fields = {
    elements: [
      el("div.grid", field(LABELS.name, /** @type {any} */ (plain.name)),
        el("div.field", field(LABELS.categoryId, category), newName, number), field(LABELS.status, status, hint),
        labelled("breed", "color", "sex", "birthDate", "microchip", "location"), field(LABELS.price, price.element)),
      el("details", el("summary", "Description, notes, origin and more"),
        el("div.grid", labelled("description", "notes", "acquiredOn", "source.name", "source.address", "source.licence", "metadata"))),
    ],
    /** @returns {Values} */
    get values() {
      const id = (category.value === OTHER && number.value.trim()) || category.value;
      const texts = Object.entries(plain).map(([name, { value }]) => [name, value]);
      return { ...NO_VALUES, ...Object.fromEntries(texts), categoryId: id };
    },
    set values(values) {
      for (const [name, input] of Object.entries(plain)) {
        const value = values[/** @type {keyof Values} */ (name)];
        if (input.value !== value) input.value = value;
      }
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
    /** Names the animal that has the same chip, and leads there. @param {ApiError} error */
    async explain({ code }) {
      if (code !== "microchip_taken") return;
      const { data } = await get(`pets?microchip=${encodeURIComponent(plain.microchip.value)}`);
      const other = /** @type {Pet[]} */ (data).find(({ status }) => status !== "sold");
      return other && [el("a", { href: `#/animals/${other.id}` }, other.name), " has this chip."];
    },
  };
  fields.values = initial;
  return fields;
}

/** @param {Partial<Values>} initial the category that is chosen at first, and the like @param {(pet: Pet) => void} added */
export function addAnimal(initial, added) {
  const fields = animalFields({ ...NO_VALUES, status: "available", ...initial });
  const post = postOnce();
  const box = formDialog(["Add animal", "Add animal"], fields.elements, async () => {
    const { data } = await post("pets", changes(await fields.complete()));
    toast(`${data.name} was added.`);
    added(data);
  }, fields.explain);
  box.classList.add("large");
  box.addEventListener("click", ({ target }) => target instanceof HTMLAnchorElement && box.close());
  if (!names.categories.size) names.loadCategories().then(() => (fields.values = fields.values), () => {});
}
