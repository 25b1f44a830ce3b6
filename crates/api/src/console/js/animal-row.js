// An animal in the list: its name, and a second line with what tells it apart.

import { go, itemHref } from "./address.js";
import { el, nameOf, pill } from "./dom.js";
import { groupDigits } from "./format.js";
import { names } from "./names.js";
import { cover } from "./pictures.js";
import { formatPrice } from "./price.js";
import { ageOf } from "./times.js";

/** @import { Child, Pet } from "../types" */

/** Parts of a line, with a dot between them. @param {Child[]} parts */
export const line = (...parts) => {
  const shown = parts.filter(Boolean);
  return shown.flatMap((part, at) => (at ? [" · ", part] : [part]));
};

/** @param {Pet} pet @param {boolean} isOpen in the panel @param {Child} pick the cell that selects it */
export function animalRow(pet, isOpen, pick) {
  const { id, name, categoryId, status, breed, sex, birthDate, price, microchip, location } = pet;
  const href = itemHref("animals", String(id));
  // The row outlives its cells, and the filters may change.
  return el("tr", { class: isOpen && "selected", onclick: () => go(itemHref("animals", String(id))) }, pick,
    el("td.main", cover(pet), nameOf("a", name, { href }), el("small.line",
      line(breed && el("span", breed), birthDate && el("span", ageOf(birthDate)), el("span", names.category(categoryId)),
        sex && sex !== "unknown" && el("span", sex)),
      location && el("span.narrow", " · ", location), microchip && el("span.digits", " · ", groupDigits(microchip)))),
    el("td.wide", el("span.place", { title: location }, location)),
    el("td.amount", price && formatPrice(price)),
    el("td", status ? pill(status) : pill("none", "not for sale")));
}
