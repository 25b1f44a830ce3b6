// One animal: selling it, editing it, its history.

import { go, itemHref } from "../address.js";
import { animalFields } from "../animal-form.js";
import { ApiError, get, getKept, send } from "../api.js";
import { act, actButton, load, loadOrRetry, message, toast } from "../app.js";
import { animalDetails, saleDetails } from "../details.js";
import { confirm } from "../dialogs.js";
import { button, closeLink, el, fill, nameOf, replace } from "../dom.js";
import { ago } from "../format.js";
import { formOf } from "../forms.js";
import { historyOf } from "../history.js";
import { animal } from "../members.js";
import { names } from "../names.js";
import { postOnce } from "../once.js";
import { photoSection } from "../photos/section.js";
import { isLost, sellAnimal } from "../sale.js";
import { can } from "../session.js";
import { loadStyles } from "../styles.js";
import { left, when } from "../times.js";
import { typedPrice } from "../typed-price.js";
import { watch } from "../unsaved.js";

/** @import { Child, Content, Order, Pet, StoreEvent, Values } from "../../types" */

await Promise.all(["log.css", "photos.css"].map(loadStyles));

/** A change is tried again this often while others change the animal. */
const ATTEMPTS = 5;
/** The status of an order while it has an animal of this status. */
const CLAIMS = { available: "", pending: "placed", sold: "completed" };
/** The status of an animal whose order gets this status. */
const OUTCOMES = /** @type {const} */ ({
  placed: "pending", completed: "sold", cancelled: "available", returned: "available",
});

/**
 * The panel of an animal. It tells the list what happens to the animal.
 * @param {Pet} pet
 * @param {{ take(pet: Pet): void, remove(id: number): void }} list
 */
export function animalPanel(pet, list) {
  const { id } = pet;
  /** @type {Order | null | undefined} its latest order; null: it has none; undefined: not known */
  let order;
  /** @type {StoreEvent | undefined} its latest event */
  let last;
  /** The values that the form started from. */
  let base = animal.valuesOf(pet);
  let isDeleted = false;
  const end = new AbortController();

  const title = nameOf("h2", pet.name, { tabindex: -1 });
  const meta = el("p.meta");
  const problem = el("div", { role: "alert" });
  const sale = el("div", { "aria-live": "polite" }, el("div"), el("div"), el("div"));
  const fields = animalFields(base);
  const conflict = el("div.conflict");
  const discard = button("Discard", "", () => {
    fields.values = base = animal.valuesOf(pet);
    edit(false);
  }, { "data-discard": true });
  const form = formOf("Save changes", [conflict, ...fields.elements], () => save(), discard, fields.explain);
  form.hidden = true;
  const details = el("div");
  const editButton = button("Edit", "small", () => edit(true), { "data-edit": true }, el("kbd", { "aria-hidden": "true" }, "e"));
  const history = historyOf(`pets/${id}`, end.signal, (newest) => {
    last = newest;
    paint();
  });
  const printButton = button("Print…", "small", () => act(printButton, async () => {
    const { printAnimals } = await load(import("../print/animals.js"));
    await printAnimals([pet], "cards");
  }), { title: "Print a cage card or a label" });
  const remove = actButton("Delete animal…", "small danger quiet", async () => {
    if (!(await confirm(`Delete ${pet.name}?`, "This cannot be undone. Its orders remain.", "Delete"))) return;
    await send("DELETE", `pets/${id}`);
    leave();
  });
  const element = el("aside.panel", { "aria-label": "Animal" });
  const photos = photoSection(() => pet, (photos) => update({ ...pet, photos }), element, end.signal);
  fill(element, photos.element, title, meta, problem, sale,
    el("div.bar.head", el("h3", "Details"), printButton, can("pets:write") && editButton), details, can("pets:write") && form, el("h3", "History"), history.element, el("div.foot", can("pets:write") && remove),
    closeLink("animals"));

  const isTyped = () => {
    const typed = fields.values;
    return animal.names.some((name) => typed[name] !== base[name]);
  };
  /** True if its order decides about its status. */
  const isClaimed = () => Boolean(pet.status && order?.status === CLAIMS[pet.status]);
  /** Another animal may be shown by now. */
  const warn = (/** @type {Content[]} */ ...content) => {
    const text = el("span", ...content);
    if (!element.isConnected) toast(`${pet.name}: ${text.textContent}`, "danger");
    else fill(problem, el("div.notice.danger", text));
  };

  const paint = () => {
    photos.paint();
    title.textContent = title.title = pet.name;
    meta.textContent = `${names.category(pet.categoryId)} · id ${id}` +
      (last ? ` · changed ${ago(last.time)} by ${names.who(last.keyid)}` : "");
    fields.lock(isClaimed());
    // The sale shows the same price.
    const isRepeated = isClaimed() && typedPrice(pet.price) === typedPrice(order?.price);
    const shown = animalDetails(isRepeated ? { ...pet, price: undefined } : pet);
    fill(details, shown.length ? shown : el("p.hint", "Nothing else is recorded."));
    paintSale();
  };

  /** Shows the form instead of the details, or the details again. */
  const edit = (editing = true) => {
    const hadFocus = form.contains(document.activeElement);
    form.hidden = !editing;
    details.hidden = editButton.hidden = editing;
    if (editing) form.querySelector("input")?.select();
    else if (hadFocus) editButton.focus();
  };

  const paintSale = () => {
    const hadFocus = sale.contains(document.activeElement);
    const [status, buttons] = saleOf();
    replace(sale.children[0], status);
    replace(sale.children[1], el("div.actions", buttons));
    replace(sale.children[2], el("div", ...(order && isClaimed() ? saleDetails(order) : []),
      order && isClaimed() && el("p.hint", el("a", { href: `#/orders/${order.id}` }, "Show the order"))));
    if (hadFocus && !sale.contains(document.activeElement)) title.focus();
  };

  /** The state of the sale, and its next steps. @returns {[HTMLElement, Child[]]} */
  const saleOf = () => {
    const { status } = pet;
    const notice = (kind = "", text = "", more = "") =>
      el("div", { class: `notice ${kind}` }, el("span", text), el("span.time", { "aria-live": "off" }, more));
    const steps = (/** @type {HTMLElement[]} */ ...all) => (can("orders:write") ? all : []);
    if (status === "available") return [notice("ok", "Available"), steps(step("Reserve", "", ""), sellButton())];
    const isOrderKnown = order !== undefined || !can("orders:read");
    if (!status) return [notice("", "Not for sale: it has no status"), [offer("Put up for sale")]];
    if (!order || !isClaimed()) {
      return [notice("", `Marked as ${status}${order === undefined ? "" : ", without an order"}`), isOrderKnown ? [offer("Make available")] : []];
    }
    const { id, updatedAt, completedAt = updatedAt, expiresAt } = order;
    if (status === "sold") return [notice("", `Sold, order ${id}`, when(completedAt)), steps(step("Return", "return", ""))];
    return [notice("warn", `Reserved, order ${id}`, left(expiresAt)),
      steps(step("Complete sale", "complete", "primary"), step("Cancel", "cancel", ""))];
  };
  const timer = setInterval(() => {
    const time = sale.querySelector(".warn .time");
    if (time) time.textContent = left(order?.expiresAt);
  }, 1000);

  /** Another client has reserved or sold the animal, or undone that. */
  const lost = async () => {
    const [{ data }] = await Promise.all([get(`pets?id=${id}`), loadOrder()]);
    if (data[0]) update(data[0]);
    const now = pet.status === "pending" ? "reserved" : (pet.status ?? "not for sale");
    warn(`Another person was faster: ${pet.name} is ${now}${isClaimed() ? `, order ${order?.id}` : ""}.`);
    // Not on a button that would change the order of another person.
    title.focus();
  };

  const sellButton = () => button("Sell…", "primary", () => {
    fill(problem);
    sellAnimal(pet, takeOrder, lost).addEventListener("close", () =>
      element.isConnected && document.activeElement === document.body && title.focus());
  }, { "data-write": true });

  /** Changes the status of an animal that no order has. */
  const offer = (label = "") => can("pets:write") && actButton(label, "", async () => {
    fill(problem);
    update((await send("PATCH", `pets/${id}`, { status: "available" })).data);
  }, (error) => warn(message(error)));

  /** The next step takes the place of this one: neither Enter nor a click that is repeated takes it. */
  const step = (label = "", path = "", kind = "") => {
    const post = postOnce();
    return actButton(label, kind, async () => {
      fill(problem);
      takeOrder((await (path ? post(`store/orders/${order?.id}/${path}`) : post("store/orders", { petId: id }))).data);
    }, async (error) => {
      if (isLost(error)) await lost();
      else warn((await fields.explain(error)) ?? message(error));
    });
  };

  /** Responses and events may overtake each other. @param {Order} now */
  const isNewer = (now) => !order || now.id > order.id ||
    (now.id === order.id && Date.parse(now.updatedAt) >= Date.parse(order.updatedAt));

  /** The event of the animal follows; until then the two would not agree. @param {Order} now */
  const takeOrder = (now) => {
    if (!isNewer(now)) return;
    order = now;
    update({ ...pet, status: OUTCOMES[now.status] });
  };

  /** A conflict is settled with its own buttons. */
  const paintForm = () => (/** @type {HTMLElement} */ (form.lastElementChild).hidden = conflict.hasChildNodes());

  /** Takes a new state, but not over what the user has typed. @param {Pet} now */
  const update = (now) => {
    pet = now;
    const typed = fields.values;
    const values = animal.valuesOf(now);
    for (const name of animal.names) if (typed[name] === base[name]) typed[name] = base[name] = values[name];
    fields.values = typed;
    list.take(pet);
    paint();
  };

  const save = async () => {
    const mine = animal.normalise(await fields.complete());
    const body = animal.changes(mine, base);
    if (!Object.keys(body).length) {
      fields.values = base;
      return edit(false);
    }
    const edited = animal.names.filter((name) => mine[name] !== base[name]);
    let etag = "";
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      try {
        // An empty patch changes nothing, and returns the animal with its ETag.
        const current = await send("PATCH", `pets/${id}`, etag ? body : {}, etag ? { "If-Match": etag } : {});
        const theirs = animal.valuesOf(current.data);
        // Also if the response to an earlier attempt was lost.
        if (edited.every((name) => theirs[name] === mine[name])) {
          fields.values = base = mine;
          edit(false);
          return update(current.data);
        }
        if (edited.some((name) => theirs[name] !== base[name])) return compare(current.data, mine);
        etag = current.etag ?? "";
      } catch (error) {
        if (/** @type {any} */ (error).status !== 412) throw error;
        etag = "";
      }
    }
    throw new ApiError(412, "", "Others are changing this animal right now. Try again.");
  };

  /** Shows both versions of an animal that another person has changed since it was read. @param {Pet} pet @param {Values} mine */
  const compare = (pet, mine) => {
    if (!element.isConnected) return toast(`${pet.name} was not saved: it was changed while you were editing it.`, "danger");
    const theirs = animal.valuesOf(pet);
    const settle = (keep = false) => {
      fill(conflict);
      const wanted = { ...theirs };
      for (const name of animal.names) if (keep && mine[name] !== base[name]) wanted[name] = mine[name];
      base = theirs;
      fields.values = wanted;
      update(pet);
      paintForm();
      if (keep) form.requestSubmit();
      else edit(false);
    };
    const rows = animal.names.filter((name) => mine[name] !== theirs[name]).map((name) => {
      const cells = [theirs[name], mine[name]].map((value) =>
        el("td.lines", name === "categoryId" ? names.category(value) : value || (name === "status" ? "no status" : "–")));
      return el("tr", el("th", { scope: "row" }, animal.label(name)), cells);
    });
    fill(conflict,
      el("div.notice.warn", { role: "alert" }, "This animal was changed while you were editing it."),
      el("table", el("thead", el("tr", el("td"), el("th", "Theirs, saved"), el("th", "Yours"))), el("tbody", rows)),
      el("div.actions", button("Save mine", "primary", () => settle(true), { "data-write": true }),
        button("Take theirs", "", () => settle())));
    paintForm();
    conflict.querySelector("button")?.focus();
  };

  const leave = () => {
    if (isDeleted) return;
    isDeleted = true;
    toast(`${pet.name} was deleted.`);
    list.remove(id);
    if (element.isConnected) go(itemHref("animals"));
  };

  const loadOrder = async () => {
    if (!can("orders:read")) return;
    const page = await getKept(`store/orders?petId=${id}&sort=desc&limit=1`);
    const [found] = page.data;
    if (!found) order ??= null;
    else if (!order) order = found;
    // It was changed while it was loaded, and so was the animal.
    else if (found.id !== order.id || found.updatedAt !== order.updatedAt) takeOrder(found);
    // An event does not name the buyer.
    else order = found;
    return page;
  };

  paint();
  const loadSale = () => loadOrRetry(async () => {
    const page = await loadOrder();
    paint();
    return page;
  }, end.signal);
  loadSale();
  const unwatch = watch(() => !form.hidden && !isDeleted && !form.querySelector("[aria-busy]") && isTyped());

  return {
    id,
    element,
    focus: () => title.focus(),
    /** Shows the names of categories as they are now. */
    rename() {
      fields.values = fields.values;
      paint();
    },
    close() {
      clearInterval(timer);
      end.abort();
      unwatch();
      element.remove();
    },
    /** @param {StoreEvent} event */
    onEvent(event) {
      const { type, subject, time, data } = event;
      const isItsOrder = type.startsWith("order.") && data.petId === id;
      if (isItsOrder || subject === `pets/${id}`) history.add(event);
      if (isItsOrder && (data.id !== order?.id || data.updatedAt !== order?.updatedAt)) {
        takeOrder({ ...data, buyer: data.id === order?.id ? order?.buyer : undefined });
        loadSale();
      }
      if (subject !== `pets/${id}`) return;
      if (type === "pet.deleted") return leave();
      // The response to an order arrives before events that are older than it.
      const isOlder = order && Date.parse(time) < Date.parse(order.updatedAt);
      update(isOlder ? { ...data, status: pet.status } : data);
    },
  };
}
