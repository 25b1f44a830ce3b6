// The animal that has a chip.

import { go, itemHref } from "./address.js";
import { get } from "./api.js";
import { load, toast } from "./app.js";
import { dialog } from "./dialogs.js";
import { button, el } from "./dom.js";
import { groupDigits } from "./format.js";
import { can } from "./session.js";

/** @import { Pet } from "../types" */

/** The chip that was looked for last: another one may be scanned before the response. */
let wanted = "";

/** Opens the animal with this chip, or offers to add one. */
export async function openChip(chip = "") {
  wanted = chip;
  /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog[data-chip]"))?.close();
  const { data } = await get(`pets?microchip=${chip}&sort=desc`);
  if (chip !== wanted) return;
  const found = /** @type {Pet[]} */ (data);
  // The number of an animal that was sold can have been given to another one.
  const pet = found.find(({ status }) => status !== "sold") ?? found[0];
  if (pet) return go(itemHref("animals", String(pet.id)));
  if (!can("pets:write")) return toast(`No animal has the chip ${groupDigits(chip)}.`, "danger");
  const add = async () => {
    box.close();
    const { addAnimal } = await load(import("./animal-form.js"));
    addAnimal({ microchip: chip }, ({ id }) => go(itemHref("animals", String(id))));
  };
  const box = dialog("No animal has this chip", el("p.digits", groupDigits(chip)),
    el("div.actions", button("Add an animal with this chip", "primary", add), button("Cancel", "", () => box.close())));
  box.dataset.chip = chip;
}
