// The grouping of events in the activity.

import assert from "node:assert/strict";
import { test } from "node:test";

const { Bursts } = await import(new URL("../../crates/api/src/console/js/bursts.js", import.meta.url));

const START = Date.parse("2026-03-02T12:00:00Z");
const event = (at, more = {}) => ({ sequence: String(at).padStart(19, "0"), type: "pet.created", subject: `pets/${at}`, keyid: "1", data: {},
  time: new Date(START + at).toISOString(), ...more });

// The entries of events, loaded page by page and received live.
function* arrangements(events) {
  const [loaded, live] = [new Bursts(), new Bursts()];
  for (const event of events.toReversed()) loaded.addOlder(event);
  for (const event of events) live.addNewer(event);
  yield* [loaded.entries, live.entries];
}

test("a batch is one entry, whatever happens between its events", () => {
  const events = Array.from({ length: 5025 }, (_, at) => event(at, at % 201 === 100 ? { type: "order.placed", subject: `orders/${at}` } : { batchid: "b" }));
  for (const entries of arrangements(events)) {
    assert.equal(entries.length, 26);
    const [batch, ...orders] = entries;
    assert.deepEqual([batch.count, batch.types, batch.events.length], [5000, { "pet.created": 5000 }, 50]);
    assert.deepEqual([batch.newest, batch.oldest, batch.events[0]], [events[5024], events[0], events[5024]]);
    assert.deepEqual(orders, events.filter(({ type }) => type === "order.placed").toReversed());
  }
});

test("batches at the same time, of several kinds, are apart from each other and from single changes", () => {
  const kinds = ["pet.created", "pet.updated", "pet.deleted"];
  const events = Array.from({ length: 36 }, (_, at) => (at % 3 === 2 ? event(at) : event(at, { batchid: "ab"[at % 3], type: kinds[Math.floor(at / 3) % 3] })));
  for (const entries of arrangements(events)) {
    const bursts = entries.filter((entry) => "events" in entry);
    assert.deepEqual(bursts.map(({ newest, count }) => [newest.batchid, count]), [[undefined, 12], ["b", 12], ["a", 12]]);
    assert.deepEqual(bursts[1].types, { "pet.created": 4, "pet.updated": 4, "pet.deleted": 4 });
    assert.equal(entries.length, 3);
  }
});

test("a batch of one change is shown as it is, and one of two days on each of them", () => {
  const day = 86_400_000;
  for (const entries of arrangements([event(1, { batchid: "a" }), event(2, { batchid: "b" }), event(3, { batchid: "b" }), event(day, { batchid: "b" }), event(day + 1, { batchid: "b" })])) {
    assert.deepEqual(entries.map(({ count, id, batchid }) => count ? [count, new Set([id]).size] : batchid), [[2, 1], [2, 1], "a"]);
    assert.notEqual(entries[0].id, entries[1].id);
  }
});

test("eleven similar changes in a row are one entry, and ten are not", () => {
  for (const [size, expected] of [[10, 10], [11, 1]]) {
    for (const entries of arrangements(Array.from({ length: size }, (_, at) => event(at)))) assert.equal(entries.length, expected);
  }
});
