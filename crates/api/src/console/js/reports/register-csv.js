// Saves a register as CSV, with the columns and cells of `petstore register`.

import { load } from "../app.js";
import { loadEscape, saveCsv } from "../csv.js";
import { localDay } from "../days.js";
import { names } from "../names.js";
import { decimal } from "../price.js";

/** @import { Days, Escape, RegisterEntry } from "../../types" */

const dayOf = (time = "") => time && localDay(time);

/** @type {Record<string, (entry: RegisterEntry, escape: Escape) => string | undefined>} */
const COLUMNS = {
  petId: ({ petId }) => String(petId),
  name: ({ name }, escape) => escape(name),
  categoryId: ({ categoryId }) => String(categoryId ?? ""),
  category: ({ categoryId }, escape) => escape(names.categories.get(String(categoryId))),
  breed: ({ breed }, escape) => escape(breed),
  sex: ({ sex }) => sex,
  birthDate: ({ birthDate }) => birthDate,
  color: ({ color }, escape) => escape(color),
  microchip: ({ microchip }) => microchip,
  acquiredOn: ({ acquiredOn }) => acquiredOn,
  "source.name": ({ source }, escape) => escape(source?.name),
  "source.address": ({ source }, escape) => escape(source?.address),
  "source.licence": ({ source }, escape) => escape(source?.licence),
  deletedOn: ({ deletedAt }) => dayOf(deletedAt),
  orderId: ({ sale }) => sale && String(sale.orderId),
  soldOn: ({ sale }) => dayOf(sale?.soldAt),
  price: ({ sale }) => sale?.price && decimal(sale.price),
  currency: ({ sale }) => sale?.price?.currency,
  "buyer.name": ({ sale }, escape) => escape(sale?.buyer?.name),
  "buyer.address": ({ sale }, escape) => escape(sale?.buyer?.address),
  "buyer.contact": ({ sale }, escape) => escape(sale?.buyer?.contact),
  reference: ({ sale }, escape) => escape(sale?.reference),
  returnedOn: ({ sale }) => dayOf(sale?.returnedAt),
};

/** @param {"acquired" | "sold"} kind @param {Days} days @param {RegisterEntry[]} entries */
export async function saveRegister(kind, { from, to }, entries) {
  const escape = await load(loadEscape());
  saveCsv(`register-${kind}-${from}-${to}.csv`, [["entry", ...Object.keys(COLUMNS)],
    ...entries.map((entry) => [kind, ...Object.values(COLUMNS).map((cell) => cell(entry, escape) ?? "")])]);
}
