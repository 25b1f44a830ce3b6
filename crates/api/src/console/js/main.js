// The shell: signing in and out, the live indicator, the connection.

import { api } from "./api.js";
import { load, setOnline } from "./app.js";
import { byId } from "./dom.js";
import { ago } from "./format.js";
import { showKeys } from "./keyboard.js";
import { names } from "./names.js";
import { currentScreen, isShown, open, reopen } from "./navigation.js";
import { ask, canSee, explain, followTabs, keptKey, key, restart, share, signIn, signOut, storedKey, takeSecret } from "./session.js";
import { follow } from "./stream.js";
import { exactly } from "./times.js";
import { mayDiscard } from "./unsaved.js";

const root = byId("screen");
let lastContact = Date.now();
let waiting = { until: 0, status: 0 };

api.onConnection = (now) => {
  if (now) [lastContact, waiting.until] = [Date.now(), 0];
  if (now === api.isOnline) return;
  api.isOnline = now;
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
  if (!isShown() || api.isOnline) say("banner", seconds > 0 ? `${busy}. Trying again in ${seconds} s.` : "");
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
  await open(true);
  if (!["pet.", "order.", "key."].some(canSee)) return;
  follow(position, {
    event(event) {
      names.onEvent(event);
      try {
        currentScreen().onEvent?.(event);
      } catch (error) {
        // The stream continues.
        reportError(error);
      }
    },
    state(live, reached) {
      showLive(live);
      api.onConnection(reached);
    },
    gone() {
      names.pets.clear();
      reopen();
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

byId("sign-in").querySelector("form").addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  const submit = byId("submit");
  if (submit.ariaBusy) return;
  submit.ariaBusy = "true";
  await startNew(byId("key").value, byId("keep").checked);
  submit.ariaBusy = null;
});
byId("sign-out").addEventListener("click", async () => (await mayDiscard()) && signOut());
byId("show-keys").addEventListener("click", () => (byId("account").hidePopover(), showKeys()));
addEventListener("hashchange", () => (byId("account").hidePopover(), open()));
// A page that the browser kept in memory may be of a person who has signed out.
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
addEventListener("beforeprint", () => {
  const time = document.querySelector(".printed");
  if (time) time.textContent = `Printed on ${exactly(new Date().toISOString())}`;
});

/** Starts with a key that no tab has yet. */
const startNew = (secret = "", keep = false) => start(secret, keep).catch((error) => showSignIn(explain(error)));

/** Starts with a key that was valid before. */
const startAgain = (secret = "") =>
  start(secret).catch((error) => (error.status === 401 ? signOut(NOT_VALID) : showSignIn(explain(error))));

followTabs((secret) => (api.key ? restart() : startAgain(secret)));
const invitation = takeSecret("invitation");
const secret = takeSecret("key");
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
