// The keyboard: one key per task.

import { go, hrefOf, parseAddress } from "./address.js";
import { load } from "./app.js";
import { byId, controls } from "./dom.js";
import { currentScreen } from "./navigation.js";
import { scan } from "./scanner.js";
import { mayDiscard } from "./unsaved.js";

const root = byId("screen");
const find = (selector = "") => /** @type {HTMLElement | null} */ (document.querySelector(selector));
const isSignedIn = () => !root.hidden;

/** @param {Element} target */
function moveInList(target, isDown = true) {
  const row = target.closest("tr[data-key]");
  const to = isDown ? row?.nextElementSibling : row?.previousElementSibling;
  controls(row ? to : find("tr[data-key]"))[0]?.focus();
}

/** Leaves the form in the panel, or closes the panel, even while it is loading. If there is none, nothing is selected any more. */
function leavePanel() {
  const discard = find(".panel [data-discard]");
  if (discard?.checkVisibility()) return void mayDiscard().then((may) => may && discard.click());
  const { screen, rest, filters } = parseAddress() ?? { screen: "", rest: "" };
  if (rest && isSignedIn()) go(hrefOf(screen, "", filters));
  else if (find("[data-clear]")?.checkVisibility()) find("[data-clear]")?.click();
  else find(":focus")?.blur();
}

export const showKeys = () => load(import("./keys.js")).then(({ keysDialog }) => keysDialog());

document.addEventListener("keydown", (event) => isSignedIn() && scan(event), true);
document.addEventListener("keydown", (event) => {
  const { key, repeat } = event;
  const target = /** @type {Element} */ (event.target);
  // A key that is held down must not sell an animal and take it back.
  if (repeat && key === "Enter") return event.preventDefault();
  if (find("dialog[open]")) return;
  if (event.ctrlKey || event.metaKey || event.altKey) {
    const { loadRest } = currentScreen();
    if (key !== "p" || event.altKey || event.shiftKey || !loadRest || find(".panel")) return;
    event.preventDefault();
    // Browsers do not wait for anything when they print.
    if (!repeat) loadRest().then(() => print());
    return;
  }
  const isSearch = target.matches("[data-search]");
  if (target.matches("input, select, textarea") && key !== "Escape" && !(isSearch && key === "ArrowDown")) return;
  // Space and x select a row; with Shift, those up to it.
  const pick = /^[ x]$/i.test(key) && target.closest("tr[data-key]")?.querySelector(".pick input");
  if (pick) pick.dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey: event.shiftKey }));
  else if (key === "n") find("[data-new]")?.click();
  else if (key === "e" && find("[data-edit]")?.checkVisibility()) find("[data-edit]")?.click();
  else if (key === "/") find("[data-search]")?.focus();
  else if (key === "?" && isSignedIn()) showKeys();
  // The menu closes by itself.
  else if (key === "Escape" && find(":popover-open")) return;
  else if (key === "Escape") leavePanel();
  else if ((key === "ArrowDown" || key === "ArrowUp") && find("tr[data-key]")) moveInList(target, key === "ArrowDown");
  else return;
  event.preventDefault();
});

// The fragment of the address names a screen, so a link cannot name an element.
byId("skip").addEventListener("click", (/** @type {Event} */ event) => {
  event.preventDefault();
  (isSignedIn() ? root : byId("key")).focus();
});
