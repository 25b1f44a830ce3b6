// The API key of this tab: from the address, from this session, or typed.

import { Api, ApiError } from "./api.js";
import { newest } from "./stream.js";

/** @typedef {{ id: number, name: string, scopes: string[], expiresAt?: string }} Key */

const STORAGE_KEY = "petstore-key";

/** The key in the fragment (`#key=…`), which is removed from the address, or the one of this session. */
export function takeKey() {
  const key = location.hash.match(/^#key=(.+)/)?.[1];
  if (!key) return sessionStorage.getItem(STORAGE_KEY);
  history.replaceState(null, "", location.pathname);
  return key;
}

/** Forgets the key, and a file that is imported with it. */
export const forgetKey = () => sessionStorage.clear();

/**
 * Tests a key with one request. At the same time it asks where the event log ends, so
 * that nothing is missed between the first page and the stream.
 * @param {string} secret
 * @param {import("./api.js").Observer} observer
 */
export async function signIn(secret, observer) {
  const api = new Api(secret.trim(), observer);
  if (!/^[!-~]+$/.test(api.key)) throw new ApiError(401, "invalid_api_key", "");
  const position = newest(api).catch(() => null);
  const { data } = await api.get("keys/current");
  sessionStorage.setItem(STORAGE_KEY, api.key);
  return { api, key: /** @type {Key} */ (data), position: await position };
}

/** Why signing in failed. @param {ApiError} error */
export function explain(error) {
  if (error.status === 401) return "This API key is not valid. It may be mistyped, expired or revoked.";
  return error.status ? error.message : "The service does not respond. Is it running?";
}
