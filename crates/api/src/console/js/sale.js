// Sales: selling in one step, and corrections.

import { ApiError, send } from "./api.js";
import { message } from "./app.js";
import { fieldsOf } from "./fields.js";
import { formDialog } from "./forms.js";
import { sale } from "./members.js";
import { postOnce } from "./once.js";
import { saver } from "./save.js";
import { typedPrice } from "./typed-price.js";

/** @import { Order, Pet, SaleValues } from "../types" */

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
  const place = postOnce();
  const complete = postOnce();
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
  const fields = saleFields(sale.valuesOf(order));
  const save = saver(sale, fields, `store/orders/${order.id}`, { data: order, etag });
  formDialog([`Correct order ${order.id}`, "Save"], [fields.grid()], async () => {
    const saved = await save();
    take(saved.data, saved.etag ?? "");
  });
}
