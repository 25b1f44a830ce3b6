// The console: the activity by day and by person, and bursts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { caller, useConsole } from "./console.mjs";

const store = useConsole();
const entry = (page, text) => page.locator(".sheet.log > li").filter({ hasText: text });

test("many animals that are added are one line, which opens", async () => {
  await store.add("Before");
  for (let batch = 0; batch < 12; batch++) await Promise.all(Array.from({ length: 100 }, (_, at) => store.add(`Imported ${batch} ${at}`)));
  await store.call("PUT", "categories/1", { name: "Dogs" });
  const page = await store.openScreen("activity");
  await entry(page, "Category Dogs: named").waitFor();
  // 1,201 events, which need more than a page.
  await entry(page, "1,201 animals added by “counter-2”").waitFor();
  // With the key that was created first.
  await page.getByText("1,203 events", { exact: true }).waitFor();
  assert.equal(await page.locator(".sheet.log > li").count(), 3);
  await page.getByText("1,201 animals added").click();
  await page.getByText("Imported 11 99: added by “counter-2”").or(page.getByText(/^Imported 11 \d+/).first()).first().waitFor();
  await page.getByText("The newest 50 are shown.").waitFor();
  await page.inspect("activity-burst");

  // A burst that grows while it is looked at stays open.
  const names = Array.from({ length: 15 }, (_, at) => `Late ${at}`);
  for (const name of names) await store.add(name);
  await entry(page, "15 animals added by “counter-2”").waitFor();
  await page.getByText("15 animals added").click();
  await page.getByRole("link", { name: "Late 14" }).waitFor();
  await store.add("Later still");
  await entry(page, "16 animals added by “counter-2”").waitFor();
  await page.getByRole("link", { name: "Later still" }).click();
  await page.panel.getByRole("heading", { name: "Later still" }).waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a batch of which only a part is loaded has its whole number, and is undone when all of it is", async () => {
  const creates = (size, name) => Array.from({ length: size }, (_, at) => ({ create: { name: `${name} ${at}`, categoryId: 1 } }));
  const add = async (batchId, name) => {
    const { results } = await store.call("POST", "pets/batch", { batchId, changes: creates(1000, name) });
    await store.call("POST", "pets/batch", { batchId, changes: creates(200, name) });
    return results[0].id;
  };
  // Other lines hide the end of the list, so nothing further is loaded.
  const rename = async (times) => {
    for (let at = 0; at < times; at++) await store.call("PUT", "categories/4", { name: `Birds ${at}` });
  };
  const undo = async (batchId) => {
    for (let cursor; cursor !== null;) cursor = (await store.call("POST", `pets/batch/${batchId}/undo`, cursor ? { cursor } : {})).next ?? null;
  };
  const first = await add("partly", "Part");
  await rename(30);
  await add("wholly", "Whole");
  await rename(45);
  const page = await store.openScreen("activity");
  const release = await page.hold(/events\?batch=wholly/);
  await entry(page, "5+ animals imported by").waitFor();
  assert.equal(await page.getByText("The newest 50 are shown.").count(), 0);
  await release();
  await entry(page, "1,200 animals imported by").waitFor();
  await page.inspect("activity-part");

  await undo("wholly");
  await entry(page, "Undone: 1,200 animals deleted by").waitFor();
  await entry(page, "1,200 animals imported by").getByText("undone", { exact: true }).waitFor();
  // After a reload, the undo is loaded in part, and then what it undoes.
  await page.reload();
  await entry(page, "Undone: 1,200 animals deleted by").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();

  // One animal is left of the other one.
  await fetch(`${store.service.address}/v1/pets/${first}`, { method: "PATCH", body: '{"location":"Loft"}',
    headers: { Authorization: `Bearer ${store.key}`, "Content-Type": "application/merge-patch+json" } });
  await undo("partly");
  await rename(40);
  const again = await store.openScreen("activity");
  await entry(again, "Undone: 1,199 animals deleted by").waitFor();
  const rest = entry(again, "1,200 animals imported by").getByRole("button", { name: "Undo the rest…" });
  for (let at = 0; at < 100 && !(await rest.count()); at++) {
    await again.locator(".more").scrollIntoViewIfNeeded();
    await again.waitForTimeout(100);
  }
  await rest.waitFor();
  assert.deepEqual(again.problems(), []);
  await again.leave();
});

test("the activity has a heading for each day", async () => {
  const { id } = await store.add("Yesterday's");
  await store.call("PUT", "categories/2", { name: "Cats" });
  const page = await store.open();
  await page.live();
  const day = 86_400_000;
  await page.route(/\/v1\/events\?.*sort=desc/, async (route) => {
    const response = await route.fetch();
    const events = await response.json();
    const shift = ({ subject }) => (subject === "categories/2" ? 0 : subject === `pets/${id}` ? 1 : 9);
    await route.fulfill({ response, json: events.map((event) => ({ ...event, time: new Date(Date.parse(event.time) - shift(event) * day).toISOString() })) });
  });
  await page.open("Activity");
  await page.getByRole("heading", { name: "Yesterday", exact: true }).waitFor();
  const days = await page.locator(".day:visible").allInnerTexts();
  assert.deepEqual(days.slice(0, 2), ["Today", "Yesterday"]);
  assert.match(days[2], /^\w+day \d+ \w+$|^\d+ \w+ \d{4}$/);
  assert.equal(days.length, 3);
  // A lookup may be on its way.
  await page.unrouteAll({ behavior: "ignoreErrors" });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the activity of one person", async () => {
  const till = caller(store.service.address, store.service.createKeyNamed("till-1"));
  await till("POST", "pets", { name: "From the till", categoryId: 1 });
  for (let n = 0; n < 60; n++) await store.call("PUT", "categories/3", { name: `Rabbits ${n}` });
  const page = await store.openScreen("activity");
  await entry(page, "Rabbits 59").waitFor();
  await page.getByLabel("Person").selectOption("till-1");
  await entry(page, "From the till: added by “till-1”").waitFor();
  await page.getByText("1 event", { exact: true }).waitFor();
  await page.waitForURL(/#\/activity\?key=\d+$/);
  await page.reload();
  await page.getByText("1 event", { exact: true }).waitFor();
  await page.locator("select").getByText("till-1").waitFor({ state: "attached" });
  assert.equal(await page.getByLabel("Person").evaluate(({ selectedOptions: [{ textContent }] }) => textContent), "till-1");
  // Live, and only of this person.
  await store.call("PUT", "categories/3", { name: "Hares" });
  await till("POST", "pets", { name: "From the till again", categoryId: 1 });
  await entry(page, "From the till again").waitFor();
  assert.equal(await entry(page, "Hares").count(), 0);
  await page.button("Orders").click();
  await page.getByRole("heading", { name: "Nothing like this has happened" }).waitFor();
  await page.button("Show everything").click();
  await entry(page, "Hares").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
