// One order: its animal, price, buyer and reference, and their corrections.

import { getKept, send } from "../api.js";
import { act, actButton, load as loadPart, retries, showFailure, toast } from "../app.js";
import { saleDetails } from "../details.js";
import { confirm } from "../dialogs.js";
import { button, closeLink, el, empty, fill, nameOf, pill } from "../dom.js";
import { historyOf } from "../history.js";
import { names } from "../names.js";
import { correctSale } from "../sale.js";
import { can } from "../session.js";
import { loadStyles } from "../styles.js";
import { timeOf } from "../times.js";

/** @import { Order, StoreEvent } from "../../types" */

await loadStyles("log.css");

/** The panel of an order. @param {number} id @param {(order: Order) => void} changed */
export function orderPanel(id, changed) {
  const path = `store/orders/${id}`;
  const title = el("h2", { tabindex: -1 }, `Order ${id}`);
  const content = el("div", el("p.more", "Loading…"));
  const end = new AbortController();
  const history = historyOf(`orders/${id}`, end.signal);
  const past = el("div", el("h3", "History"), history.element);
  const element = el("aside.panel", { "aria-label": "Order" }, title, content, past,
    closeLink("orders"));

  /** The time of the order that is shown: responses may overtake each other. */
  let shown = 0;

  /** @param {Order} order */
  const paint = (order, etag = "") => {
    if (Date.parse(order.updatedAt) < shown) return;
    shown = Date.parse(order.updatedAt);
    const { petId, status, createdAt, completedAt, returnedAt, updatedAt, buyer } = order;
    const steps = Object.entries({ Placed: createdAt, sold: completedAt, returned: returnedAt, changed: updatedAt });
    const name = names.animal(petId);
    const hadFocus = content.contains(document.activeElement);
    const details = saleDetails(order);
    const isOpen = status === "placed" || status === "completed";
    const take = (/** @type {Order} */ now, etag = "") => {
      paint(now, etag);
      changed(now);
    };
    const print = button("Print…", "", () => act(print, async () => {
      const { printReceipt } = await loadPart(import("../print/receipt.js"));
      await printReceipt(order);
    }), { title: status === "completed" ? "Print a receipt" : "Print this order" });
    fill(content,
      el("div.meta", name ? nameOf("a", name, { href: `#/animals/${petId}` }) : el("span", `Animal ${petId}`),
        names.pets.get(petId) === "" && ", deleted",
        // The last step is a change, too.
        el("div", steps.filter(([, time], at) => time && !steps.slice(0, at).some(([, other]) => other === time))
          .flatMap(([step, time = ""], at) => [at ? ` · ${step} ` : `${step} `, timeOf(time)]))),
      pill(status, status === "placed" ? "open" : status),
      el("h3", "Sale"), ...(details.length ? details : [el("p.hint", "No price, buyer or reference is recorded.")]),
      el("div.actions", name && el("a.btn", { href: `#/animals/${petId}` }, "Show the animal"), print, can("orders:write") && [
        isOpen && button("Correct…", "", () => correctSale(order, etag, take), { "data-write": true }),
        buyer && actButton("Erase buyer…", "danger", async () => {
          if (!(await confirm("Erase the buyer?", `${buyer.name} is removed from order ${id}. This cannot be undone.`, "Erase"))) return;
          const { data, etag } = await send("PATCH", path, { buyer: null });
          toast("The buyer was erased.");
          take(data, etag);
        }),
      ]));
    if (hadFocus) title.focus();
  };

  const load = async () => {
    try {
      const { data, etag, isOld } = await getKept(path);
      await names.load([], [data.petId]);
      await names.loadDeleted([data.petId]);
      if (isOld) retries.add(() => void (end.signal.aborted || load()));
      paint(data, etag);
    } catch (error) {
      past.hidden = /** @type {any} */ (error).status === 404;
      if (past.hidden) fill(content, empty("There is no such order"));
      else showFailure(content, error, load);
    }
  };
  load();
  return {
    id,
    element,
    /** @param {StoreEvent} event */
    onEvent(event) {
      history.add(event);
      load();
    },
    focus: () => title.focus(),
    close() {
      end.abort();
      element.remove();
    },
  };
}
