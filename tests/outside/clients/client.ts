// Exercises a client with the types that were generated from the served contract.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./contract.js";

// The last argument "broken" expects a service whose database is damaged; "unknown" expects
// one that answers everything with an error that the contract does not list.
const [base, key, narrowKey, mode] = process.argv.slice(2);

const client = (token?: string) =>
  createClient<paths>({ baseUrl: base, headers: token ? { Authorization: `Bearer ${token}` } : {} });
const shop = client(key);

type Failure = { error?: components["schemas"]["Error"]; response: Response };

function expect(failure: Failure, status: number, code: components["schemas"]["Error"]["code"]) {
  assert.equal(failure.response.status, status);
  assert.ok(failure.error);
  assert.deepEqual([failure.error.status, failure.error.code], [status, code]);
  assert.notEqual(failure.error.message, "");
}

if (mode === "broken") {
  expect(await shop.GET("/pets", {}), 503, "unavailable");
  expect(await shop.POST("/pets", { body: { name: "A", categoryId: 1 } }), 503, "unavailable");
  process.exit();
}

if (mode === "unknown") {
  const petPath = { params: { path: { petId: 1 } } };
  for (const failure of [
    await shop.GET("/pets", {}),
    await shop.POST("/pets", { body: { name: "A", categoryId: 1 } }),
    await shop.PATCH("/pets/{petId}", { ...petPath, body: { name: "B" } }),
    await shop.DELETE("/pets/{petId}", petPath),
    await shop.PUT("/categories/{categoryId}", { params: { path: { categoryId: 1 } }, body: { name: "Dogs" } }),
    await shop.POST("/store/orders", { body: { petId: 1 } }),
    await shop.POST("/store/orders/{orderId}/return", { params: { path: { orderId: 1 } } }),
  ]) {
    expect(failure, 400, "pet_on_holiday");
    assert.equal(Object(failure.error).until, "2027-01-07");
  }
  process.exit();
}

// A request body that never ends; its 408 is awaited last.
const stalled = new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode("{")) });
const slowFetch = (request: Request) =>
  fetch(new Request(request.url, { method: "POST", headers: request.headers, body: stalled, duplex: "half" }));
const slow = shop.POST("/pets", { body: { name: "A", categoryId: 1 }, fetch: slowFetch });

const ids: number[] = [];
for (let n = 0; n < 5; n += 1) {
  const created = await shop.POST("/pets", { body: { name: `Pet ${n}`, categoryId: n, status: "pending" } });
  assert.equal(created.response.status, 201);
  assert.ok(created.data);
  ids.push(created.data.id);
}

const walked: number[] = [];
let cursor: string | undefined;
do {
  const query = { limit: 2, status: "pending", cursor } as const;
  const page = await shop.GET("/pets", { params: { query } });
  assert.ok(page.data);
  walked.push(...page.data.map((pet) => pet.id));
  cursor = page.response.headers.get("link")?.match(/[?&]cursor=([^&>]+)/)?.[1];
} while (cursor);
assert.deepEqual(walked, ids);

type Query = NonNullable<paths["/pets"]["get"]["parameters"]["query"]>;
const find = async (query: Query) => (await shop.GET("/pets", { params: { query } })).data?.map((pet) => pet.id);
const newestFirst = ids.toReversed();
assert.deepEqual(await find({ sort: "desc" }), newestFirst);
assert.deepEqual(await find({ id: [ids[3], ids[1], 999_999].join() }), [ids[1], ids[3]]);
assert.deepEqual(await find({ categoryId: 2 }), [ids[2]]);
assert.deepEqual(await find({ name: "PET", sort: "desc" }), newestFirst);
assert.deepEqual(await find({ name: "pet 3", categoryId: 3, status: "pending" }), [ids[3]]);
assert.deepEqual(await find({ name: "_et" }), []);

const path = { petId: ids[0] };
const fetched = await shop.GET("/pets/{petId}", { params: { path } });
assert.equal(fetched.data?.name, "Pet 0");
const header = { "If-None-Match": fetched.response.headers.get("etag") ?? "" };
assert.equal((await shop.GET("/pets/{petId}", { params: { path, header } })).response.status, 304);
assert.deepEqual((await shop.GET("/store/orders", {})).data, []);

const batch = await shop.POST("/pets/batch", {
  body: { changes: [{ create: { name: "" } }, { id: ids[4], update: { name: "Pet 5" } }, { id: 999_999, delete: true }] },
});
assert.ok(batch.data);
assert.deepEqual(batch.data.results.map((result) => result.status), [400, 200, 404]);
assert.equal(batch.data.results[2].error?.code, "not_found");
const batchPath = { batchId: batch.data.batchId };
const undone = await shop.POST("/pets/batch/{batchId}/undo", { params: { path: batchPath } });
assert.deepEqual([undone.data?.undone, undone.data?.kept], [1, []]);

const rex = await shop.POST("/pets", { body: { name: "Rex", categoryId: 1, status: "available" } });
assert.ok(rex.data);
const rexPath = { petId: rex.data.id };
const claim = { params: { header: { "Idempotency-Key": "till-1" } }, body: rexPath };
const placed = await shop.POST("/store/orders", claim);
assert.ok(placed.data);
assert.equal(placed.data.status, "placed");
const again = await shop.POST("/store/orders", claim);
assert.equal(again.response.headers.get("idempotent-replayed"), "true");
assert.deepEqual(again.data, placed.data);
expect(await shop.POST("/store/orders", { ...claim, body: { petId: ids[0] } }), 422, "idempotency_key_reused");
const orderPath = { orderId: placed.data.id };
const cancelled = await shop.POST("/store/orders/{orderId}/cancel", { params: { path: orderPath } });
assert.equal(cancelled.data?.status, "cancelled");
expect(await shop.POST("/store/orders/{orderId}/complete", { params: { path: orderPath } }), 409, "order_not_open");
expect(await shop.POST("/store/orders/{orderId}/return", { params: { path: orderPath } }), 409, "order_not_returnable");

const sale = await shop.POST("/store/orders", { body: rexPath });
assert.ok(sale.data);
const salePath = { params: { path: { orderId: sale.data.id } } };
await shop.POST("/store/orders/{orderId}/complete", salePath);
expect(await shop.PATCH("/pets/{petId}", { params: { path: rexPath }, body: { status: "available" } }), 409, "pet_sold");
const returned = await shop.POST("/store/orders/{orderId}/return", salePath);
assert.equal(returned.data?.status, "returned");
const newestOrders = await shop.GET("/store/orders", { params: { query: { ...rexPath, sort: "desc" } } });
assert.deepEqual(newestOrders.data?.map((order) => order.status), ["returned", "cancelled"]);

const patch = { params: { path: rexPath, header: { "If-Match": '"other"' } }, body: { name: "Max" } };
expect(await shop.PATCH("/pets/{petId}", patch), 412, "precondition_failed");
const renamed = await shop.PATCH("/pets/{petId}", { params: { path: rexPath }, body: { name: "Max", status: null } });
assert.deepEqual(renamed.data, { id: rexPath.petId, name: "Max", categoryId: 1 });
assert.deepEqual((await shop.GET("/store/inventory", {})).data, { available: 0, pending: 5, sold: 0, total: 6 });
expect(await shop.DELETE("/pets/{petId}", { params: patch.params }), 412, "precondition_failed");
assert.equal((await shop.DELETE("/pets/{petId}", { params: { path: rexPath } })).response.status, 204);
expect(await shop.DELETE("/pets/{petId}", { params: { path: rexPath } }), 404, "not_found");
assert.deepEqual(await find({ id: `${rexPath.petId}` }), []);

// The type of an event tells what its data is, to the compiler as well.
type Event = components["schemas"]["Event"];
const deletedPet = (event: Event): components["schemas"]["Pet"] | undefined =>
  event.type === "pet.deleted" ? event.data : undefined;
function soldPet(event: Event): number | undefined {
  switch (event.type) {
    case "order.completed":
      return event.data.petId;
    // @ts-expect-error: an animal has no petId.
    case "pet.updated": return event.data.petId;
  }
}
// @ts-expect-error: not every event is about something with a name.
const nameOf = (event: Event): string => event.data.name;
const events = await shop.GET("/events", {});
assert.ok(events.data);
assert.deepEqual(events.data.map(deletedPet).filter(Boolean), [{ id: rexPath.petId, name: "Max", categoryId: 1 }]);
assert.deepEqual(events.data.map(soldPet).filter(Boolean), [rexPath.petId]);
assert.equal(events.data.map(nameOf)[0], "Pet 0");

const details = {
  name: "Juniper",
  categoryId: 1,
  status: "available",
  breed: "Cavalier",
  sex: "female",
  birthDate: "2026-08-02",
  microchip: "985-112-004-567-890",
  price: { amount: 145_000, currency: "USD" },
  source: { name: "Hollow Oak", licence: "52-B-0187" },
  metadata: { litter: "2026-07" },
} as const;
const juniper = await shop.POST("/pets", { body: details });
assert.ok(juniper.data);
const juniperPath = { petId: juniper.data.id };
assert.deepEqual(juniper.data, { ...details, id: juniperPath.petId, microchip: "985112004567890" });
assert.deepEqual(await find({ microchip: "985 112 004 567 890" }), [juniperPath.petId]);
expect(await shop.POST("/pets", { body: details }), 409, "microchip_taken");
const change = { price: { amount: 99_900 }, breed: null };
const cheaper = await shop.PATCH("/pets/{petId}", { params: { path: juniperPath }, body: change });
assert.deepEqual(cheaper.data?.price, { amount: 99_900, currency: "USD" });
assert.equal(cheaper.data.breed, undefined);
const buyer = { name: "Ada Moreno", contact: "ada@example.com" };
const sold = await shop.POST("/store/orders", { body: { ...juniperPath, buyer, reference: "R-1" } });
assert.ok(sold.data);
assert.deepEqual([sold.data.buyer, sold.data.price, sold.data.reference], [buyer, cheaper.data.price, "R-1"]);
const soldPath = { params: { path: { orderId: sold.data.id } } };
const correct = (body: components["schemas"]["OrderChange"]) =>
  shop.PATCH("/store/orders/{orderId}", { ...soldPath, body });
const corrected = await correct({ reference: "R-2", buyer: { contact: null } });
assert.deepEqual([corrected.data?.reference, corrected.data?.buyer], ["R-2", { name: "Ada Moreno" }]);
assert.equal((await correct({ buyer: null })).data?.buyer, undefined);
await shop.POST("/store/orders/{orderId}/cancel", soldPath);
expect(await correct({ reference: "R-3" }), 409, "order_not_changeable");

const category = (categoryId: number, name: string) =>
  shop.PUT("/categories/{categoryId}", { params: { path: { categoryId } }, body: { name } });
const dogs = await category(3, "Dogs");
assert.deepEqual([dogs.response.status, dogs.data], [201, { id: 3, name: "Dogs" }]);
assert.equal((await category(3, "Hounds")).response.status, 200);
expect(await category(-4, "hounds"), 409, "category_name_taken");
assert.equal((await category(-4, "Cats")).response.status, 201);
const categories = await shop.GET("/categories", {});
assert.deepEqual(categories.data, [{ id: -4, name: "Cats" }, { id: 3, name: "Hounds" }]);
const catsPath = { params: { path: { categoryId: -4 } } };
assert.equal((await shop.DELETE("/categories/{categoryId}", catsPath)).response.status, 204);
expect(await shop.DELETE("/categories/{categoryId}", catsPath), 404, "not_found");

const animal = { name: "A", categoryId: 1 };
const strict = { header: { Prefer: "handling=strict" } };
const misspelt = { stauts: "sold" };
const lenient = await shop.GET("/pets", { params: { query: misspelt as Query } });
assert.deepEqual([lenient.response.status, lenient.response.headers.get("preference-applied")], [200, null]);
assert.equal(lenient.response.headers.get("petstore-unknown-parameters"), "stauts");
for (const [failure, code] of [
  [await shop.GET("/pets", { params: { ...strict, query: misspelt as Query } }), "invalid_parameter"],
  [await shop.POST("/pets", { params: strict, body: { ...animal, ...misspelt } }), "invalid_body"],
] as const) {
  expect(failure, 400, code);
  assert.match(failure.error?.message ?? "", /stauts/);
  assert.equal(failure.response.headers.get("preference-applied"), "handling=strict");
}
const current = await client(narrowKey).GET("/keys/current", {});
assert.deepEqual(current.data?.scopes, ["orders:read"]);
const keys = await shop.GET("/keys", {});
assert.ok(keys.data?.some(({ id, name }) => id === current.data?.id && name === "test"));
expect(await shop.GET("/pets", { params: { query: { limit: 0 } } }), 400, "invalid_parameter");
expect(await shop.POST("/pets", { body: { ...animal, name: "" } }), 400, "invalid_body");
expect(await shop.POST("/pets", { body: animal, bodySerializer: () => "{" }), 400, "invalid_json");
expect(await client().GET("/pets", {}), 401, "missing_api_key");
expect(await client("psk_typo").GET("/pets", {}), 401, "invalid_api_key");
expect(await client(narrowKey).POST("/pets", { body: animal }), 403, "insufficient_scope");
expect(await shop.GET("/pets/{petId}", { params: { path: { petId: 999_999 } } }), 404, "not_found");
const padded = { ...animal, padding: "x".repeat(70_000) };
expect(await shop.POST("/pets", { body: padded }), 413, "body_too_large");
const plain = { headers: { "Content-Type": "text/plain" } };
expect(await shop.POST("/pets", { body: animal, ...plain }), 415, "unsupported_media_type");
expect(await slow, 408, "request_timeout");
