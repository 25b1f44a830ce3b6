// The paper of an order: a receipt, or a reservation.

import { get, getAll } from "../api.js";
import { el } from "../dom.js";
import { capitalized, groupDigits } from "../format.js";
import { names } from "../names.js";
import { formatPrice } from "../price.js";
import { can } from "../session.js";
import { currentSettings } from "../settings.js";
import { dateOf, minuteOf } from "../times.js";
import { printDialog } from "./dialog.js";
import { RECEIPTS } from "./formats.js";

/** @import { Child, Order, Pet, Settings, StoreEvent } from "../../types" */

/** The most changes of an animal after its sale behind which it is looked up. */
const MAX_CHANGES = 1000;

/** The title of the paper, and a note about an order that is no sale. */
const TITLES = {
  placed: ["Reservation", "This is not a receipt: the animal is not paid for."],
  completed: ["Receipt", ""],
  cancelled: ["Cancelled", "This reservation was cancelled. The animal was not sold."],
  returned: ["Returned", "The animal was returned. This sale is no longer valid."],
};

/** The name and address at the head of every receipt. @param {Settings} shop */
export const shopHead = ({ name, address }) => el("header.shop-head",
  name && el("h3", { dir: "auto" }, name), address && el("p.lines", { dir: "auto" }, address));

/** @param {[string, Child][]} all */
const facts = (all) => el("dl", all.filter(([, value]) => value).map(([label, value]) =>
  el("div", el("dt", label), el("dd", { dir: "auto" }, value))));

/** @param {string} kind of paper, as a class @param {Order} order @param {Partial<Pet>} pet @param {Settings} shop */
function receiptOf(kind, order, pet, shop) {
  const { id, petId, status, createdAt, expiresAt, completedAt, returnedAt, price, buyer, reference } = order;
  const { name, categoryId, breed, sex, color, birthDate, microchip } = pet;
  const [title, notice] = TITLES[status];
  const isSale = status === "completed" || status === "returned";
  return el("section", { class: `page receipt ${kind}` },
    shopHead(shop),
    el("h2", title),
    notice && el("p.receipt-notice", notice),
    facts([
      ["Order", String(id)],
      ["Reference", reference],
      ["Reserved on", !isSale && minuteOf(createdAt)],
      ["Reserved until", status === "placed" && expiresAt && minuteOf(expiresAt)],
      ["Sold on", completedAt && minuteOf(completedAt)],
      ["Returned on", returnedAt && minuteOf(returnedAt)],
      ["Printed on", !isSale && minuteOf(new Date().toISOString())],
    ]),
    buyer && el("h3", "Buyer"),
    buyer && facts([["Name", buyer.name], ["Address", buyer.address], ["Contact", buyer.contact]]),
    el("h3", "Animal"),
    facts([
      ["Name", name ?? `Animal ${petId}`],
      ["Category", [names.categories.get(String(categoryId)), breed].filter(Boolean).join(", ")],
      ["Sex", capitalized(sex)],
      ["Colour", color],
      ["Born", birthDate && dateOf(birthDate)],
      ["Chip", microchip && groupDigits(microchip)],
    ]),
    price && el("p.total", el("span", status === "completed" ? "Total" : "Price"), el("b", formatPrice(price))),
    shop.receiptText && el("p.lines.receipt-text", { dir: "auto" }, shop.receiptText));
}

/** The animal of an order as it was when it was sold; else as it is, or as it was when it was deleted, as far as that is kept. @param {Order} order @returns {Promise<Partial<Pet>>} */
async function petOf({ id, petId, completedAt = "" }) {
  if (!can("pets:read")) return {};
  if (completedAt) {
    /** @type {{ data: StoreEvent[] }} */
    const { data } = await get(`events?subject=pets/${petId}&sort=desc&limit=${MAX_CHANGES}`);
    const then = data.find(({ time }) => Date.parse(time) <= Date.parse(completedAt));
    if (then) return then.data;
  }
  const [pet] = (await get(`pets?id=${petId}`)).data;
  if (pet) return pet;
  const [last] = (await get(`events?subject=pets/${petId}&sort=desc&limit=1`)).data;
  if (last) return last.data;
  const day = completedAt.slice(0, 10);
  const sold = day ? await getAll("store/register", `?entry=sold&from=${day}&to=${day}&timeZone=UTC&limit=100`) : [];
  return sold.find(({ sale }) => sale.orderId === id) ?? {};
}

/** @param {Order} order */
export async function printReceipt(order) {
  const [shop, pet] = await Promise.all([currentSettings(), petOf(order), can("pets:read") && names.loadCategories()]);
  const [title] = TITLES[order.status];
  const formats = RECEIPTS.map((format) => ({ ...format, render: () => [receiptOf(format.kind, order, pet, shop)] }));
  return printDialog(order.status === "completed" ? `Receipt of order ${order.id}` : `${title}, order ${order.id}`, "receipts", [{ label: "Paper", formats }],
    shop.name ? "" : "The shop has no name yet: an owner can set it under “The shop”, in the menu with your name.");
}
