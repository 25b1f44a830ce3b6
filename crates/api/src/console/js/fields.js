// The fields of a record in a form.

import { el } from "./dom.js";
import { field } from "./forms.js";
import { shopSettings } from "./settings.js";
import { priceInputs } from "./typed-price.js";

/** @import { Control, Member } from "../types" */

/** @param {string} name @param {Member} member @returns {Control} */
function controlOf(name, { kind, choices = {}, max = kind === "lines" ? 2000 : 100, required, placeholder }) {
  if (kind === "price") {
    const inputs = priceInputs();
    shopSettings().then(inputs.suggest, () => {});
    return inputs;
  }
  if (kind === "choice") return el("select", { name }, Object.entries(choices).map(([value, label]) => el("option", { value }, label)));
  if (kind === "lines") return el("textarea", { name, rows: 2, maxlength: max, placeholder });
  if (kind === "pairs") return el("textarea", { name, rows: 2, placeholder });
  const type = kind === "date" || kind === "birth" ? "date" : "text";
  return el("input", { name, type, required, placeholder, autocomplete: "off", maxlength: max, inputmode: kind === "chip" && "numeric" });
}

/**
 * @template {string} Name
 * @param {[Name, Member][]} members
 * @param {Record<string, Control>} [own] controls instead of the usual ones
 * @param {Record<string, HTMLElement>} [hints]
 */
export function fieldsOf(members, own = {}, hints = {}) {
  const controls = /** @type {Record<Name, Control>} */ (
    Object.fromEntries(members.map(([name, member]) => [name, own[name] ?? controlOf(name, member)])));
  return {
    controls,
    /** @param {(member: Member) => boolean} [isWanted] */
    grid: (isWanted = () => true) => el("div.grid", members.filter(([, member]) => isWanted(member)).map(([name, { label }]) => {
      const control = controls[name];
      return field(label, control instanceof HTMLElement ? control : control.element, hints[name]);
    })),
    get values() {
      return /** @type {Record<Name, string>} */ (Object.fromEntries(members.map(([name]) => [name, controls[name].value])));
    },
    /** The cursor stays in a field that does not change. */
    set values(values) {
      for (const [name] of members) if (name in own || controls[name].value !== values[name]) controls[name].value = values[name];
    },
  };
}
