// The shell: signing in and out, navigation, the live indicator, the keyboard.

import { api } from "./api.js";
import { load, setOnline, showFailure } from "./app.js";
import { byId, controls, el, fill } from "./dom.js";
import { ago } from "./format.js";
import { names } from "./names.js";
import { scan } from "./scanner.js";
import { ask, can, canSee, explain, followTabs, keptKey, key, restart, share, signIn, signOut, storedKey, takeSecret } from "./session.js";
import { follow } from "./stream.js";

/** @import { Mount, Screen } from "../types" */

/** @type {Record<string, { scopes: string[], module: () => Promise<{ mount: Mount }> }>} a key needs one of the scopes */
const SCREENS = {
  animals: { scopes: ["pets:read"], module: () => import("./screens/animals.js") },
  orders: { scopes: ["orders:read"], module: () => import("./screens/orders.js") },
  categories: { scopes: ["pets:read"], module: () => import("./screens/categories.js") },
  activity: { scopes: ["pets:read", "orders:read", "keys:read"], module: () => import("./screens/activity.js") },
  people: { scopes: ["keys:read"], module: () => import("./screens/people.js") },
  webhooks: { scopes: ["webhooks:read"], module: () => import("./screens/webhooks.js") },
  import: { scopes: ["pets:write"], module: () => import("./screens/import.js") },
};

const root = byId("screen");
const links = /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav a"));
/** The screen, its name, and what ends it. */
let [screen, shown, end] = [/** @type {Screen} */ ({}), "", new AbortController()];
let online = true;
let lastContact = Date.now();
let waiting = { until: 0, status: 0 };

api.onConnection = (now) => {
  if (now) [lastContact, waiting.until] = [Date.now(), 0];
  if (now === online) return;
  online = now;
  setOnline(now);
  showBanner();
};
api.onWaiting = (seconds, status) => {
  waiting = { until: Date.now() + seconds * 1000, status };
  showBanner();
};

/** Changes a text that is read aloud, but does not repeat it. */
const say = (id = "", text = "") => byId(id).textContent === text || (byId(id).textContent = text);

function showBanner() {
  const seconds = Math.ceil((waiting.until - Date.now()) / 1000);
  const busy = waiting.status === 429 ? "Too many requests" : "The service is busy";
  if (!shown || online) say("banner", seconds > 0 ? `${busy}. Trying again in ${seconds} s.` : "");
  else say("banner", `No connection. Showing data from ${ago(lastContact)}; changes are disabled until it is back.`);
}
setInterval(showBanner, 1000);

const showLive = (live = false) => {
  byId("live").classList.toggle("on", live);
  say("live", live ? "live" : "connecting…");
};

const NOT_VALID = "You were signed out, because your access was taken away or has ended.";

/** Signs in. A key that is new is shared with the other tabs, and kept on this device or not. @param {boolean} [keep] */
async function start(secret = "", keep) {
  const position = await signIn(secret);
  if (keep !== undefined) share(api.key, keep);
  api.onUnauthorized = () => signOut(NOT_VALID);
  const isReader = !key.scopes.some((scope) => scope.endsWith(":write"));
  byId("key-name").textContent = key.name;
  byId("key-scopes").textContent = `Signed in as “${key.name}”${isReader ? ", who can only read" : ""}.`;
  showPage(true);
  showLive();
  await open();
  if (!["pet.", "order.", "key."].some(canSee)) return;
  follow(position, {
    event(event) {
      names.onEvent(event);
      try {
        screen.onEvent?.(event);
      } catch (error) {
        // The stream goes on.
        reportError(error);
      }
    },
    state(live, reached) {
      showLive(live);
      api.onConnection(reached);
    },
    gone() {
      names.pets.clear();
      open(true);
    },
  });
}

function showPage(signedIn = false) {
  byId("header").hidden = root.hidden = !signedIn;
  byId("sign-in").hidden = signedIn;
}

function showSignIn(reason = "") {
  api.key = "";
  document.title = "Sign in · Petstore";
  showPage();
  byId("sign-in-problem").textContent = reason;
  byId("key").value = "";
  byId("key").focus();
}

const isAllowed = (name = "") => SCREENS[name]?.scopes.some(can);

/** Shows the screen of the address, again even if it is shown already. @returns {Promise<void>} */
async function open(again = false) {
  const { hash } = location;
  const [, name = "", rest = ""] = hash.match(/^#\/(\w+)\/?(.*)/) ?? [];
  if (!isAllowed(name)) {
    const first = Object.keys(SCREENS).find(isAllowed);
    if (!first) return fill(root, el("p.empty", "Your API key allows nothing that is shown here."));
    history.replaceState(null, "", `#/${first}`);
    return open();
  }
  if (name === shown && !again) return screen.show?.(rest);
  end.abort();
  end = new AbortController();
  const { signal } = end;
  const box = el("div");
  [screen, shown] = [{}, ""];
  fill(root, el("p.more", "Loading…"));
  const mount = await load(SCREENS[name].module()).then((module) => module.mount, (error) => () => {
    showFailure(box, error, open);
    return {};
  });
  // Meanwhile another one may be wanted.
  if (signal.aborted || hash !== location.hash) return;
  for (const link of links) {
    link.hidden = !isAllowed(link.hash.slice(2));
    link.ariaCurrent = link.hash === `#/${name}` ? "page" : null;
  }
  const title = name[0].toUpperCase() + name.slice(1);
  document.title = `${title} · Petstore`;
  fill(root, el("h1.unseen", title), box);
  scrollTo(0, 0);
  shown = name;
  screen = mount(box, rest, signal);
}

byId("sign-in").querySelector("form").addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  const submit = byId("submit");
  if (submit.ariaBusy) return;
  submit.ariaBusy = "true";
  await startNew(byId("key").value, byId("keep").checked);
  submit.ariaBusy = null;
});
byId("sign-out").addEventListener("click", () => signOut());
// A link with a key or an invitation can be opened in a tab that is signed in.
addEventListener("hashchange", () => (/^#(key|invitation)=/.test(location.hash) ? location.reload() : open()));
// A page that the browser kept in memory may be of a person who has signed out.
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
document.addEventListener("keydown", (event) => root.hidden || scan(event), true);

document.addEventListener("keydown", (event) => {
  const { key, repeat } = event;
  const target = /** @type {Element} */ (event.target);
  const find = (selector = "") => /** @type {HTMLElement | null} */ (document.querySelector(selector));
  // A key that is held down must not sell an animal and take it back.
  if (repeat && key === "Enter") return event.preventDefault();
  if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
  const isSearch = target.matches("[data-search]");
  if (target.matches("input, select, textarea") && key !== "Escape" && !(isSearch && key === "ArrowDown")) return;
  if (key === "n") find("[data-new]")?.click();
  else if (key === "e" && find("[data-edit]")?.checkVisibility()) find("[data-edit]")?.click();
  else if (key === "/") find("[data-search]")?.focus();
  else if (key === "Escape") {
    // Closes the panel, even while it is loading.
    const [list] = location.hash.match(/^#\/\w+(?=\/.)/) ?? [];
    if (list && !root.hidden) location.hash = list;
    else find(":focus")?.blur();
  }
  else if ((key === "ArrowDown" || key === "ArrowUp") && find("tr[data-key]")) {
    const row = target.closest("tr[data-key]");
    const to = key === "ArrowDown" ? row?.nextElementSibling : row?.previousElementSibling;
    controls(row ? to : find("tr[data-key]"))[0]?.focus();
  } else return;
  event.preventDefault();
});

/** Starts with a key that no tab has yet. */
const startNew = (secret = "", keep = false) => start(secret, keep).catch((error) => showSignIn(explain(error)));

/** Starts with a key that was valid before. */
const startAgain = (secret = "") =>
  start(secret).catch((error) => (error.status === 401 ? signOut(NOT_VALID) : showSignIn(explain(error))));

followTabs((secret) => (api.key ? restart() : startAgain(secret)));
const [invitation, secret] = [takeSecret("invitation"), takeSecret("key")];
if (invitation) {
  load(import("./invitation.js")).then(({ welcome }) => welcome(invitation), (error) => showSignIn(error.message));
} else if (secret && keptKey() && secret !== keptKey()) {
  // A kept key may come from an invitation, which does not work again.
  showSignIn("This browser is signed in with another key. Signing in with this one replaces it, in all tabs.");
  byId("key").value = secret;
} else if (secret && secret !== storedKey()) startNew(secret);
else if (storedKey()) startAgain(storedKey());
else {
  ask();
  // The answer of another tab saves a glimpse of this page.
  setTimeout(() => api.key || showSignIn(history.state?.reason), 150);
}
