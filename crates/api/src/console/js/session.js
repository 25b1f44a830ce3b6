// The API key of this tab: from the address, from this session, or typed.

import { ApiError, api, get } from "./api.js";
import { newest } from "./stream.js";

/** @import { Key } from "../types" */

const STORAGE_KEY = "petstore-key";

/** @type {Key} */
export let key = { id: 0, name: "", scopes: [] };
export const can = (scope = "") => key.scopes.includes(scope);
/** Whether the key may see events of this type. */
export const canSee = (type = "") => can(type.startsWith("order.") ? "orders:read" : "pets:read");

/** The key in the fragment (`#key=…`), which is removed from the address, or the one of this session. */
export function takeKey() {
  const found = location.hash.match(/^#key=(.+)/)?.[1];
  if (!found) return sessionStorage.getItem(STORAGE_KEY);
  history.replaceState(null, "", location.pathname);
  return found;
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
  sessionStorage.setItem(STORAGE_KEY, api.key);
  return position;
}

/** Forgets the key, a file that is imported with it, and all that is loaded. */
export function signOut(reason = "") {
  sessionStorage.clear();
  history.replaceState({ reason }, "", location.pathname);
  location.reload();
}

/** @param {ApiError} error */
export function explain({ status, message }) {
  if (status === 401) return "This API key is not valid. It may be mistyped, expired or revoked.";
  return status ? message : "The service does not respond. Is it running?";
}
