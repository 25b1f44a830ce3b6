// Follows the event log over `fetch`, which can send the key. Resumes where it stopped; a hidden page closes the stream.

import { get, request, sleep } from "./api.js";
import { parse } from "./json.js";

/** @import { Follower } from "../types" */

/** Something arrives every 15 seconds; after this time the connection is dead. */
const SILENCE = 40_000;
/** A stream that ends before this time has failed, and the next one waits. */
const STABLE = 5000;
const MAX_WAIT = 10_000;

export async function newest() {
  const { next } = await get("events?after=now&limit=1");
  return new URLSearchParams(next).get("after") ?? "";
}

/** @param {Follower} on */
export async function follow(position = "", on) {
  let connection = new AbortController();
  let retry = 3000;
  let wake = () => {};

  const take = (block = "") => {
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
    const { signal } = connection;
    const close = () => connection.abort();
    let silence = setTimeout(close, SILENCE);
    let wait = 0;
    let reached = false;
    try {
      const headers = position ? { "Last-Event-ID": position } : undefined;
      const response = await request("events/stream", { signal, headers });
      reached = true;
      if (response.status === 410) {
        position = await newest();
        on.gone();
      }
      wait = 1000 * Number(response.headers.get("retry-after"));
      const reader = response.ok && response.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; reader;) {
        on.state(true, true);
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(silence);
        silence = setTimeout(close, SILENCE);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop() ?? "";
        blocks.forEach(take);
      }
    } catch {
      // Lost, or closed by this page.
    }
    clearTimeout(silence);
    return { wait, reached };
  };

  const reconnect = () => {
    connection.abort();
    if (!document.hidden) wake();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? connection.abort() : wake()));
  addEventListener("online", reconnect);
  addEventListener("offline", reconnect);
  for (let failures = 0; ;) {
    const woken = new Promise((resolve) => (wake = () => resolve(null)));
    if (document.hidden) await woken;
    const start = Date.now();
    const { wait, reached } = await read();
    if (document.hidden) continue;
    failures = Date.now() - start > STABLE ? 0 : failures + 1;
    if (failures || !reached) on.state(false, reached);
    // At once, then with exponential backoff and jitter.
    const backoff = Math.min(retry * 2 ** (failures - 2), MAX_WAIT) * (0.5 + Math.random() / 2);
    await Promise.race([sleep(Math.max(wait, failures < 2 ? 100 : backoff)), woken]);
  }
}
