// What is recorded of an animal or a sale, as a person reads it: only what is set.

import { groupDigits } from "./chip.js";
import { el } from "./dom.js";
import { formatPrice } from "./price.js";
import { ageOf, dateOf } from "./times.js";

/** @import { Child, Order, Pet } from "../types" */

/** @param {Record<string, Child>} all */
export function facts(all) {
  const shown = Object.entries(all).filter(([, value]) => value);
  return shown.length > 0 && el("dl.facts", shown.map(([label, value]) => el("div", el("dt", label), el("dd", value || ""))));
}

/** @param {string} title @param {Child} content */
const section = (title, content) => (content ? [el("h4", title), content] : []);

/** @param {Pet} pet @returns {Child[]} */
export function animalDetails({ breed, sex, birthDate, color, price, microchip, location, source, acquiredOn, ...pet }) {
  /** @param {string | undefined} text */
  const lines = (text) => text && el("p.lines", text);
  return [
    facts({
      Breed: breed,
      Sex: sex,
      Age: birthDate && el("span", ageOf(birthDate), el("small.muted", ` born ${dateOf(birthDate)}`)),
      Colour: color,
      Price: price && el("b", formatPrice(price)),
      Chip: microchip && el("span.digits", groupDigits(microchip)),
      Location: location,
    }),
    ...section("Description", lines(pet.description)),
    ...section("Notes for staff", lines(pet.notes)),
    ...section("Origin", facts({ Acquired: acquiredOn && dateOf(acquiredOn), From: source?.name, Address: source?.address, Licence: source?.licence })),
    ...section("Other details", facts(pet.metadata ?? {})),
  ];
}

/** @param {Order} order */
export const saleDetails = ({ price, buyer, reference }) => facts({
  Price: price && el("b", formatPrice(price)),
  Buyer: buyer?.name,
  Address: buyer?.address,
  Contact: buyer?.contact,
  Reference: reference,
});
