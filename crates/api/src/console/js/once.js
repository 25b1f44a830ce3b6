// A POST of a form or button.

import { randomId, send } from "./api.js";
import { stringify } from "./json.js";

/** Whoever clicks again because the connection was lost sends the same `Idempotency-Key`, unless the request has changed. */
export function postOnce() {
  let [last, key] = ["", ""];
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
