// Orders: the open ones first, live, each with what can be done with it.

import { get } from "../api.js";
import { actButton, toast } from "../app.js";
import { button, el, empty, pill } from "../dom.js";
import { count, plural } from "../format.js";
import { liveList, table } from "../list.js";
import { names } from "../names.js";
import { postOnce } from "../once.js";
import { formatPrice } from "../price.js";
import { can, key } from "../session.js";
import { tabs } from "../tabs.js";
import { every, exactly, left, when } from "../times.js";
import { orderPanel } from "./order.js";

/** @import { Mount, Order } from "../../types" */

const TABS = { placed: "Open", completed: "Completed", cancelled: "Cancelled", returned: "Returned", "": "All" };
const TYPES = "order.placed,order.updated,order.completed,order.cancelled,order.returned";
/** What can be done with an order of a status: label, classes, and what happens to the animal. */
const STEPS = {
  placed: [["Complete", "primary", "is sold"], ["Cancel", "", "is available again"]],
  completed: [["Return", "", "was returned, and is available again"]],
  cancelled: [],
  returned: [],
};

/** @type {Mount} */
export function mount(root, rest, end) {
  let status = "";
  /** @type {ReturnType<typeof orderPanel> | null} */
  let panel = null;
  /** @type {Map<string, string | undefined>} the keys that have changed orders last */
  const keys = new Map();

  const list = liveList(end, {
    key: (/** @type {Order} */ { id }) => id,
    row(order) {
      const { id, petId, updatedAt, expiresAt } = order;
      const name = names.pets.get(petId);
      const subject = `orders/${id}`;
      const steps = can("orders:write") ? STEPS[order.status] : [];
      return el("tr", { class: panel?.id === id && "selected" },
        el("td", name ? el("a", { href: `#/animals/${petId}` }, name) : el("span.muted", nameOf(order), name === "" && ", deleted")),
        el("td", pill(order.status, order.status === "placed" ? "open" : order.status),
          order.status === "placed" && el("small.left", { "data-until": expiresAt }, left(expiresAt))),
        el("td.amount", order.price && formatPrice(order.price)),
        el("td.when", { title: exactly(updatedAt) },
          when(updatedAt), keys.has(subject) && ` by ${names.who(keys.get(subject))}`),
        el("td.wide.number", String(id)),
        el("td.steps", steps.map(([label, kind, result]) => step(order, label, kind, result)),
          button("Details", "small quiet", () => (location.hash = `#/orders/${id}`), { "aria-label": `Details of order ${id}` })));
    },
    matches: (order) => !status || order.status === status,
    added: (page) => complete(page),
    apply({ type, subject, keyid, data }) {
      if (type.startsWith("order.")) {
        keys.set(subject, keyid);
        list.take(data);
        complete([data]);
      } else if (type.startsWith("pet.")) {
        list.paint(list.items().filter(({ petId }) => petId === data.id).map(({ id }) => id));
      }
    },
    foot(size, isLast) {
      if (size) return isLast ? plural(size, "order") : `${count(size)} · scroll for more`;
      return empty(status === "placed" ? "No open orders" : "No orders",
        el("p", "Reserve an available animal, and its order appears here."), el("a.btn", { href: "#/animals" }, "Animals"));
    },
  });

  /** @param {Order} order */
  const nameOf = ({ petId }) => names.pets.get(petId) || `Animal ${petId}`;

  /** @param {Order} order */
  const step = (order, label = "", kind = "", result = "") => {
    const path = `store/orders/${order.id}`;
    const post = postOnce();
    return actButton(label, `small ${kind}`, async () => {
      const { data } = await post(`${path}/${label.toLowerCase()}`);
      keys.set(`orders/${order.id}`, String(key.id));
      toast(`${nameOf(order)} ${result}.`);
      list.take(data);
    }, async (error) => {
      if (error.status !== 409) return false;
      const { data } = await get(path);
      if (data.status === order.status) return false;
      toast(`Somebody was faster: order ${order.id} is ${data.status}.`, "danger");
      list.take(data);
    });
  };

  /** Loads the names of animals and keys, and shows them. @param {Order[]} some */
  const complete = async (some) => {
    await names.load([...keys.values()], some.map(({ petId }) => petId));
    list.paint(some.map(({ id }) => id));
  };

  every(1, () => {
    for (const time of list.body.querySelectorAll(".left")) time.textContent = left(time.getAttribute("data-until") ?? "");
  }, end);

  const split = el("div.split", el("section", { "aria-label": "List" }, tabs("Status", TABS, (value) => {
    status = value;
    list.start(`store/orders?sort=desc&limit=50${status && `&status=${status}`}`);
  }), table(["Animal", "Status", el("th.amount", "Price"), "Changed", el("th.wide", "Order"), ""], list.body), list.more));
  root.append(split);

  const show = (id = "") => {
    const previous = panel?.id;
    if (previous === Number(id)) return;
    panel?.element.remove();
    panel = /^\d+$/.test(id) ? orderPanel(Number(id), list.take) : null;
    if (panel) split.append(panel.element);
    list.paint();
    if (panel) panel.focus();
    else if (previous) list.focus(previous);
  };
  show(rest);

  // Orders do not say who has changed them; events do.
  get(`events?types=${TYPES}&sort=desc&limit=1000`).then(({ data }) => {
    for (const { subject, keyid } of data) if (!keys.has(subject)) keys.set(subject, keyid);
    complete(list.items());
  }, () => {});

  return {
    show,
    onEvent(event) {
      list.onEvent(event);
      if (event.subject === `orders/${panel?.id}`) panel?.load();
    },
  };
}
