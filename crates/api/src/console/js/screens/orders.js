// Orders: the open ones first, live, each with what can be done with it.

import { go, hrefOf, itemHref } from "../address.js";
import { get } from "../api.js";
import { act, actButton, load, loadOrRetry, showFailure, titleList, toast } from "../app.js";
import { button, el, empty, fill, nameOf, pill } from "../dom.js";
import { count, plural } from "../format.js";
import { liveList, partText, searchField, table } from "../list.js";
import { isUnsearchable, longSearchNote, names, UNSEARCHABLE } from "../names.js";
import { postOnce } from "../once.js";
import { formatPrice } from "../price.js";
import { can, key } from "../session.js";
import { tabs } from "../tabs.js";
import { every, exactly, left, when } from "../times.js";
import { orderPanel } from "./order.js";

/** @import { Filters, Mount, Order } from "../../types" */

const TABS = { placed: "Open", completed: "Completed", cancelled: "Cancelled", returned: "Returned", all: "All" };
const TYPES = "order.placed,order.updated,order.completed,order.cancelled,order.returned";
/** The actions on an order of a status: label, classes, and the effect on the animal. */
const STEPS = {
  placed: [["Complete", "primary", "is sold"], ["Cancel", "", "is available again"]],
  completed: [["Return", "", "was returned, and is available again"]],
  cancelled: [],
  returned: [],
};

/** @param {Filters} filters */
const readFilters = ({ status = "", q = "" }) => {
  const text = q.replace(/\p{Cc}/gu, " ").trim().slice(0, 64);
  return { status: Object.hasOwn(TABS, status) ? status : text ? "all" : "placed", q: text };
};

/** @type {Mount} */
export function mount(root, rest, end, filters) {
  let filter = readFilters(filters);
  /** @type {ReturnType<typeof orderPanel> | null} */
  let panel = null;
  /** @type {Map<string, string | undefined>} the keys that have changed orders last */
  const keys = new Map();
  /** Ends a search. */
  let searching = new AbortController();
  /** The note below the result of a search. */
  let note = "";

  /** Without the default status. @param {Partial<typeof filter>} change */
  const find = (change, isTyping = false) => {
    const { status, q } = { ...filter, ...change };
    const usual = readFilters({ q }).status;
    go(hrefOf("orders", rest, { status: status === usual ? "" : status, q }), isTyping && filter.q !== "");
  };

  const list = liveList(end, {
    key: (/** @type {Order} */ { id }) => id,
    row: (order) => rowOf(order),
    matches: (order, isShown) => (!filter.q || isShown) && (filter.status === "all" || order.status === filter.status),
    added: (page) => complete(page),
    apply({ type, subject, keyid, data }) {
      if (type.startsWith("order.")) {
        keys.set(subject, keyid);
        // An event does not name the buyer.
        list.take({ ...data, buyer: list.get(data.id)?.buyer });
        complete([data]);
      } else if (type.startsWith("pet.")) {
        list.paint(list.items().filter(({ petId }) => petId === data.id).map(({ id }) => id));
      }
    },
    foot(size, isLast) {
      if (size) return el("div", isLast ? plural(size, "order") : partText(count(size)), el("p", note));
      if (filter.q) return empty(isUnsearchable(filter.q) ? UNSEARCHABLE : "No order matches", el("p", note), button("Show open orders", "", () => go(hrefOf("orders", rest))));
      return empty(filter.status === "placed" ? "No open orders" : "No orders",
        el("p", "Reserve an available animal, and its order appears here."), el("a.btn", { href: "#/animals" }, "Animals"));
    },
  });

  /** @param {Order} order */
  const rowOf = (order) => {
    const { id, petId, updatedAt, expiresAt, price, status, buyer } = order;
    const name = names.animal(petId);
    const subject = `orders/${id}`;
    const steps = can("orders:write") ? STEPS[status] : [];
    const href = itemHref("orders", String(id));
    const onclick = (/** @type {Event} */ { target }) => void (/** @type {Element} */ (target).closest("a, button") || go(itemHref("orders", String(id))));
    return el("tr", { class: panel?.id === id && "selected", onclick },
      el("td.main", name ? nameOf("a", name, { href: `#/animals/${petId}` }) : el("span.muted", animalOf(order)), names.pets.get(petId) === "" && el("span.muted", ", deleted"),
        el("small.line", `Order ${id}`, buyer && ` · ${buyer.name}`)),
      el("td", pill(status, status === "placed" ? "open" : status),
        status === "placed" && el("small.left", { "data-until": expiresAt }, left(expiresAt))),
      el("td.amount", price && formatPrice(price)),
      el("td.when", { title: exactly(updatedAt) },
        when(updatedAt), keys.has(subject) && ` by ${names.who(keys.get(subject))}`),
      el("td.steps", steps.map(([label, kind, result]) => step(order, label, kind, result)),
        button("Details", "small quiet", () => go(href), { "aria-label": `Details of order ${id}` })));
  };

  /** @param {Order} order */
  const animalOf = ({ petId }) => names.animal(petId) || `Animal ${petId}`;

  /** @param {Order} order */
  const step = (order, label = "", kind = "", result = "") => {
    const path = `store/orders/${order.id}`;
    const post = postOnce();
    return actButton(label, `small ${kind}`, async () => {
      const { data } = await post(`${path}/${label.toLowerCase()}`);
      keys.set(`orders/${order.id}`, String(key.id));
      toast(`${animalOf(order)} ${result}.`);
      list.take(data);
    }, async (error) => {
      if (error.status !== 409) return false;
      const { data } = await get(path);
      if (data.status === order.status) return false;
      toast(`Another person was faster: order ${order.id} is ${data.status}.`, "danger");
      list.take(data);
    });
  };

  /** Loads the names of animals and keys, and shows them. @param {Order[]} some */
  const complete = async (some) => {
    const animals = some.map(({ petId }) => petId);
    await names.load([...keys.values()], animals);
    await names.loadDeleted(animals);
    list.paint(some.map(({ id }) => id));
  };

  every(1, () => {
    for (const time of list.body.querySelectorAll(".left")) time.textContent = left(time.getAttribute("data-until") ?? "");
  }, end);

  const status = tabs("Status", TABS, (status) => find({ status }));
  const search = searchField("Search order, animal or buyer", (q) => find({ q, status: filter.q ? filter.status : readFilters({ q }).status }, true));
  const pathOf = (limit = 50) => `store/orders?sort=desc&limit=${limit}${filter.status === "all" ? "" : `&status=${filter.status}`}`;
  const save = button("Export", "", () => act(save, async () => {
    const { exportOrders } = await load(import("../export-orders.js"));
    await exportOrders(filter.q ? list.items() : pathOf(100), (done) => (save.textContent = done));
  }).finally(() => (save.textContent = "Export")), { title: "Save the orders of this list as CSV" });
  const split = el("div.split", el("section", { "aria-label": "List" }, status.element, el("div.bar", search.element, save),
    table(["Animal", "Status", el("th.amount", "Price"), "Changed", ""], list.body), list.more));
  root.append(split);

  /** Shows the orders of a status, or what a search finds. */
  const paintFilters = async () => {
    searching.abort();
    searching = new AbortController();
    const signal = AbortSignal.any([end, searching.signal]);
    note = "";
    status.press(filter.status);
    search.show(filter.q);
    titleList([TABS[/** @type {keyof typeof TABS} */ (filter.status)].toLowerCase(), filter.q && `“${filter.q}”`]);
    if (!filter.q) return list.start(pathOf());
    list.stop();
    fill(list.more, "Searching…");
    try {
      const { findOrders, LIMITS } = await load(import("../order-search.js"));
      const { orders, isLimited } = await findOrders(filter.q, signal);
      if (signal.aborted) return;
      note = [isLimited && LIMITS, longSearchNote(filter.q)].filter(Boolean).join(" ");
      list.set(orders.filter(({ status }) => filter.status === "all" || status === filter.status));
      complete(orders);
    } catch (error) {
      if (!signal.aborted) showFailure(list.more, error, paintFilters);
    }
  };

  const showOrder = (id = "") => {
    rest = id;
    const previous = panel?.id;
    if (previous === Number(id)) return;
    panel?.close();
    const isNumber = /^\d+$/.test(id) && Number.isSafeInteger(Number(id));
    panel = isNumber ? orderPanel(Number(id), list.take) : null;
    if (panel) split.append(panel.element);
    list.paint();
    if (panel) panel.focus();
    else if (previous) list.focus(previous);
    if (!id || isNumber) return;
    toast(`There is no order ${id.slice(0, 40)}.`, "danger");
    go(itemHref("orders"), true);
  };
  paintFilters();
  showOrder(rest);
  end.addEventListener("abort", () => panel?.close());

  // Orders do not say who has changed them; events do.
  loadOrRetry(async () => {
    const { data } = await get(`events?types=${TYPES}&sort=desc&limit=1000`);
    for (const { subject, keyid } of data) if (!keys.has(subject)) keys.set(subject, keyid);
    complete(list.items());
  }, end);

  return {
    show(id, filters) {
      const now = readFilters(filters);
      const isSame = now.status === filter.status && now.q === filter.q;
      filter = now;
      if (!isSame) paintFilters();
      showOrder(id);
    },
    loadRest: list.loadRest,
    onEvent(event) {
      list.onEvent(event);
      if (event.subject === `orders/${panel?.id}`) panel?.onEvent(event);
    },
  };
}
