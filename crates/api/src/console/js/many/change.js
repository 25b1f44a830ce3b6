// Asks for the new value of one member of many animals.

import { animalFields } from "../animal-form.js";
import { el } from "../dom.js";
import { plural } from "../format.js";
import { formDialog } from "../forms.js";
import { animal } from "../members.js";
import { names } from "../names.js";
import { formatPrice } from "../price.js";

/** @import { MemberChange, Values } from "../../types" */

/** @typedef {"status" | "categoryId" | "location" | "price"} ManyMember */

/** The value as a person reads it, or "". @param {ManyMember} name @param {any} value */
function textOf(name, value) {
  if (value === null) return "";
  return name === "categoryId" ? names.category(value) : name === "price" ? formatPrice(value) : String(value);
}

/**
 * @param {ManyMember} name
 * @param {number} size
 * @param {Partial<Values>} initial
 * @param {(change: MemberChange) => void} apply
 */
export function askMember(name, size, initial, apply) {
  const fields = animalFields({ ...animal.noValues, status: "available", ...initial });
  const label = animal.label(name);
  const canBeEmpty = name === "location" || name === "price";
  const hint = canBeEmpty && el("p.hint", `Leave it empty to remove the ${label.toLowerCase()}.`);
  const content = [fields.grid((member) => member.label === label), hint];
  formDialog([`${label} of ${plural(size, "animal")}`, `Change ${plural(size, "animal")}`], content, async () => {
    // Only a category is created: without any, “New category…” is chosen in the field that is not shown, too.
    const values = name === "categoryId" ? await fields.complete() : fields.values;
    const value = animal.changes(values)[name] ?? null;
    const text = textOf(name, value);
    const effect = `${text ? "the" : "no"} ${label.toLowerCase()}${text && ` ${text}`}`;
    apply({ name: `${label}: ${text || "none"}`, update: { [name]: value },
      effect: (done) => `${plural(done, "animal has", "animals have")} ${effect} now.` });
  });
}
