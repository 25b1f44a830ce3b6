// Requests to the API: the key, exact numbers, safe retries, and errors that explain themselves.

import { parse, stringify } from "./json.js";

/** @import { Options, Result, Transport } from "../types" */

/** The time for which a change is retried over a lost connection. */
const RETRY_FOR = 120_000;
/** The maximum time of a response: a test of a webhook takes longest. */
const TIMEOUT = 20_000;
/** The number of responses that are kept. */
const MAX_KEPT = 60;
const NOT_KNOWN = "The connection was lost, and it is not known whether the change was made. Try again: it is not made twice.";

/** An error response of the API, or `status` 0 if there was none. */
export class ApiError extends Error {
  constructor(status = 0, code = "", message = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The API key, and what the shell does when the connection is lost or back, the service busy, or the key not valid. */
export const api = {
  key: "",
  isOnline: true,
  onConnection: (/** @type {boolean} */ online) => {},
  onWaiting: (/** @type {number} */ seconds, /** @type {number} */ status) => {},
  onUnauthorized: () => {},
};

/** One request, without retries and without a timeout. @param {string} path below /v1/ @param {Options} options */
export async function request(path, options) {
  const headers = { Authorization: `Bearer ${api.key}`, ...options.headers };
  const response = await fetch(new URL(`v1/${path}`, document.baseURI), { cache: "no-store", ...options, headers });
  if (response.status === 401) api.onUnauthorized();
  return response;
}

/** Reads. Repeated if the service is busy, but not if the connection is lost. @param {AbortSignal} [signal] */
export const get = (path = "", signal) => repeat(path, { signal }, 0);

/** @returns {Promise<any[]>} */
export async function getAll(list = "", query = "?limit=100") {
  const { data, next } = await getKept(list + query);
  return next ? [...data, ...(await getAll(list, next))] : data;
}

/** @type {Map<string, Result>} responses that are shown again while there is no connection */
const kept = new Map();

/** Reads and keeps the response. Without a connection, returns what was kept before. @param {AbortSignal} [signal] */
export async function getKept(path = "", signal) {
  const before = kept.get(path);
  if (before && !api.isOnline) return { ...before, isOld: true };
  return get(path, signal).then((result) => {
    kept.delete(path);
    kept.set(path, result);
    if (kept.size > MAX_KEPT) for (const [oldest] of kept) return kept.delete(oldest), result;
    return result;
  }, (error) => {
    if (before && error.code === "connection_lost") return { ...before, isOld: true };
    throw error;
  });
}

/**
 * Changes something, once: whatever happens to the connection, the request is repeated until there is a response, and
 * a POST has an `Idempotency-Key`.
 * @param {"GET" | "POST" | "PATCH" | "PUT" | "DELETE"} method
 * @param {string} path
 * @param {object} [body]
 * @param {Record<string, string>} [headers]
 */
export function send(method, path, body, headers) {
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const defaults = { ...(method === "POST" && { "Idempotency-Key": randomId() }), ...(body && { "Content-Type": type }) };
  return repeat(path, { method, body: body && stringify(body), headers: { ...defaults, ...headers } }, RETRY_FOR);
}

/** One request whose response may take a limited time. @type {Transport} */
export function limited(path, options) {
  const timeout = AbortSignal.timeout(TIMEOUT);
  return request(path, { ...options, signal: AbortSignal.any([options.signal ?? timeout, timeout]) });
}

/** @param {string} path @param {Options} options @param {number} retryFor @param {Transport} transport @returns {Promise<Result>} */
export async function repeat(path, options, retryFor = RETRY_FOR, transport = limited) {
  const giveUpAt = Date.now() + retryFor;
  for (let attempt = 0; ; attempt++) {
    let response, text;
    try {
      response = await transport(path, options);
      text = await response.text();
    } catch {
      if (options.signal?.aborted) throw new ApiError(0, "aborted");
      api.onConnection(false);
      if (retryFor) await sleep(Math.min(250 * 2 ** attempt, 4000));
      // Also after the computer has slept: the service forgets idempotency keys.
      if (Date.now() < giveUpAt) continue;
      throw new ApiError(0, "connection_lost", retryFor ? NOT_KNOWN : "The connection to the service was lost.");
    }
    api.onConnection(true);
    const { status, headers } = response;
    if (response.ok) {
      const link = headers.get("link")?.match(/<([^>]*)>; rel="next"/)?.[1];
      return {
        data: text ? parse(text) : null,
        etag: headers.get("etag") ?? "",
        next: link ? new URL(link, document.baseURI).search : "",
        replayed: headers.has("idempotent-replayed"),
      };
    }
    // A lost response: the first attempt has deleted it.
    if (status === 404 && options.method === "DELETE" && attempt > 0) return { data: null };
    if (status !== 429 && (status !== 503 || attempt >= 10)) {
      const isJson = headers.get("content-type")?.includes("json");
      const { code, message } = isJson ? parse(text) : { message: `The service responded with status ${status}.` };
      throw new ApiError(status, code, message);
    }
    const seconds = Number(headers.get("retry-after")) || 1;
    api.onWaiting(seconds, status);
    await sleep(seconds * 1000);
  }
}

export const sleep = (milliseconds = 0) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// `crypto.randomUUID` exists only over HTTPS.
export const randomId = () => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(18))));
