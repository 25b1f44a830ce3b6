// Exercises a client with the types that were generated from the served contract.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./contract.js";

const [base, key, narrowKey, broken] = process.argv.slice(2);

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

if (broken) {
  expect(await shop.GET("/pets", {}), 503, "unavailable");
  expect(await shop.POST("/pets", { body: { name: "A", categoryId: 1 } }), 503, "unavailable");
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

const path = { petId: ids[0] };
const fetched = await shop.GET("/pets/{petId}", { params: { path } });
assert.equal(fetched.data?.name, "Pet 0");
const header = { "If-None-Match": fetched.response.headers.get("etag") ?? "" };
assert.equal((await shop.GET("/pets/{petId}", { params: { path, header } })).response.status, 304);
assert.deepEqual((await shop.GET("/store/orders", {})).data, []);

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
const patch = { params: { path: rexPath, header: { "If-Match": '"other"' } }, body: { name: "Max" } };
expect(await shop.PATCH("/pets/{petId}", patch), 412, "precondition_failed");
const renamed = await shop.PATCH("/pets/{petId}", { params: { path: rexPath }, body: { name: "Max", status: null } });
assert.deepEqual(renamed.data, { id: rexPath.petId, name: "Max", categoryId: 1 });
assert.deepEqual((await shop.GET("/store/inventory", {})).data, { available: 0, pending: 5, sold: 0 });

const animal = { name: "A", categoryId: 1 };
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
