// Cage cards and labels of animals.

import { el } from "../dom.js";
import { capitalized, count, groupDigits, plural } from "../format.js";
import { isLoopback } from "../loopback.js";
import { valueAt } from "../members.js";
import { names } from "../names.js";
import { formatPrice } from "../price.js";
import { qrCode } from "../qr.js";
import { currentSettings } from "../settings.js";
import { ageOf, dateOf } from "../times.js";
import { printDialog, setLengths } from "./dialog.js";
import { CAGE_CARDS, LABELS } from "./formats.js";

/** @import { CardFormat, Child, Pet, PrintFormat, Settings } from "../../types" */

/** A text of any script: it runs in its own direction. @param {string} tag @param {...Child} content */
const text = (tag, ...content) => content.some(Boolean) && el(tag, { dir: "auto" }, ...content);

/** Opens the animal in the console. @param {Pet} pet */
const codeOf = ({ id, name }) => qrCode(`${location.origin}${location.pathname}#/animals/${id}`, `QR code of ${name}`);

/** The members that laws want on a card, such as those of Maryland and New York on dogs and cats. */
const REQUIRED = { breed: "breed", sex: "sex", birthDate: "date of birth", color: "colour", "source.name": "source", microchip: "chip", price: "price" };

/** As it is shown at the cage, with the category above the name. @param {Pet} pet @param {Settings} shop */
function cageCard(pet, shop) {
  const { name, categoryId, breed, sex, birthDate, color, microchip, price, source, location: place } = pet;
  /** @type {[string, Child][]} */
  const facts = [
    ["Sex", capitalized(sex)],
    ["Born", birthDate && el("span", dateOf(birthDate), el("small", `${ageOf(birthDate)} when printed`))],
    ["Colour", text("span", color)],
    ["Chip", microchip && el("span.digits", groupDigits(microchip))],
    ["From", source && el("span", text("span", source.name), text("small", source.address))],
    ["Licence", text("span", source?.licence)],
    ["Location", text("span", place)],
  ];
  return el("article.cage-card.fit",
    el("div.card-head", text("b", shop.name), text("span", names.categories.get(String(categoryId)))),
    el("h3", { dir: "auto" }, name),
    text("p.breed", breed),
    el("dl", facts.filter(([, value]) => value).map(([label, value]) => el("div", el("dt", label), el("dd", value)))),
    el("footer", el("b.cost", price && formatPrice(price)), codeOf(pet)));
}

/** @param {Pet} pet */
const label = (pet) => el("article.animal-label.fit",
  el("div", el("h3", { dir: "auto" }, pet.name),
    pet.microchip && el("p.digits", groupDigits(pet.microchip)),
    pet.price && el("b", formatPrice(pet.price))),
  codeOf(pet));

/** Sheets of cards. Places before the first are left free. @param {CardFormat} format @param {HTMLElement[]} cards */
function sheets({ kind, columns, rows, card, left, top, gap }, cards, first = 1) {
  const size = columns * rows;
  const all = [...Array.from({ length: first - 1 }, () => el("div")), ...cards];
  return Array.from({ length: Math.ceil(all.length / size) }, (_, at) => {
    const grid = el("section", { class: `page sheet-of-cards ${kind}` }, all.slice(at * size, (at + 1) * size));
    grid.style.setProperty("--columns", String(columns));
    return setLengths(grid, { "card-width": card.width, "card-height": card.height, left, top, gap });
  });
}

/** Names the members that are not on the cards. @param {Pet[]} pets */
function missing(pets) {
  const lacking = Object.entries(REQUIRED).map(([path, label]) => ({ label, size: pets.filter((pet) => valueAt(pet, path) === undefined).length }))
    .filter(({ size }) => size);
  if (pets.length === 1) return lacking.length ? `Not recorded, so not on the card: ${lacking.map(({ label }) => label).join(", ")}.` : "";
  return lacking.length ? `Not recorded, so missing from some cards: ${lacking.map(({ label, size }) => `${label} (${count(size)})`).join(", ")}.` : "";
}

/**
 * @param {Pet[]} pets
 * @param {string} kind "cards" or "labels": what is offered first
 */
export async function printAnimals(pets, kind) {
  const shop = await currentSettings().catch(() => ({}));
  /** @param {CardFormat[]} formats @param {string} one @param {(pet: Pet) => HTMLElement} make @returns {PrintFormat[]} */
  const group = (formats, one, make, note = "") => formats.map((format) => ({ ...format, note,
    describe: (pages = 1) => `${plural(pets.length, one)} on ${plural(pages, "page")}`,
    places: make === label ? format.columns * format.rows : undefined,
    render: (first) => sheets(format, pets.map(make), first) }));
  const groups = [
    { label: "Cage cards", formats: group(CAGE_CARDS, "card", (pet) => cageCard(pet, shop), missing(pets)) },
    { label: "Labels", formats: group(LABELS, "label", label) },
  ];
  const hint = isLoopback() ? `Only this computer can open the QR codes: they lead to ${location.host}. Open the console at an address that phones can reach.` : "";
  return printDialog(pets.length === 1 ? `Print ${pets[0].name}` : `Print ${plural(pets.length, "animal")}`, kind,
    kind === "labels" ? groups.reverse() : groups, hint);
}
