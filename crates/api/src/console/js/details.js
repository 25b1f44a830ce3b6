// Details of an animal or a sale, as a person reads them: only what is set.

import { el } from "./dom.js";
import { groupDigits } from "./format.js";
import { animal, sale, valueAt } from "./members.js";
import { formatPrice } from "./price.js";
import { ageOf, dateOf } from "./times.js";

/** @import { Child, Member, Order, Pet } from "../types" */

/** @type {Record<string, (value: any) => Child>} */
const SHOWN = {
  birth: (date) => el("span", ageOf(date), el("small.muted", ` born ${dateOf(date)}`)),
  date: dateOf,
  chip: (chip) => el("span.digits", groupDigits(chip)),
  price: (price) => el("b", formatPrice(price)),
};

/** @param {[string, Child][]} all */
const facts = (all) => el("dl.facts", all.map(([label, value]) => el("div", el("dt", label), el("dd", value || ""))));

/** @param {[string, Member][]} members @param {object} resource @returns {Child[]} */
function detailsOf(members, resource) {
  const set = members.map(([path, member]) => ({ ...member, value: valueAt(resource, path) }))
    .filter(({ section, value }) => section !== "head" && value !== undefined);
  return [...Map.groupBy(set, ({ section = "" }) => section)].flatMap(([title, some]) => {
    const [{ kind, value }] = some;
    return [
      title && el("h4", title),
      kind === "lines" ? el("p.lines", value)
        : kind === "pairs" ? facts(Object.entries(value))
        : facts(some.map(({ label, short = label, kind = "", value }) => [short, SHOWN[kind]?.(value) ?? value])),
    ];
  });
}

/** @param {Partial<Pet>} pet */
export const animalDetails = (pet) => detailsOf(animal.members, pet);

/** @param {Order} order */
export const saleDetails = (order) => detailsOf(sale.members, order);
