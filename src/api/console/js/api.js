// Requests to the API: the key, exact numbers, safe retries, and errors that explain
// themselves.

import { parse, stringify } from "./json.js";

/**
 * @typedef {{ id: number, name: string, categoryId: number | bigint, status?: PetStatus }} Pet
 * @typedef {"available" | "pending" | "sold"} PetStatus
 * @typedef {{ id: number, petId: number, status: "placed" | "completed" | "cancelled" | "returned",
 *   createdAt: string, updatedAt: string, expiresAt?: string }} Order
 * @typedef {{ id: number | bigint, name: string }} Category
 * @typedef {{ id: string, type: string, subject: string, time: string, sequence: string, keyid?: string, data: any }} Event
 * @typedef {{ data: any, etag: string | null, next: string | null, replayed?: boolean }} Result
 *   `next` is the query of the next page; `replayed`: an earlier request had the same key.
 */

/** An error response of the API, or `status` 0 if the connection was lost. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** How long a change is retried over a lost connection. */
const RETRY_FOR = 120_000;
/** How long a response may take: a test of a webhook takes longest. */
const TIMEOUT = 20_000;

/**
 * What the API tells the page.
 * @typedef {object} Observer
 * @property {(online: boolean) => void} connection
 * @property {(seconds: number, status: number) => void} waiting
 * @property {() => void} unauthorized
 */

export class Api {
  #end = new AbortController();

  /**
   * @param {string} key
   * @param {Observer} observer
   */
  constructor(key, observer) {
    this.key = key;
    this.observer = observer;
  }

  /** Ends all requests, and makes no more. */
  end() {
    this.#end.abort();
  }

  /**
   * One request, without retries and without a timeout.
   * @param {string} path below /v1/
   * @param {RequestInit & { headers?: Record<string, string> }} [options]
   */
  async fetch(path, options = {}) {
    const url = new URL(`v1/${path}`, document.baseURI);
    const headers = { ...options.headers, Authorization: `Bearer ${this.key}` };
    const signal = AbortSignal.any([this.#end.signal, ...(options.signal ? [options.signal] : [])]);
    const response = await fetch(url, { cache: "no-store", ...options, headers, signal });
    if (response.status === 401) this.observer.unauthorized();
    return response;
  }

  /**
   * Reads. Repeated if the service is busy, but not if the connection is lost.
   * @param {string} path
   * @param {AbortSignal} [signal]
   */
  get(path, signal) {
    return this.#request(path, { signal }, 0);
  }

  /**
   * Changes something, once: whatever happens to the connection, the request is repeated
   * until there is a response, and a POST has an `Idempotency-Key`.
   * @param {"POST" | "PATCH" | "PUT" | "DELETE"} method
   * @param {string} path
   * @param {object} [body]
   * @param {Record<string, string>} [more] headers
   */
  send(method, path, body, more) {
    /** @type {Record<string, string>} */
    const headers = { ...more };
    if (method === "POST") headers["Idempotency-Key"] ??= randomId();
    if (body) headers["Content-Type"] = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    return this.#request(path, { method, headers, body: body && stringify(body) }, RETRY_FOR);
  }

  /**
   * A POST of a form or button. Whoever clicks again because the connection was lost sends
   * the same `Idempotency-Key`, unless the request has changed.
   */
  once() {
    /** @type {Map<string, string>} */
    const keys = new Map();
    return async (/** @type {string} */ path, /** @type {object | undefined} */ body = undefined) => {
      const request = path + stringify(body ?? null);
      const key = keys.get(request) ?? randomId();
      keys.delete(request);
      try {
        return await this.send("POST", path, body, { "Idempotency-Key": key });
      } catch (error) {
        const { status } = /** @type {ApiError} */ (error);
        if (!status || status >= 500) keys.set(request, key);
        throw error;
      }
    };
  }

  /**
   * @param {string} path
   * @param {RequestInit & { headers?: Record<string, string> }} options
   * @param {number} retryFor
   * @returns {Promise<Result>}
   */
  async #request(path, options, retryFor) {
    const giveUpAt = Date.now() + retryFor;
    const isEnded = () => options.signal?.aborted || this.#end.signal.aborted;
    for (let attempt = 0; ; attempt++) {
      if (isEnded()) throw new ApiError(0, "aborted", "The request was cancelled.");
      let response, text;
      try {
        const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT), ...(options.signal ? [options.signal] : [])]);
        response = await this.fetch(path, { ...options, signal });
        text = await response.text();
      } catch {
        if (isEnded()) continue;
        this.observer.connection(false);
        if (retryFor) await sleep(Math.min(250 * 2 ** attempt, 4000));
        // Also after the computer has slept: the service forgets idempotency keys.
        if (Date.now() < giveUpAt) continue;
        throw new ApiError(0, "connection_lost", retryFor
          ? "The connection was lost, and it is not known whether the change was made. Try again: it is not made twice."
          : "The connection to the service was lost.");
      }
      this.observer.connection(true);
      if (response.ok) {
        const link = response.headers.get("link")?.match(/<([^>]*)>; rel="next"/)?.[1];
        return {
          data: text ? parse(text) : null,
          etag: response.headers.get("etag"),
          next: link ? new URL(link, document.baseURI).search : null,
          replayed: response.headers.has("idempotent-replayed"),
        };
      }
      // A lost response: the first attempt has deleted it.
      if (response.status === 404 && options.method === "DELETE" && attempt > 0) return { data: null, etag: null, next: null };
      if (response.status === 429 || (response.status === 503 && attempt < 10)) {
        const seconds = Number(response.headers.get("retry-after")) || 1;
        this.observer.waiting(seconds, response.status);
        await sleep(seconds * 1000);
        continue;
      }
      throw errorOf(response, text);
    }
  }
}

/**
 * @param {Response} response
 * @param {string} text
 */
function errorOf({ status }, text) {
  try {
    const { code, message } = JSON.parse(text);
    return new ApiError(status, code, message);
  } catch {
    return new ApiError(status, "unknown", `The service responded with status ${status}.`);
  }
}

/** @param {number} milliseconds */
export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// `crypto.randomUUID` exists only over HTTPS.
export const randomId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
