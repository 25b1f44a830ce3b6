// The shell: signing in and out, navigation, the live indicator, the keyboard.

import { App, setOnline } from "./app.js";
import { byId, el, fill } from "./dom.js";
import { ago } from "./format.js";
import { activity } from "./screens/activity.js";
import { animals } from "./screens/animals.js";
import { categories } from "./screens/categories.js";
import { imports } from "./screens/import.js";
import { orders } from "./screens/orders.js";
import { webhooks } from "./screens/webhooks.js";
import { explain, forgetKey, signIn, takeKey } from "./session.js";
import { follow } from "./stream.js";

/**
 * The screens by their address, with the scopes of which a key needs one.
 * @type {Record<string, { title: string, scopes: string[], mount: import("./app.js").Mount }>}
 */
const SCREENS = {
  animals: { title: "Animals", scopes: ["pets:read"], mount: animals },
  orders: { title: "Orders", scopes: ["orders:read"], mount: orders },
  categories: { title: "Categories", scopes: ["pets:read"], mount: categories },
  activity: { title: "Activity", scopes: ["pets:read", "orders:read"], mount: activity },
  webhooks: { title: "Webhooks", scopes: ["webhooks:read"], mount: webhooks },
  import: { title: "Import", scopes: ["pets:write"], mount: imports },
};

const root = byId("screen");
/** @type {App | null} */
let app = null;
/** @type {import("./app.js").Screen | null} */
let screen = null;
let shown = "";
let online = true;
let lastContact = Date.now();
let waitingUntil = 0;
let waitingFor = 0;
let endStream = () => {};

/** @type {import("./api.js").Observer} */
const observer = {
  connection(now) {
    if (now) [lastContact, waitingUntil] = [Date.now(), 0];
    if (now === online) return;
    online = now;
    setOnline(now);
    showBanner();
    if (now) app?.retry();
  },
  waiting(seconds, status) {
    [waitingUntil, waitingFor] = [Date.now() + seconds * 1000, status];
    showBanner();
  },
  unauthorized() {
    if (app) signOut("You were signed out, because the API key is no longer valid.");
  },
};

function showBanner() {
  const seconds = Math.ceil((waitingUntil - Date.now()) / 1000);
  let text = "";
  if (app && !online) text = `No connection. Showing data from ${ago(lastContact)}; changes are disabled until it is back.`;
  else if (seconds > 0) text = `${waitingFor === 429 ? "Too many requests" : "The service is busy"}. Trying again in ${seconds} s.`;
  const banner = byId("banner");
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !text;
}
setInterval(showBanner, 1000);

/** @param {boolean} live */
function showLive(live) {
  const text = live ? "live" : "connecting…";
  if (byId("live").textContent === text) return;
  byId("live").className = live ? "on" : "";
  byId("live").textContent = text;
}

/** @param {string} secret */
async function start(secret) {
  const session = await signIn(secret, observer);
  app = new App(session.api, session.key);
  const { name, scopes } = app.key;
  byId("key-name").textContent = name;
  const readOnly = !scopes.some((scope) => scope.endsWith(":write"));
  byId("key-scopes").textContent = `Signed in with the API key “${name}”${readOnly ? ", which can only read" : ""}.`;
  showPage(true);
  showLive(false);
  open();
  if (!app.can("pets:read") && !app.can("orders:read")) return;
  endStream = follow(app.api, session.position, {
    event(event) {
      app?.names.onEvent(event);
      try {
        screen?.onEvent?.(event);
      } catch (error) {
        // The stream goes on.
        reportError(error);
      }
    },
    state(live, reached) {
      showLive(live);
      observer.connection(reached);
    },
    gone: () => open(true),
  });
}

/** @param {boolean} signedIn */
function showPage(signedIn) {
  byId("header").hidden = root.hidden = !signedIn;
  byId("sign-in").hidden = signedIn;
}

/** @param {string} [reason] */
function signOut(reason) {
  endStream();
  app?.api.end();
  forgetKey();
  screen?.unmount?.();
  [app, screen, shown] = [null, null, ""];
  byId("account").hidePopover();
  showSignIn(reason);
}

/** @param {string} [reason] */
function showSignIn(reason = "") {
  document.title = "Sign in · Petstore";
  showPage(false);
  showBanner();
  byId("sign-in-problem").textContent = reason;
  const input = /** @type {HTMLInputElement} */ (document.querySelector("[name=key]"));
  input.value = "";
  input.focus();
}

byId("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  const submit = form.querySelector(".btn");
  if (submit?.ariaBusy) return;
  if (submit) submit.ariaBusy = "true";
  await start(String(new FormData(form).get("key"))).catch((error) => showSignIn(explain(error)));
  if (submit) submit.ariaBusy = null;
});

/** @param {string} name */
const isAllowed = (name) => SCREENS[name]?.scopes.some((scope) => app?.can(scope));

/** Shows the screen of the address. @param {boolean} [again] even if it is shown already */
function open(again) {
  if (!app) return;
  const [, name = "", rest = ""] = location.hash.match(/^#\/(\w+)\/?(.*)/) ?? [];
  if (!isAllowed(name)) {
    const first = Object.keys(SCREENS).find(isAllowed);
    if (first) location.replace(`#/${first}`);
    else fill(root, el("p", { class: "empty" }, "Your API key allows nothing that is shown here."));
    return;
  }
  for (const link of document.querySelectorAll("nav a")) {
    const target = link.getAttribute("href")?.slice(2) ?? "";
    /** @type {HTMLElement} */ (link).hidden = !isAllowed(target);
    link.ariaCurrent = target === name ? "page" : null;
  }
  if (name === shown && !again) return screen?.show?.(rest);
  screen?.unmount?.();
  shown = name;
  document.title = `${SCREENS[name].title} · Petstore`;
  const box = el("div");
  fill(root, el("h1", { class: "unseen" }, SCREENS[name].title), box);
  scrollTo(0, 0);
  screen = SCREENS[name].mount(box, app, rest);
}

// A link with a key can be opened in a tab that is signed in.
addEventListener("hashchange", () => (location.hash.startsWith("#key=") ? location.reload() : open()));
byId("sign-out").addEventListener("click", () => signOut());
document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  // A key that is held down must not sell an animal and take it back.
  if (event.repeat && event.key === "Enter") return event.preventDefault();
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
  if (target.matches("input, select, textarea") && event.key !== "Escape") return;
  /** @type {HTMLElement | null} */
  const control = event.key === "/" || event.key === "n" ? document.querySelector(event.key === "n" ? "[data-new]" : "[data-search]") : null;
  if (event.key === "n") control?.click();
  control?.focus();
  if (control || screen?.onKey?.(event)) event.preventDefault();
});

const key = takeKey();
if (key) start(key).catch((error) => showSignIn(explain(error)));
else showSignIn();
