// The console: the history of an animal and of an order, complete, with old and new values.

import assert from "node:assert/strict";
import { test } from "node:test";
import { caller, openConsole, useConsole } from "./console.mjs";
import { startService } from "./harness.mjs";

const store = useConsole({ prepare: async ({ call }) => {
  await call("PUT", "categories/1", { name: "Dogs" });
  await call("PUT", "categories/2", { name: "Puppies" });
} });
const EUR = (amount) => ({ amount, currency: "EUR" });

// The lines of each entry, newest first, without the time.
const entriesOf = (page) => page.panel.locator(".history .log > li > span").evaluateAll((entries) =>
  entries.map(({ children: [headline, changes] }) => [headline, ...changes.children].map(({ textContent }) => textContent.replaceAll("\u00a0", " "))));
const waitForEntries = async (page, expected) => {
  const isDone = async () => JSON.stringify(await entriesOf(page)) === JSON.stringify(expected);
  for (let tries = 0; tries < 200 && !(await isDone()); tries++) await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual(await entriesOf(page), expected);
};
const callAs = (name) => caller(store.service.address, store.service.createKeyNamed(name));

test("the history of an animal has its orders, people, and values before and after", async () => {
  const anna = callAs("Anna");
  const { id } = await store.add("Biscut", { price: EUR(45000) });
  await anna("PATCH", `pets/${id}`, { name: "Biscuit", categoryId: 2, price: EUR(40000), microchip: "985112004567890", breed: "Collie", notes: "Shy. ".repeat(40) });
  await anna("PATCH", `pets/${id}`, { breed: null, birthDate: "2026-03-01", metadata: { litter: "7" }, source: { name: "Hill Farm" } });
  const first = await anna("POST", "store/orders", { petId: id });
  await anna("POST", `store/orders/${first.id}/cancel`);
  const second = await store.call("POST", "store/orders", { petId: id, price: EUR(39000) });
  await anna("POST", `store/orders/${second.id}/complete`);
  await anna("PATCH", `store/orders/${second.id}`, { price: EUR(38000), reference: "R-7" });
  await anna("PATCH", `store/orders/${second.id}`, { buyer: { name: "Ada" } });

  const page = await store.open({ locale: "de-DE" });
  await page.live();
  await page.open("Biscuit");
  const expected = [
    [`Sale corrected by “Anna” · order ${second.id}`, "The buyer was changed or erased."],
    [`Sale corrected by “Anna” · order ${second.id}`, "Price 390,00 € → 380,00 €", "Reference set to R-7"],
    [`Sold by “Anna” for 390,00 € · order ${second.id}`],
    [`Reserved by “counter-2” for 390,00 € · order ${second.id}`],
    [`Reservation cancelled by “Anna” · order ${first.id}`],
    [`Reserved by “Anna” for 400,00 € · order ${first.id}`],
    ["Changed by “Anna”", "Breed removed: Collie", "Date of birth set to 1 March 2026", "Acquired from set to Hill Farm", "litter set to 7"],
    ["Changed by “Anna”", "Name Biscut → Biscuit", "Category Dogs → Puppies", "Breed set to Collie", "Chip set to 985 112 004 567 890", "Price 450,00 € → 400,00 €", `Notes set to ${"Shy. ".repeat(16)}…`],
    ["Added by “counter-2”"],
  ];
  await waitForEntries(page, expected);
  await page.panel.getByText("Biscut →").scrollIntoViewIfNeeded();
  await page.inspect("history-animal");

  // Live.
  await anna("POST", `store/orders/${second.id}/return`);
  await waitForEntries(page, [[`Returned by “Anna” · order ${second.id}`], ...expected]);
  await page.panel.getByRole("link", { name: `order ${second.id}` }).first().click();
  await page.panel.getByRole("heading", { name: `Order ${second.id}` }).waitFor();
  const ofOrder = [
    ["Returned by “Anna”"],
    ["Sale corrected by “Anna”", "The buyer was changed or erased."],
    ["Sale corrected by “Anna”", "Price 390,00 € → 380,00 €", "Reference set to R-7"],
    ["Sold by “Anna” for 390,00 €"],
    ["Reserved by “counter-2” for 390,00 €"],
  ];
  await waitForEntries(page, ofOrder);
  await page.inspect("history-order");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the history of an animal that was deleted is found from orders, activity and the register", async () => {
  const anna = callAs("Anna");
  const { id } = await store.add("Gone", { breed: "Collie", acquiredOn: "2026-01-05" });
  const order = await anna("POST", "store/orders", { petId: id });
  await anna("POST", `store/orders/${order.id}/complete`);
  await anna("DELETE", `pets/${id}`);
  const page = await store.open();
  await page.live();
  const isShown = async () => {
    await page.panel.getByRole("heading", { name: "Gone" }).waitFor();
    await page.panel.getByText(/^Deleted on \d+ \w+ \d{4} at \d\d:\d\d by “Anna”$/).waitFor();
    await page.panel.getByText("Collie").waitFor();
    await waitForEntries(page, [["Deleted by “Anna”"], ["Sold by “Anna” · order " + order.id], ["Reserved by “Anna” · order " + order.id], ["Added by “counter-2”"]]);
    assert.equal(await page.panel.getByRole("button").count(), 0);
  };
  const visit = (hash) => page.evaluate((hash) => (location.hash = hash), hash);
  await visit(`#/animals/${id}`);
  await isShown();
  await page.inspect("history-deleted");
  await visit(`#/orders/${order.id}`);
  await page.panel.getByText("Gone").waitFor();
  await page.panel.getByText(", deleted").waitFor();
  await page.panel.getByRole("link", { name: "Show the animal" }).click();
  await isShown();
  await visit("#/orders?status=completed");
  await page.row("Gone").getByText(", deleted").waitFor();
  await page.open("Gone");
  await isShown();
  await visit("#/activity");
  await page.getByRole("link", { name: "Gone", exact: true }).first().click();
  await isShown();
  await visit("#/reports?view=register");
  await page.getByRole("region", { name: "Sold", exact: true }).getByRole("link", { name: "Gone", exact: true }).click();
  await isShown();
  // A number that no animal ever had is another matter, on this screen only.
  await visit("#/animals/4711");
  await page.getByText("There is no animal 4711.").waitFor();
  await visit("#/categories");
  await page.getByText("There is no animal 4711.").waitFor({ state: "detached" });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a long history is shown page by page, each change once and with its values", async () => {
  const { id } = await store.add("Version 0");
  for (let version = 1; version <= 120; version++) await store.call("PATCH", `pets/${id}`, { name: `Version ${version}` });
  const page = await store.open();
  await page.live();
  await page.open("Version 120");
  const older = page.button("Show older");
  await older.click();
  await page.panel.getByText("Version 30 → Version 31").waitFor();
  await older.click();
  await page.panel.getByText("Added by “counter-2”").waitFor();
  const expected = Array.from({ length: 120 }, (_, at) => ["Changed by “counter-2”", `Name Version ${119 - at} → Version ${120 - at}`]);
  await waitForEntries(page, [...expected, ["Added by “counter-2”"]]);
  await older.waitFor({ state: "hidden" });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the history of an animal is complete at once after a large import", async () => {
  const { id } = await store.add("Before the import");
  await store.call("PATCH", `pets/${id}`, { location: "Kennel 4" });
  const pet = { create: { name: "Imported", categoryId: 1 } };
  for (let batch = 0; batch < 12; batch++) await store.call("POST", "pets/batch", { changes: Array(1000).fill(pet) });
  const page = await store.open();
  await page.live();
  await page.goto(`${store.service.address}/console#/animals/${id}`);
  await waitForEntries(page, [["Changed by “counter-2”", "Location set to Kennel 4"], ["Added by “counter-2”"]]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the undo of a deletion is not where a history begins", async () => {
  const service = await startService({ inMemory: true, args: ["--max-events", "1"] });
  try {
    const key = service.createKeyNamed("counter-2");
    const call = caller(service.address, key);
    const { id } = await call("POST", "pets", { name: "Old", categoryId: 1 });
    await call("POST", "pets/batch", { batchId: "gone", changes: [{ id, delete: true }] });
    await call("POST", "pets/batch/gone/undo");
    const events = () => call("GET", "events?limit=2");
    while ((await events()).length !== 1) await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual((await events()).map(({ type, batchid }) => [type, batchid]), [["pet.created", "undo-gone"]]);
    const page = await openConsole(store.browser, service.address, key);
    await page.live();
    await page.open("Old");
    await page.panel.getByText(/^The log of changes starts on .* What happened before is not kept\.$/).waitFor();
    assert.deepEqual(page.problems(), []);
    await page.leave();
  } finally {
    await service.stop();
  }
});

test("it is said from when on a history is complete", async () => {
  const service = await startService({ inMemory: true, args: ["--max-events", "3"] });
  try {
    const key = service.createKeyNamed("counter-2");
    const call = caller(service.address, key);
    const { id } = await call("POST", "pets", { name: "Old", categoryId: 1 });
    for (const location of ["A", "B", "C", "D"]) await call("PATCH", `pets/${id}`, { location });
    const oldest = async () => (await call("GET", "events?limit=1"))[0];
    while ((await oldest())?.data.location !== "B") await new Promise((resolve) => setTimeout(resolve, 100));
    const page = await openConsole(store.browser, service.address, key);
    await page.live();
    await page.open("Old");
    await waitForEntries(page, [
      ["Changed by “counter-2”", "Location C → D"],
      ["Changed by “counter-2”", "Location B → C"],
      ["Changed by “counter-2”"],
    ]);
    const start = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short" }).format(new Date((await oldest()).time));
    await page.panel.getByText(`The log of changes starts on ${start}. What happened before is not kept.`, { exact: true }).waitFor();
    await page.inspect("history-purged");
    // Nothing at all is left.
    await page.route(/\/v1\/events\?/, (route) => route.fulfill({ json: [] }));
    await page.panel.getByRole("link", { name: "Close" }).click();
    await page.open("Old");
    await page.panel.getByText("The log of changes is empty: what happened before is not kept.").waitFor();
    assert.deepEqual(page.problems(), []);
    await page.leave();
  } finally {
    await service.stop();
  }
});
