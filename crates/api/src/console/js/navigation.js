// Navigation: the screen of the address, and what is shown if there is none.

import { hrefOf, parseAddress, pathOf } from "./address.js";
import { load, showFailure } from "./app.js";
import { byId, el, empty, fill } from "./dom.js";
import { can } from "./session.js";
import { hasUnsaved, mayDiscard } from "./unsaved.js";

/** @import { Address, Mount, Screen } from "../types" */

/** @type {Record<string, { scopes: string[], also?: string, module: () => Promise<{ mount: Mount }> }>} a key needs one of the scopes, and the other one */
const SCREENS = {
  animals: { scopes: ["pets:read"], module: () => import("./screens/animals.js") },
  orders: { scopes: ["orders:read"], module: () => import("./screens/orders.js") },
  categories: { scopes: ["pets:read"], module: () => import("./screens/categories.js") },
  activity: { scopes: ["pets:read", "orders:read", "keys:read"], module: () => import("./screens/activity.js") },
  reports: { scopes: ["orders:read"], module: () => import("./screens/reports.js") },
  people: { scopes: ["keys:read"], module: () => import("./screens/people.js") },
  webhooks: { scopes: ["webhooks:read"], module: () => import("./screens/webhooks.js") },
  import: { scopes: ["pets:write"], also: "pets:read", module: () => import("./screens/import.js") },
  shop: { scopes: ["pets:read", "orders:read"], module: () => import("./screens/shop.js") },
};

const BLIND = "An import is compared with the animals of the store, so that none is added twice. Your access can change animals, but not see them (pets:read). Ask an owner of the store.";

const root = byId("screen");
const links = /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav a, #account [href^='#/']"));
let screen = /** @type {Screen} */ ({});
/** The name of the screen. */
let shown = "";
/** Ends the screen. */
let end = new AbortController();
/** @type {string | null} the address that is shown */
let current = null;
/** True while a person is asked about unsaved typing. */
let isAsking = false;

const isKnown = (name = "") => Object.hasOwn(SCREENS, name);
/** True if the key may see a screen. */
function isAllowed(name = "") {
  if (!isKnown(name)) return false;
  const { scopes, also } = SCREENS[name];
  return scopes.some(can) && (!also || can(also));
}
const titleOf = (name = "") => name[0].toUpperCase() + name.slice(1);

export const currentScreen = () => screen;
/** Returns true if a screen is shown that has data. */
export const isShown = () => shown !== "";

/** Shows the screen of the address, again even if it is shown already. @returns {Promise<void>} */
export async function open(again = false) {
  const { hash } = location;
  const isSecret = /^#(key|invitation)=/.test(hash);
  if (isAsking || (root.hidden && !isSecret) || (hash === current && !again)) return;
  if (!again && current !== null && pathOf(hash) !== pathOf(current)) {
    if (hasUnsaved()) return ask(current);
    closeForms();
  }
  // A link with a key or an invitation can be opened in a tab that is signed in.
  if (isSecret) return location.reload();
  const address = parseAddress(hash);
  if (address?.screen === "") {
    const first = Object.keys(SCREENS).find(isAllowed);
    if (!first) return fill(root, el("p.empty", can("pets:write") ? BLIND : "Your API key allows nothing that is shown here."));
    history.replaceState(null, "", hrefOf(first));
    return open(again);
  }
  current = hash;
  if (!history.state?.isVisited) history.replaceState({ isVisited: true }, "");
  if (!address || !isAllowed(address.screen)) return showMissing(address);
  if (address.screen === shown && !again) return screen.show?.(address.rest, address.filters);
  await mountScreen(address);
}

/** Asks before typing is dropped. If it is kept, so is the address that was shown. */
async function ask(before = "") {
  isAsking = true;
  const isDiscarded = await mayDiscard();
  isAsking = false;
  if (isDiscarded) {
    current = null;
    closeForms();
    return open();
  }
  // The person went back or forward, or somewhere new.
  if (location.hash !== before) history.state?.isVisited ? history.pushState({ isVisited: true }, "", before) : history.back();
}

/** Closes the forms of a page that is not shown any more. */
function closeForms() {
  for (const box of document.querySelectorAll("dialog:has(form)")) /** @type {HTMLDialogElement} */ (box).close();
}

/** Shows the screen again, with everything that has changed, as soon as nothing is typed into it. */
export const reopen = () => void (hasUnsaved() ? setTimeout(reopen, 1000) : open(true));

/** Ends the screen that is shown. Returns what ends the next one. */
function leave() {
  end.abort();
  end = new AbortController();
  [screen, shown] = [{}, ""];
  return end.signal;
}

/** @param {Address} address */
async function mountScreen({ screen: name, rest, filters }) {
  const { hash } = location;
  const signal = leave();
  const box = el("div");
  fill(root, el("p.more", "Loading…"));
  const mount = await load(SCREENS[name].module()).then((module) => module.mount, (error) => () => {
    showFailure(box, error, () => void (signal.aborted || open(true)));
    return {};
  });
  // Another one may be wanted by now.
  if (signal.aborted || pathOf(hash) !== pathOf(location.hash)) return;
  showHeading(titleOf(name), box);
  showCurrent(name);
  shown = name;
  screen = mount(box, rest, signal, parseAddress()?.filters ?? filters);
}

/** @param {HTMLElement} box */
function showHeading(title = "", box) {
  document.title = `${title} · Petstore`;
  fill(root, el("h1.unseen", { "data-name": title }, title), el("p.printed"), box);
  scrollTo(0, 0);
}

/** Hides the links to what the key does not allow, and marks the screen that is shown. */
function showCurrent(name = "") {
  for (const link of links) {
    link.hidden = !isAllowed(link.hash.slice(2));
    link.ariaCurrent = link.hash === `#/${name}` ? "page" : null;
  }
}

/** Says that there is no such page, or that the key does not allow it. @param {Address | null} address */
function showMissing(address) {
  leave();
  const isForbidden = address && isKnown(address.screen);
  const [title, text] = isForbidden
    ? ["Not for you", address.screen === "import" && can("pets:write") ? BLIND : "Your access does not include this page. Ask an owner of the store."]
    : ["Page not found", "Nothing has this address. It may be mistyped, or of another version."];
  const first = Object.keys(SCREENS).find(isAllowed);
  showHeading(title, empty(title, el("p", text), first && el("a.btn", { href: hrefOf(first) }, `Show ${first}`)));
  showCurrent();
}
