// Sales: what is recorded of one, selling in one step, corrections.

import { ApiError, get, send } from "./api.js";
import { el } from "./dom.js";
import { field, formDialog } from "./forms.js";
import { SALE_FIELDS, SALE_LABELS, saleChanges, saleValuesOf } from "./members.js";
import { postOnce } from "./once.js";
import { priceInputs, typedPrice } from "./price.js";

/** @import { Order, Pet, SaleValues } from "../types" */

/** @param {SaleValues} initial */
function saleFields(initial) {
  const price = priceInputs();
  /** @param {keyof SaleValues} name */
  const input = (name, placeholder = "") => el("input", { name, placeholder, autocomplete: "off", maxlength: name === "reference" ? 100 : 200 });
  const inputs = {
    price,
    reference: input("reference", "Receipt number"),
    "buyer.name": input("buyer.name"),
    "buyer.address": input("buyer.address"),
    "buyer.contact": input("buyer.contact"),
  };
  const fields = {
    element: el("div.grid", SALE_FIELDS.map((name) => field(SALE_LABELS[name], name === "price" ? price.element : /** @type {any} */ (inputs[name])))),
    get values() {
      return /** @type {SaleValues} */ (Object.fromEntries(SALE_FIELDS.map((name) => [name, inputs[name].value])));
    },
    set values(values) {
      for (const name of SALE_FIELDS) if (inputs[name].value !== values[name]) inputs[name].value = values[name];
    },
  };
  fields.values = initial;
  return fields;
}

/**
 * Asks for the price, the buyer and a reference, and sells an animal. Enter takes the defaults.
 * @param {Pet} pet
 * @param {(order: Order) => void} take gets the order as it is placed and completed
 * @param {(error: ApiError) => Promise<unknown>} lost the animal is no longer available
 */
export function sellAnimal({ id, name, price }, take, lost) {
  const fields = saleFields({ ...saleValuesOf({}), price: typedPrice(price) });
  const [place, complete] = [postOnce(), postOnce()];
  /** @type {Order | undefined} the order, if the sale was interrupted */
  let order;
  /** @type {SaleValues} what is recorded in it */
  let recorded;
  return formDialog([`Sell ${name}`, "Sell"], [fields.element], async () => {
    const { values } = fields;
    const members = Object.entries(saleChanges(values)).filter(([, value]) => value !== null);
    try {
      if (!order) {
        order = /** @type {Order} */ ((await place("store/orders", { petId: id, ...Object.fromEntries(members) })).data);
        // Without a price, an order has the animal's.
        recorded = { ...values, price: typedPrice(order.price) };
        take(order);
      }
      const path = `store/orders/${order.id}`;
      const corrections = saleChanges(values, recorded);
      if (Object.keys(corrections).length) await send("PATCH", path, corrections);
      recorded = values;
      take((await complete(`${path}/complete`)).data);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409) throw error;
      await lost(error);
    }
  });
}

/**
 * Corrects the price, the buyer and the reference of an order.
 * @param {Order} order
 * @param {string} etag
 * @param {(order: Order, etag: string) => void} take
 */
export function correctSale(order, etag, take) {
  const path = `store/orders/${order.id}`;
  let base = saleValuesOf(order);
  const fields = saleFields(base);
  formDialog([`Correct order ${order.id}`, "Save"], [fields.element], async () => {
    for (;;) {
      const mine = fields.values;
      const body = saleChanges(mine, base);
      if (!Object.keys(body).length) return take(order, etag);
      const saved = await send("PATCH", path, body, { "If-Match": etag }).catch((error) => {
        if (error.status !== 412) throw error;
      });
      if (saved) return take(saved.data, saved.etag ?? "");
      // The order was changed, perhaps by an earlier attempt whose response was lost.
      const current = await get(path);
      [order, etag] = [current.data, current.etag ?? ""];
      const theirs = saleValuesOf(order);
      const edited = SALE_FIELDS.filter((name) => mine[name] !== base[name]);
      const rivals = edited.filter((name) => theirs[name] !== base[name] && theirs[name] !== mine[name]);
      fields.values = { ...theirs, ...Object.fromEntries(edited.map((name) => [name, mine[name]])) };
      base = theirs;
      if (rivals.length) {
        throw new ApiError(412, "", rivals.map((name) =>
          `${name}: Somebody has changed this to “${theirs[name] || "nothing"}”. Save again to keep yours.`).join("; "));
      }
    }
  });
}
