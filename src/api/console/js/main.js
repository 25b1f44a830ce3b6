// The shell: signing in and out, navigation, the live indicator, the keyboard.

import { ApiError } from "./api.js";
import { App, setOnline, toast } from "./app.js";
import { button, byId, el, field, fill } from "./dom.js";
import { ago } from "./format.js";
import { animals } from "./screens/animals.js";
import { categories } from "./screens/categories.js";
import { orders } from "./screens/orders.js";
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
/** @type {() => void} */
let endStream = () => {};

/** @type {import("./api.js").Observer} */
const observer = {
  connection(now) {
    if (now) {
      lastContact = Date.now();
      waitingUntil = 0;
    }
    if (now === online) return;
    online = now;
    setOnline(now);
    showBanner();
    if (now && app?.retry) {
      const retry = app.retry;
      app.retry = null;
      retry();
    }
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
  const banner = byId("banner");
  const seconds = Math.ceil((waitingUntil - Date.now()) / 1000);
  let text = "";
  if (app && !online) text = `No connection. This is the state of ${ago(lastContact)}; nothing can be changed until the connection is back.`;
  else if (app && seconds > 0) {
    text = `${waitingFor === 429 ? "Too many requests" : "The service is busy"}. Trying again in ${seconds} s.`;
  }
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !text;
}
setInterval(showBanner, 1000);

/** @param {boolean} live */
function showLive(live) {
  byId("live").className = live ? "on" : "";
  byId("live").textContent = live ? "live" : "connecting…";
}

/** @param {string} secret */
async function start(secret) {
  const session = await signIn(secret, observer);
  app = new App(session.api, session.key);
  const { name, scopes } = app.key;
  byId("key-name").textContent = name;
  const readOnly = !scopes.some((scope) => scope.endsWith(":write"));
  byId("key-scopes").textContent = `Signed in with the API key “${name}”${readOnly ? ", which can only read" : ""}.`;
  for (const link of document.querySelectorAll("nav a")) {
    const target = SCREENS[link.getAttribute("href")?.slice(2) ?? ""];
    /** @type {HTMLElement} */ (link).hidden = !target || !allowed(target);
  }
  byId("header").hidden = false;
  document.body.classList.remove("signed-out");
  showLive(false);
  open();
  const { api } = app;
  if (!app.can("pets:read") && !app.can("orders:read")) return;
  endStream = follow(api, session.position, {
    event(event) {
      app?.names.onEvent(event);
      screen?.onEvent?.(event);
    },
    state(live) {
      showLive(live);
      observer.connection(live);
    },
    gone: () => open(true),
  });
}

/** @param {string} [reason] */
function signOut(reason) {
  endStream();
  forgetKey();
  screen?.unmount?.();
  [app, screen, shown] = [null, null, ""];
  showSignIn(reason);
}

/** @param {string} [reason] */
function showSignIn(reason) {
  byId("header").hidden = true;
  document.body.classList.add("signed-out");
  document.title = "Sign in · Petstore";
  showBanner();
  const input = el("input", { type: "password", name: "key", autocomplete: "current-password", required: true, autofocus: true, spellcheck: "false" });
  const problem = el("p", { class: "problem", role: "alert" }, reason);
  const submit = el("button", { class: "btn primary" }, "Sign in");
  const form = el("form", { class: "sign-in" },
    el("h1", null, "Petstore"),
    field("API key", input),
    problem,
    submit,
    el("p", { class: "hint" }, "A key is created on the server: ", el("code", null, "petstore keys create NAME")),
    el("p", { class: "hint" }, el("a", { href: "docs" }, "API reference")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    try {
      await start(input.value);
    } catch (error) {
      problem.textContent = explain(error);
      input.select();
    }
    submit.disabled = false;
  });
  fill(root, form);
  input.focus();
}

/** @param {{ scopes: string[] }} target */
const allowed = (target) => target.scopes.some((scope) => app?.can(scope));

/** Shows the screen of the address. @param {boolean} [again] even if it is shown already */
function open(again) {
  if (!app) return;
  const [, name, rest = ""] = location.hash.match(/^#\/(\w+)\/?(.*)/) ?? [];
  const names = Object.keys(SCREENS).filter((name) => allowed(SCREENS[name]));
  if (!names.includes(name)) {
    if (names[0]) location.replace(`#/${names[0]}`);
    else fill(root, el("p", { class: "empty" }, "Your API key allows nothing that can be shown here."));
    return;
  }
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.getAttribute("href") === `#/${name}`;
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
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

addEventListener("hashchange", () => open());
byId("sign-out").addEventListener("click", () => signOut());
document.addEventListener("click", (event) => {
  const account = /** @type {HTMLDetailsElement} */ (byId("account"));
  if (!account.contains(/** @type {Node} */ (event.target))) account.open = false;
});
document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
  const typing = target.matches("input, select, textarea");
  if (typing && event.key !== "Escape") return;
  const control = { "/": "[data-search]", n: "[data-new]" }[event.key];
  /** @type {HTMLElement | null} */
  const found = control ? document.querySelector(control) : null;
  if (found) event.key === "n" ? found.click() : found.focus();
  if (found || screen?.onKey?.(event)) event.preventDefault();
});
addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof ApiError)) toast("Something went wrong. Reload the page.", "danger");
});

const key = takeKey();
if (key) start(key).catch((error) => showSignIn(explain(error)));
else showSignIn();
