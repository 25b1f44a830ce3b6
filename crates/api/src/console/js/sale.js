// Sales: selling in one step, and corrections.

import { ApiError, get, send } from "./api.js";
import { message } from "./app.js";
import { fieldsOf } from "./fields.js";
import { formDialog } from "./forms.js";
import { sale } from "./members.js";
import { postOnce } from "./once.js";
import { typedPrice } from "./typed-price.js";

/** @import { Order, Pet, SaleValues } from "../types" */

/** A correction is tried again this often while others change the order. */
const ATTEMPTS = 5;
/** The errors of an animal or an order that another client has changed. */
const LOST = ["pet_not_available", "order_not_open", "order_not_returnable", "order_not_changeable"];
/** @param {unknown} error */
export const isLost = (error) => error instanceof ApiError && LOST.includes(error.code);

/** @param {SaleValues} initial */
function saleFields(initial) {
  const fields = fieldsOf(sale.members);
  fields.values = initial;
  return fields;
}

/**
 * Asks for the price, the buyer and a reference, and sells an animal. Enter takes the defaults.
 * @param {Pet} pet
 * @param {(order: Order) => void} take gets the order as it is placed and completed
 * @param {() => Promise<unknown>} lost another client was faster
 */
export function sellAnimal({ id, name, price }, take, lost) {
  const fields = saleFields({ ...sale.noValues, price: typedPrice(price) });
  const [place, complete] = [postOnce(), postOnce()];
  /** @type {Order | undefined} the order, if the sale was interrupted */
  let order;
  /** @type {SaleValues} what is recorded in it */
  let recorded;
  const sell = async () => {
    const { values } = fields;
    if (!order) {
      order = /** @type {Order} */ ((await place("store/orders", { petId: id, ...sale.changes(values) })).data);
      // Without a price, an order has the animal's.
      recorded = { ...values, price: typedPrice(order.price) };
      take(order);
    }
    const { id: orderId } = order;
    const corrections = sale.changes(values, recorded);
    if (Object.keys(corrections).length) await send("PATCH", `store/orders/${orderId}`, corrections);
    recorded = values;
    const { data } = await complete(`store/orders/${orderId}/complete`).catch((error) => {
      throw new ApiError(error.status, error.code,
        `Order ${orderId} reserves ${name}, but the sale is not complete. ${message(error)} Try again, or close this and complete the order later.`);
    });
    take(data);
  };
  return formDialog([`Sell ${name}`, "Sell"], [fields.grid()], () => sell().catch((error) => {
    if (!isLost(error)) throw error;
    return lost();
  }));
}

/**
 * Corrects the price, the buyer and the reference of an order.
 * @param {Order} order
 * @param {string} etag
 * @param {(order: Order, etag: string) => void} take
 */
export function correctSale(order, etag, take) {
  const path = `store/orders/${order.id}`;
  let base = sale.valuesOf(order);
  const fields = saleFields(base);
  formDialog([`Correct order ${order.id}`, "Save"], [fields.grid()], async () => {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const mine = sale.normalise(fields.values);
      const body = sale.changes(mine, base);
      if (!Object.keys(body).length) return take(order, etag);
      const saved = await send("PATCH", path, body, { "If-Match": etag }).catch((error) => {
        if (error.status !== 412) throw error;
      });
      if (saved) return take(saved.data, saved.etag ?? "");
      // The order was changed, perhaps by an earlier attempt whose response was lost.
      const current = await get(path);
      [order, etag] = [current.data, current.etag ?? ""];
      const theirs = sale.valuesOf(order);
      const edited = sale.names.filter((name) => mine[name] !== base[name]);
      const rivals = edited.filter((name) => theirs[name] !== base[name] && theirs[name] !== mine[name]);
      fields.values = { ...theirs, ...Object.fromEntries(edited.map((name) => [name, mine[name]])) };
      base = theirs;
      if (rivals.length) {
        throw new ApiError(412, "", rivals.map((name) =>
          `${name}: Somebody has changed this to “${theirs[name] || "nothing"}”. Save again to keep yours.`).join("; "));
      }
    }
    throw new ApiError(412, "", "Others are changing this order right now. Try again.");
  });
}
