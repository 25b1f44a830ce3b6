// Animals that were left as they are, with the reasons in words for people.

import { sentenceOf } from "../app.js";
import { el } from "../dom.js";
import { count } from "../format.js";
import { table } from "../list.js";
import { names } from "../names.js";

/** @import { RejectedAnimal } from "../../types" */

const MAX_SHOWN = 200;
/** The usual reasons, of a batch and of an undo. The service may add others. */
const REASONS = new Map(Object.entries({
  changed: "It was changed since.",
  deleted: "It was deleted since.",
  not_found: "It was deleted since.",
  ordered: "It was reserved or sold since.",
  microchip_taken: "Another animal has its microchip now.",
  pet_reserved: "It is reserved: complete or cancel its order first.",
  pet_sold: "It was sold with an order: return the order first.",
}));

/** A reason, by its code or else by the message of the service. */
export const reasonOf = (code = "", message = "") => REASONS.get(code) ?? sentenceOf(message.replace(/^[\w.-]+: /, ""));

/** Loads the names of the animals that a table of reasons shows. @param {RejectedAnimal[]} animals */
export const loadNames = (animals) => names.load([], animals.slice(0, MAX_SHOWN).map(({ id }) => id));

/** @param {RejectedAnimal[]} animals */
export const reasonTable = (animals) => el("div", table(["Animal", "Reason"], el("tbody", animals.slice(0, MAX_SHOWN).map(({ id, reason }) => {
  const name = names.pets.get(id);
  return el("tr", el("td", name ? el("a", { href: `#/animals/${id}` }, name) : `Animal ${id}`), el("td", reason));
})), "import-rows kept"), animals.length > MAX_SHOWN && el("div.more", `The first ${MAX_SHOWN} of ${count(animals.length)} are shown.`));
