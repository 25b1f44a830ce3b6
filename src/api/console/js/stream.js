// Follows the event log over `fetch`, which can send the key. Resumes where it stopped;
// a hidden page closes the stream.

import { parse } from "./json.js";
import { sleep } from "./api.js";

/** Something arrives every 15 seconds; after this time the connection is dead. */
const SILENCE = 40_000;

/**
 * @param {import("./api.js").Api} api
 * @param {string | null} position the event to start after; null: now
 * @param {object} on
 * @param {(event: import("./api.js").Event) => void} on.event
 * @param {(live: boolean) => void} on.state
 * @param {() => void} on.gone the position is no longer kept: load everything again
 * @returns {() => void} ends it
 */
export function follow(api, position, on) {
  let ended = false;
  let retry = 3000;
  let connection = new AbortController();
  let wake = () => {};

  /** @param {string} block */
  const take = (block) => {
    let data = "";
    for (const line of block.split("\n")) {
      const [name, value] = line.split(/: ?(.*)/s);
      if (name === "id") position = value;
      if (name === "retry") retry = Number(value);
      if (name === "data") data += value;
    }
    if (data) on.event(parse(data));
  };

  const read = async () => {
    connection = new AbortController();
    let silence = setTimeout(() => connection.abort(), SILENCE);
    try {
      const headers = position ? { "Last-Event-ID": position } : undefined;
      const response = await api.fetch("events/stream", { headers, signal: connection.signal });
      if (response.status === 410) {
        position = null;
        return on.gone();
      }
      if (!response.ok || !response.body) {
        if (response.status === 403) ended = true;
        return;
      }
      on.state(true);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(() => connection.abort(), SILENCE);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop() ?? "";
        blocks.forEach(take);
      }
    } catch {
      // Lost, or closed: see below.
    } finally {
      clearTimeout(silence);
    }
  };

  const visibility = () => (document.hidden ? connection.abort() : wake());
  document.addEventListener("visibilitychange", visibility);
  addEventListener("online", visibility);
  (async () => {
    while (!ended) {
      if (document.hidden) await new Promise((resolve) => (wake = () => resolve(null)));
      await read();
      if (ended || document.hidden) continue;
      on.state(false);
      await Promise.race([sleep(retry), new Promise((resolve) => (wake = () => resolve(null)))]);
    }
  })();
  return () => {
    ended = true;
    connection.abort();
    wake();
    document.removeEventListener("visibilitychange", visibility);
    removeEventListener("online", visibility);
  };
}
