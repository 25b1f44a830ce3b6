// A POST of a form or button.

import { randomId, send } from "./api.js";
import { stringify } from "./json.js";

/** Sends the same `Idempotency-Key` when a person clicks again after the connection was lost, unless the request has changed. */
export function postOnce() {
  let last = "";
  let key = "";
  return (path = "", body = /** @type {object | undefined} */ (undefined)) => {
    const request = path + stringify(body ?? null);
    if (request !== last) [last, key] = [request, randomId()];
    return send("POST", path, body, { "Idempotency-Key": key }).then((result) => {
      last = "";
      return result;
    }, (error) => {
      if (error.status && error.status < 500) last = "";
      throw error;
    });
  };
}
