// Orders: the open ones first, live, each with what can be done with it.

import { toast } from "../app.js";
import { el, fill, refill } from "../dom.js";
import { count, exactly, left, plural, when } from "../format.js";
import { arrows, pagedList, table, tabs } from "../list.js";

/** @import { Order } from "../api.js" */

const TABS = { placed: "Open", completed: "Completed", cancelled: "Cancelled", returned: "Returned", "": "All" };
/** @type {Record<string, { label: string, kind: string, result: string }[]>} */
const STEPS = {
  placed: [{ label: "Complete", kind: "primary", result: "is sold" }, { label: "Cancel", kind: "", result: "is available again" }],
  completed: [{ label: "Return", kind: "", result: "was returned, and is available again" }],
};

/** @type {import("../app.js").Mount} */
export function orders(root, app) {
  const { api, names } = app;
  let status = "";
  /** @type {Map<number, { order: Order, row: HTMLTableRowElement }>} */
  const shown = new Map();
  /** @type {Map<string, string | undefined>} the keys that have changed orders last */
  const keys = new Map();
  const body = el("tbody");
  names.pets.clear();
  const sheet = table(["Animal", "Status", "Changed", "Order", ""], body);

  /** @param {Order} order */
  const nameOf = ({ petId }) => names.pets.get(petId) || `Animal ${petId}`;

  /** @param {{ order: Order, row: HTMLElement }} entry */
  const paint = ({ order, row }) => {
    const { id, petId, updatedAt } = order;
    const subject = `orders/${id}`;
    const name = nameOf(order);
    const isDeleted = names.pets.get(petId) === "";
    const [animal, state, changed, , steps] = /** @type {HTMLElement[]} */ ([...row.children]);
    refill(animal, `${name} ${isDeleted}`, () => [names.pets.get(petId) ? el("a", { href: `#/animals/${petId}` }, name) : el("span", { class: "muted" }, isDeleted ? `${name}, deleted` : name)]);
    refill(state, order.status, () => [el("span", { class: `pill ${order.status}` }, order.status === "placed" ? "open" : order.status),
      order.status === "placed" && el("small", { class: "left", "data-until": order.expiresAt })]);
    changed.title = exactly(updatedAt);
    changed.textContent = when(updatedAt) + (keys.has(subject) ? ` by ${names.who(keys.get(subject))}` : "");
    const post = api.once();
    refill(steps, order.status, () => (app.can("orders:write") && STEPS[order.status] || []).map(({ label, kind, result }) => app.button(label, `small ${kind}`, async () => {
      const { data } = await post(`store/${subject}/${label.toLowerCase()}`);
      keys.set(subject, String(app.key.id));
      toast(`${nameOf(order)} ${result}.`);
      update(data);
    }, async (error) => {
      const { data } = error.status === 409 ? await api.get(`store/${subject}`) : { data: order };
      if (data.status === order.status) return false;
      toast(`Somebody was faster: order ${id} is ${data.status}.`, "danger");
      update(data);
    })));
  };

  /** Shows an order as it is now. @param {Order} order */
  const update = (order) => {
    const known = shown.get(order.id);
    const matches = !status || order.status === status;
    if (known && !matches) {
      const next = known.row.nextElementSibling ?? known.row.previousElementSibling;
      if (known.row.contains(document.activeElement)) next?.querySelector("a")?.focus();
      known.row.remove();
      shown.delete(order.id);
    } else if (known) {
      if (known.order.status !== order.status) known.row.classList.add("changed");
      known.order = order;
      paint(known);
    } else if (matches) {
      const behind = [...body.children].find((row) => Number(row.id) < order.id);
      if (behind || list.isLast()) insert(order, behind).classList.add("changed");
    }
    list.paint();
  };

  /** @param {Order} order @param {Element} [behind] */
  const insert = (order, behind) => {
    const entry = { order, row: el("tr", { id: order.id }, el("td"), el("td"), el("td", { class: "muted" }), el("td", { class: "wide number" }, String(order.id)), el("td", { class: "steps" })) };
    shown.set(order.id, entry);
    paint(entry);
    body.insertBefore(entry.row, behind ?? null);
    return entry.row;
  };

  /** Loads the names of animals and keys, and shows them. @param {Order[]} some */
  const complete = async (some) => {
    tick();
    await Promise.all([app.can("pets:read") && names.loadPets(some.map(({ petId }) => petId)), names.loadKeys([...keys.values()])]).catch(() => {});
    for (const { id } of some) if (shown.has(id)) paint(/** @type {any} */ (shown.get(id)));
    tick();
  };

  const list = pagedList(app, {
    append(/** @type {Order[]} */ page) {
      for (const order of page) if (!shown.has(order.id)) insert(order);
      complete(page);
    },
    apply({ type, subject, keyid, data }) {
      if (type.startsWith("order.")) {
        keys.set(subject, keyid);
        update(data);
        complete([data]);
      } else if (type.startsWith("pet.")) {
        for (const entry of shown.values()) if (entry.order.petId === data.id) paint(entry);
        tick();
      }
    },
    reload: () => start(status),
    foot(isLast) {
      sheet.hidden = !shown.size;
      if (shown.size) return isLast ? plural(shown.size, "order") : `${count(shown.size)} · scroll for more`;
      return el("div", { class: "empty" }, el("h2", null, status === "placed" ? "No open orders" : "No orders"),
        el("p", null, "Reserve an available animal, and its order appears here."), el("a", { class: "btn", href: "#/animals" }, "Animals"));
    },
  });

  const tick = () => {
    for (const time of body.querySelectorAll("[data-until]")) {
      const remaining = Date.parse(time.getAttribute("data-until") ?? "") - Date.now();
      time.textContent = remaining > 0 ? `${left(remaining)} left` : "expired";
    }
  };
  const timer = setInterval(tick, 1000);

  const start = (/** @type {string} */ value) => {
    status = value;
    shown.clear();
    fill(body);
    sheet.hidden = true;
    list.start("store/orders", `?sort=desc&limit=50${status && `&status=${status}`}`);
  };
  root.append(tabs("Status", TABS, start), sheet, list.more);

  // Orders do not say who has changed them; events do.
  api.get("events?types=order.placed,order.completed,order.cancelled,order.returned&sort=desc&limit=1000").then(({ data }) => {
    for (const { subject, keyid } of data) if (!keys.has(subject)) keys.set(subject, keyid);
    complete([...shown.values()].map(({ order }) => order));
  }, () => {});

  return {
    onEvent: list.onEvent,
    onKey: arrows(body),
    unmount() {
      clearInterval(timer);
      list.unmount();
    },
  };
}
