// The API key of this tab: from the address, from this session, or typed.

import { Api, ApiError } from "./api.js";

const STORAGE_KEY = "petstore-key";

/**
 * @typedef {{ id: number, name: string, scopes: string[], expiresAt?: string }} Key
 */

/**
 * The key in the fragment (`#key=…`), which is removed from the address, or the one of
 * this session.
 * @returns {string | null}
 */
export function takeKey() {
  const key = location.hash.match(/^#key=(.+)/)?.[1];
  if (!key) return sessionStorage.getItem(STORAGE_KEY);
  history.replaceState(null, "", location.pathname);
  return decodeURIComponent(key);
}

/**
 * Signs in with one request. A second one, at the same time, asks where the event log
 * ends, so that nothing is missed between the first page and the stream.
 * @param {string} secret
 * @param {import("./api.js").Observer} observer
 */
export async function signIn(secret, observer) {
  const api = new Api(secret.trim(), observer);
  if (!/^[!-~]+$/.test(api.key)) throw new ApiError(401, "invalid_api_key", "");
  const position = api.get("events?after=now&limit=1").then(
    (page) => new URLSearchParams(page.next ?? "").get("after"),
    () => null,
  );
  const { data } = await api.get("keys/current");
  sessionStorage.setItem(STORAGE_KEY, api.key);
  return { api, key: /** @type {Key} */ (data), position: await position };
}

export const forgetKey = () => sessionStorage.removeItem(STORAGE_KEY);

/**
 * Why signing in failed, for a person.
 * @param {unknown} error
 */
export function explain(error) {
  if (!(error instanceof ApiError) || error.status === 0) return "The service does not respond. Is it running?";
  if (error.status === 401) return "This API key is not valid. It may be mistyped, expired or revoked.";
  return error.message;
}
