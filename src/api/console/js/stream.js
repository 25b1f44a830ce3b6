// Follows the event log over `fetch`, which can send the key. Resumes where it stopped;
// a hidden page closes the stream.

import { sleep } from "./api.js";
import { parse } from "./json.js";

/** Something arrives every 15 seconds; after this time the connection is dead. */
const SILENCE = 40_000;
/** A stream that ends before this time has failed, and the next one waits. */
const STABLE = 5000;
const MAX_WAIT = 10_000;

/** The id of the newest event. @param {import("./api.js").Api} api */
export async function newest(api) {
  const { next } = await api.get("events?after=now&limit=1");
  return new URLSearchParams(next ?? "").get("after");
}

/**
 * @param {import("./api.js").Api} api
 * @param {string | null} position the event to start after; null: now
 * @param {object} on
 * @param {(event: import("./api.js").Event) => void} on.event
 * @param {(live: boolean, reached: boolean) => void} on.state whether events arrive, and
 *   whether the service responds
 * @param {() => void} on.gone the position is no longer kept: load everything again
 * @returns {() => void} ends it
 */
export function follow(api, position, on) {
  let retry = 3000;
  let connection = new AbortController();
  let wake = () => {};
  const end = new AbortController();
  const { signal } = end;

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

  /** Reads until the stream ends, for any reason. Returns how long to wait, at least. */
  const read = async () => {
    connection = new AbortController();
    const isSilent = () => connection.abort();
    let silence = setTimeout(isSilent, SILENCE);
    let reached = false;
    try {
      const headers = position ? { "Last-Event-ID": position } : undefined;
      const response = await api.fetch("events/stream", { headers, signal: connection.signal });
      reached = true;
      if (response.status === 410) {
        position = await newest(api);
        on.gone();
      }
      if (!response.ok || !response.body) return { wait: 1000 * Number(response.headers.get("retry-after")), reached };
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        on.state(true, true);
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(silence);
        silence = setTimeout(isSilent, SILENCE);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop() ?? "";
        blocks.forEach(take);
      }
    } catch {
      // Lost, or closed by this page.
    } finally {
      clearTimeout(silence);
    }
    return { wait: 0, reached };
  };

  const reconnect = () => (connection.abort(), document.hidden || wake());
  document.addEventListener("visibilitychange", () => (document.hidden ? connection.abort() : wake()), { signal });
  addEventListener("online", reconnect, { signal });
  addEventListener("offline", reconnect, { signal });
  (async () => {
    for (let failures = 0; !signal.aborted;) {
      const woken = new Promise((resolve) => (wake = () => resolve(null)));
      if (document.hidden) await woken;
      const start = Date.now();
      const { wait, reached } = await read();
      if (signal.aborted || document.hidden) continue;
      failures = Date.now() - start > STABLE ? 0 : failures + 1;
      if (failures || !reached) on.state(false, reached);
      // At once, then with exponential backoff and jitter.
      const backoff = Math.min(retry * 2 ** (failures - 2), MAX_WAIT) * (0.5 + Math.random() / 2);
      await Promise.race([sleep(Math.max(wait, failures < 2 ? 100 : backoff)), woken]);
    }
  })();
  return () => {
    end.abort();
    connection.abort();
    wake();
  };
}
