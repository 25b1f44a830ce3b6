// The page that an invitation link opens. It is accepted by a button, because programs that preview links open them, too.

import { ApiError, send } from "./api.js";
import { act, message } from "./app.js";
import { dayOf } from "./days.js";
import { byId, el, fill } from "./dom.js";
import { describeScopes, roleOf } from "./roles.js";
import { ask, followTabs, share, storedKey } from "./session.js";

/** @import { Content, Key } from "../types" */

/** @param {string} secret */
const bearer = (secret) => ({ Authorization: `Bearer ${secret}` });
/** @param {string} secret @returns {Promise<Key>} */
const keyOf = async (secret) => (await send("GET", "keys/current", undefined, bearer(secret))).data;

/** @param {string} title @param {...Content} content */
function show(title, ...content) {
  document.title = `${title} · Petstore`;
  fill(byId("sign-in"), el("form", el("h1", { tabindex: -1 }, title), ...content));
  byId("sign-in").hidden = false;
  byId("sign-in").querySelector("h1").focus();
}

/** @param {ApiError} error @param {() => void} retry */
function showError(error, retry) {
  if (!(error instanceof ApiError)) throw error;
  if (error.status !== 401) {
    return show("You are invited", el("p.problem", { role: "alert" }, message(error)),
      el("button.btn.primary", { type: "button", onclick: retry }, "Try again"));
  }
  show("This link no longer works",
    el("p", "It was used already, was withdrawn, or is older than 24 hours. If the connection was lost while you accepted it, it is used up, too."),
    el("p", "Ask the owner of the store for a new one. It takes them a moment."),
    el("a.btn", { href: location.pathname }, "Go to the console"));
}

/** Shows an invitation. */
export async function welcome(secret = "") {
  byId("sign-in").hidden = true;
  /** @type {Key} */
  let key;
  try {
    key = await keyOf(secret);
    if (!key.invitation) throw new ApiError(401);
  } catch (error) {
    return showError(/** @type {ApiError} */ (error), () => welcome(secret));
  }
  const { scopes, expiresAt } = key.invitation;
  const keep = el("input", { type: "checkbox", "aria-describedby": "keep-hint" });
  const current = el("div", { role: "status" });
  const problem = el("p.problem", { role: "alert" });
  const accept = el("button.btn.primary", "Accept on this device");
  show("You are invited",
    el("p", "to Petstore at ", el("b", location.host), " as ", el("b", key.name), ` (${describeScopes(scopes)}).`),
    el("p.hint", roleOf(scopes)?.text && `${roleOf(scopes)?.text}. `, expiresAt && `Your access ends on ${dayOf(expiresAt)}.`),
    current,
    el("div", el("label.check", keep, "Keep me signed in on this device"),
      el("small.hint.block", { id: "keep-hint" }, "For your own phone or computer. Otherwise you are signed out when you close the browser, and need a new link.")),
    problem, accept);
  byId("sign-in").firstElementChild.onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    problem.textContent = "";
    act(accept, async () => {
      const { data } = await send("POST", "keys/claim", undefined, bearer(secret));
      share(data.secret, keep.checked);
      location.reload();
    }, (error) => (error.status === 401 ? showError(error, () => {}) : (problem.textContent = message(error))));
  };

  /** Says who is signed in. */
  const showCurrent = async (other = "") => {
    const { name } = await keyOf(other).catch(() => ({ name: "" }));
    if (!name) return;
    fill(current, el("div.notice.warn", el("p.also", `This browser is signed in as “${name}”. Accepting signs it in as “${key.name}” instead, in all tabs.`),
      el("a.btn.small", { href: location.pathname }, `Stay “${name}”`)));
  };
  followTabs(showCurrent);
  storedKey() ? showCurrent(storedKey()) : ask();
}
