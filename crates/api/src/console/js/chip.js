// Chips: their numbers, and the animals that have them. A scanner is a keyboard that types the digits and Enter.

import { get } from "./api.js";
import { load, toast } from "./app.js";
import { button, el } from "./dom.js";
import { dialog } from "./forms.js";
import { can } from "./session.js";

/** @import { Pet } from "../types" */

/** "985 112 004 567 890". */
export const groupDigits = (chip = "") => chip.match(/.{1,3}/g)?.join(" ") ?? "";

/** The digits of a text that looks like the number of a chip, or "". */
export function chipOf(text = "") {
  const digits = text.replace(/[\s-]/g, "");
  return /^(\d{9,10}|\d{15})$/.test(digits) ? digits : "";
}

/** Opens the animal with this chip, or offers to add one. */
export async function openChip(chip = "") {
  const { data } = await get(`pets?microchip=${chip}&sort=desc`);
  const found = /** @type {Pet[]} */ (data);
  // The number of an animal that was sold can have been given to another one.
  const pet = found.find(({ status }) => status !== "sold") ?? found[0];
  if (pet) return void (location.hash = `#/animals/${pet.id}`);
  if (!can("pets:write")) return toast(`No animal has the chip ${groupDigits(chip)}.`, "danger");
  const add = async () => {
    box.close();
    const { addAnimal } = await load(import("./animal-form.js"));
    addAnimal({ microchip: chip }, ({ id }) => (location.hash = `#/animals/${id}`));
  };
  const box = dialog("No animal has this chip", el("p.number", groupDigits(chip)),
    el("div.actions", button("Add an animal with this chip", "primary", add), button("Cancel", "", () => box.close())));
}
