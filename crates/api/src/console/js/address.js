// The address: `#/animals/17?status=sold` names a screen, what it shows, and the filters of its list.

/** @import { Address, Filters } from "../types" */

/** @returns {Address | null} null: no screen can have this address; `screen` is "" if it names none */
export function parseAddress(hash = location.hash) {
  if (/^#?\/?$/.test(hash)) return { screen: "", rest: "", filters: {} };
  const [, screen, rest = "", query] = hash.match(/^#\/(\w+)(?:\/([^?]*))?(?:\?(.*))?$/s) ?? [];
  return screen ? { screen, rest, filters: Object.fromEntries(new URLSearchParams(query)) } : null;
}

/** @param {Filters} filters those that are "" are left out */
export function hrefOf(screen = "", rest = "", filters = {}) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
  return `#/${screen}${rest && `/${rest}`}${query.size ? `?${query}` : ""}`;
}

/** The address of an item of a screen, or of the screen itself; the filters of its list stay. */
export function itemHref(screen = "", id = "") {
  const now = parseAddress();
  return hrefOf(screen, id, now?.screen === screen ? now.filters : {});
}

/** Shows another address, as a new entry of the history or instead of this one. */
export function go(hash = "", isReplaced = false) {
  if (hash === location.hash) return;
  history[isReplaced ? "replaceState" : "pushState"](null, "", hash);
  dispatchEvent(new Event("hashchange"));
}

/** The part of an address that names what is open. Without the filters. */
export const pathOf = (hash = "") => hash.split("?")[0];
