// The API key that all tabs of this browser share: from the address, from another tab, kept on this device, or typed.

import { ApiError, api, get } from "./api.js";
import { newest } from "./stream.js";
import { release } from "./unsaved.js";

/** @import { Key } from "../types" */

const STORAGE_KEY = "petstore-key";
/** Counts the sign-ins and sign-outs of this browser: a tab that has missed one forgets its key. */
const COUNT_KEY = "petstore-sign-ins";
const channel = new BroadcastChannel(`petstore ${location.pathname}`);

/** True while the page is being loaded again. */
let isLeaving = false;

/** @type {Key} */
export let key = { id: 0, name: "", scopes: [] };
export const can = (scope = "") => key.scopes.includes(scope);
/** Returns true if the key may see events of this type. */
export const canSee = (type = "") => can({ order: "orders:read", key: "keys:read" }[type.split(".")[0]] ?? "pets:read");

/** The secret in the fragment (`#key=…`), which is removed from the address. */
export function takeSecret(name = "") {
  const [, found = ""] = location.hash.match(`^#${name}=(.+)`) ?? [];
  if (found) history.replaceState(null, "", location.pathname);
  return found;
}

const counted = (storage = localStorage) => Number(storage.getItem(COUNT_KEY));
// A count that another tab stores in `localStorage` may arrive after its message: the higher one is
// current.
const latest = () => Math.max(counted(sessionStorage), counted());
if (counted(sessionStorage) < latest()) sessionStorage.removeItem(STORAGE_KEY);

/** The key that is kept on this device, unless this tab knows a newer one. */
export const keptKey = () => (counted() < latest() ? null : localStorage.getItem(STORAGE_KEY));

/** The key of this tab, or the one that is kept on this device. */
export const storedKey = () => keptKey() ?? sessionStorage.getItem(STORAGE_KEY) ?? "";

/** Stores a key for this tab. */
function storeForTab(secret = "", count = latest()) {
  sessionStorage.setItem(STORAGE_KEY, secret);
  sessionStorage.setItem(COUNT_KEY, String(count));
}

const countUp = () => localStorage.setItem(COUNT_KEY, String(latest() + 1));

/** Stores a new key, on this device if it is to be kept, and signs the other tabs in with it. */
export function share(secret = "", keep = false) {
  for (const storage of [localStorage, sessionStorage]) storage.removeItem(STORAGE_KEY);
  countUp();
  if (keep) localStorage.setItem(STORAGE_KEY, secret);
  else storeForTab(secret);
  channel.postMessage({ secret, count: latest(), isNew: true });
}

/** Asks the other tabs for their key. An answer may come late, or never. */
export const ask = () => channel.postMessage({ isQuestion: true });

/** Follows the other tabs. @param {(secret: string) => void} signedIn */
export function followTabs(signedIn) {
  channel.onmessage = ({ data: { isQuestion, secret, count, isNew, left, reason } }) => {
    if (isQuestion && key.id) channel.postMessage({ secret: api.key, count: latest() });
    if (left && left === sessionStorage.getItem(STORAGE_KEY)) sessionStorage.removeItem(STORAGE_KEY);
    if (left && left === api.key) forget(reason);
    // A tab that is signed in does not need the answer to another tab's question.
    if (!secret || secret === api.key || (api.key && !isNew)) return;
    if (secret !== storedKey()) storeForTab(secret, count);
    signedIn(secret);
  };
}

/**
 * Tests a key with one request. At the same time it asks where the event log ends, so that nothing is missed between
 * the first page and the stream.
 */
export async function signIn(secret = "") {
  api.key = secret.trim();
  if (!/^[!-~]+$/.test(api.key)) throw new ApiError(401);
  const position = newest().catch(() => "");
  key = (await get("keys/current")).data;
  return position;
}

/** Signs all tabs out, once: several responses can say that a key has ended. */
export function signOut(reason = "") {
  if (isLeaving) return;
  countUp();
  if (localStorage.getItem(STORAGE_KEY) === api.key) localStorage.removeItem(STORAGE_KEY);
  channel.postMessage({ left: api.key, reason: reason || "You signed out in another tab." });
  forget(reason);
}

/** Forgets the key, files that are imported with it, and everything that is loaded. */
function forget(reason = "") {
  // Changing the history of a page that is being loaded again can crash it.
  if (isLeaving) return;
  sessionStorage.clear();
  indexedDB.deleteDatabase("petstore-imports");
  history.replaceState({ reason }, "", location.pathname);
  restart();
}

/** Loads the page again, with the key that is stored now. */
export function restart() {
  isLeaving = true;
  release();
  key.id = 0;
  location.reload();
}

/** @param {ApiError} error */
export function explain({ status, message }) {
  if (status === 401) return "This API key is not valid. It may be mistyped, expired or revoked.";
  return status ? message : "The service does not respond. Is it running?";
}
