// Mirrors the animals of a petstore service in a JSON file.
//
// Usage: PETSTORE_KEY=... node mirror.js URL FILE [--once]
//
// With --once it ends when it has caught up; otherwise it continues as animals change.

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

type Pet = { id: number; name: string; categoryId: number; status?: string };
type Event = { type: string; data: Pet };
type Query = Record<string, string>;
type Mirror = { position: string; pets: Record<string, Pet> };

const [url, file, ...options] = process.argv.slice(2);
const once = options.includes("--once");

class Gone extends Error {}

// Returns a page and the query of the next one, and retries while the service is away.
async function get<T>(path: string, query: Query): Promise<[T[], Query]> {
  const headers = { Authorization: `Bearer ${process.env.PETSTORE_KEY}` };
  const address = `${url}/v1/${path}?${new URLSearchParams(query)}`;
  for (;;) {
    let delay = 1;
    try {
      const response = await fetch(address, { headers, signal: AbortSignal.timeout(70_000) });
      const body = await response.text();
      if (response.ok) {
        const link = /<[^>?]*\?([^>]*)>/.exec(response.headers.get("Link") ?? "");
        return [JSON.parse(body), Object.fromEntries(new URLSearchParams(link?.[1]))];
      }
      if (response.status === 410) throw new Gone(body);
      if (response.status !== 429 && response.status < 500) throw new Error(body);
      delay = Number(response.headers.get("Retry-After") ?? delay);
    } catch (error) {
      // The connection was lost (TypeError), or there was no response in time.
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
    }
    await setTimeout(delay * 1000);
  }
}

// The animals and their position change together: the file is replaced as a whole.
function save(mirror: Mirror) {
  writeFileSync(`${file}.new`, JSON.stringify(mirror));
  renameSync(`${file}.new`, file);
}

async function listAll(): Promise<Mirror> {
  const [, now] = await get("events", { after: "now" }); // Before the list: nothing falls in between.
  const mirror: Mirror = { position: now.after, pets: {} };
  for (let query: Query = { limit: "100" }; query.limit; ) {
    const [pets, next] = await get<Pet>("pets", query);
    for (const pet of pets) mirror.pets[pet.id] = pet;
    query = next;
  }
  save(mirror);
  return mirror;
}

async function follow(mirror: Mirror) {
  const types = "pet.created,pet.updated,pet.deleted";
  let query: Query = { after: mirror.position, types, limit: "1000", wait: once ? "0" : "50" };
  for (;;) {
    const [events, next] = await get<Event>("events", query);
    for (const { type, data } of events) {
      if (type === "pet.deleted") delete mirror.pets[data.id];
      else mirror.pets[data.id] = data;
    }
    mirror.position = next.after;
    if (next.after !== query.after) save(mirror);
    else if (once) return;
    query = next;
  }
}

let mirror: Mirror | null = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
for (;;) {
  try {
    await follow(mirror ?? (await listAll()));
    break;
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
    mirror = null; // Events were missed: start over.
  }
}
