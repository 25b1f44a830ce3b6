// Undo in the console: batches of other people in the activity, and the categories that an import has created.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { caller, csv, openScreen, useConsole } from "./console.mjs";
import { startService } from "./harness.mjs";

const store = useConsole({
  async prepare({ call }) {
    await call("PUT", "categories/1", { name: "Dogs" });
  },
});

const entry = (page, text) => page.locator(".sheet.log > li").filter({ hasText: text });
const undoOf = (page, text) => entry(page, text).getByRole("button", { name: "Undo…" });
const categories = async () => (await store.call("GET", "categories?limit=100")).map(({ name }) => name).sort();
const batch = (call, batchId, changes) => call("POST", "pets/batch", { batchId, changes });
const creates = (prefix, size) => Array.from({ length: size }, (_, at) => ({ create: { name: `${prefix} ${at}`, categoryId: 1, status: "available" } }));
const patch = (id, body) => fetch(`${store.service.address}/v1/pets/${id}`, { method: "PATCH", body: JSON.stringify(body),
  headers: { Authorization: `Bearer ${store.key}`, "Content-Type": "application/merge-patch+json" } });

test("a batch of a colleague is one line, which is undone", async () => {
  const till = caller(store.service.address, store.service.createKeyNamed("till-1"));
  const { id: changed } = await store.add("Changed");
  // Sold animals and single changes are between its changes.
  const { results } = await batch(till, "delivery-7", creates("Pup", 20));
  await store.order("Sold between");
  await batch(till, "delivery-7", [...creates("Kit", 20), { id: changed, update: { location: "Loft" } }]);
  const page = await store.openScreen("activity");
  await entry(page, "40 animals imported, 1 changed by “till-1”").waitFor();
  await entry(page, "Sold between: reserved").waitFor();
  assert.equal(await entry(page, "by “till-1”").count(), 1);
  await page.inspect("activity-undo");

  await patch(results[0].id, { location: "Kennel 4" });
  // A new line moves the button.
  await entry(page, "Pup 0: location changed").waitFor();
  await undoOf(page, "40 animals imported").click();
  await page.getByRole("heading", { name: "Undo “40 animals imported, 1 changed”?" }).waitFor();
  await page.getByText("This deletes 40 animals that it added and changes 1 animal back.").waitFor();
  await page.button("Cancel").click();
  await entry(page, "40 animals imported").waitFor();
  await undoOf(page, "40 animals imported").click();
  await page.button("Undo the import").click();
  await page.getByRole("heading", { name: "The import was undone" }).waitFor();
  await page.getByText("40 changes were undone.").waitFor();
  await page.getByText("1 animal was kept.").waitFor();
  await page.getByRole("link", { name: "Pup 0" }).waitFor();
  await page.getByText("It was changed since.").waitFor();
  await page.inspect("activity-undone");
  assert.deepEqual((await store.call("GET", "pets?limit=100&name=Pup")).map(({ id }) => id), [results[0].id]);
  assert.equal((await store.call("GET", `pets/${changed}`)).location, undefined);

  await page.button("Back to the activity").click();
  // Nothing is left, but for the animal that was kept.
  await entry(page, "40 animals imported").getByRole("button", { name: "Undo the rest…" }).click();
  await page.button("Undo the import").click();
  await page.getByText("0 changes were undone.").waitFor();
  await page.getByText("1 animal was kept.").waitFor();
  await page.button("Back to the activity").click();
  // The undo is undone, too.
  await undoOf(page, "Undone: 1 animal changed back, 39 deleted by “counter-2”").click();
  await page.button("Undo the change").click();
  await page.getByRole("heading", { name: "The change was undone" }).waitFor();
  await page.button("Back to the activity").click();
  await undoOf(page, "40 animals imported").waitFor();
  assert.equal((await store.call("GET", "pets?limit=100&name=Kit")).length, 20);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("an import of the command line is undone, and that is known afterwards", async () => {
  const file = join(dirname(store.service.file), "animals.csv");
  writeFileSync(file, `name,category\n${Array.from({ length: 12 }, (_, at) => `Imported ${at},Dogs`).join("\n")}\n`);
  execFileSync(process.env.PETSTORE_BINARY, ["import", file, "--database", `sqlite:${store.service.file}`], { stdio: "pipe" });
  const page = await store.openScreen("activity");
  await undoOf(page, "12 animals imported").click();
  await page.getByText("This deletes 12 animals that it added.").waitFor();
  await page.button("Undo the import").click();
  await page.getByText("12 animals that it added were deleted.").waitFor();
  assert.deepEqual(await store.call("GET", "pets?name=Imported"), []);
  await page.button("Back to the activity").click();
  await entry(page, "12 animals imported").getByText("undone", { exact: true }).waitFor();
  await entry(page, "Undone: 12 animals deleted").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("animals that were added one by one were not imported, and a key that can only read undoes nothing", async () => {
  for (let at = 0; at < 11; at++) await store.add(`By hand ${at}`);
  await batch(store.call, "pair", creates("Pair", 2));
  const { results: [{ id }] } = await batch(store.call, "lone", creates("Lone", 1));
  const page = await store.openScreen("activity", store.service.createKeyNamed("reader", "--role", "read-only"));
  await entry(page, "11 animals added by").waitFor();
  await page.getByText("2 animals imported", { exact: true }).waitFor();
  await entry(page, "Lone 0: added by").waitFor();
  assert.equal(await page.getByRole("button", { name: "Undo…" }).count(), 0);
  await page.leave();

  // A change of few animals says what has changed.
  const { results } = await batch(store.call, "move", [{ id, update: { location: "Loft" } }, { id: id - 1, update: { name: "Renamed" } }]);
  assert.deepEqual(results.map(({ status }) => status), [200, 200]);
  const owner = await store.openScreen("activity");
  await entry(owner, "2 animals changed by").getByText("2 animals changed").click();
  await owner.getByText("renamed from “Pair 1”").waitFor();
  // It is undone elsewhere.
  await store.call("POST", "pets/batch/move/undo");
  await entry(owner, "2 animals changed by").getByText("undone", { exact: true }).waitFor();
  // One change that is a batch can be undone, too.
  await undoOf(owner, "Lone 0: added by").click();
  await owner.getByText("This deletes 1 animal that it added.").waitFor();
  await owner.button("Cancel").click();
  assert.deepEqual(owner.problems(), []);
  await owner.leave();
});

const importFile = async (page, name, text, action) => {
  await page.getByLabel("Choose a file").setInputFiles(csv(name, text));
  await page.getByRole("button", { name: /^Check \d+ row/ }).click();
  await page.getByLabel(/^Create \d+ categor/).check();
  await page.button(action).click();
};

test("categories that an import has created are deleted with it, unless they are used or renamed", async () => {
  const before = await categories();
  const page = await store.openScreen("import");
  await importFile(page, "zoo.csv", "name,category\nLeo,Lions\nTiger,Tigers\nBear,Bears\nRex,Dogs\n", "Add 4 animals");
  await page.getByRole("heading", { name: "4 animals were added" }).waitFor();
  const all = await store.call("GET", "categories?limit=100");
  const idOf = (name) => all.find((category) => category.name === name).id;
  await store.call("PUT", `categories/${idOf("Tigers")}`, { name: "Big cats" });
  await store.add("Another bear", { categoryId: idOf("Bears") });
  // It is undone from the history, after a reload.
  await page.reload();
  await page.getByRole("button", { name: "Undo the import of zoo.csv…" }).click();
  await page.getByText("Categories that it created are deleted, too, unless an animal has them.").waitFor();
  await page.button("Undo the import").click();
  await page.getByText("4 animals that it added were deleted.").waitFor();
  await page.getByText("1 category that it created was deleted.").waitFor();
  await page.inspect("undo-categories");
  assert.deepEqual(await categories(), [...before, "Bears", "Big cats"].sort());

  // An import that adds nothing leaves no category behind: it is cancelled.
  await page.button("Import another file").click();
  await page.route("**/v1/pets/batch", (route) => route.fulfill({ status: 500, json: { code: "internal_error", message: "an internal error", status: 500 } }));
  await importFile(page, "wolves.csv", "name,category\nAkela,Wolves\n", "Add 1 animal");
  await page.button("Resume").waitFor();
  assert.ok((await categories()).includes("Wolves"));
  await page.button("Cancel").click();
  await page.getByRole("heading", { name: "0 animals were added" }).waitFor();
  assert.ok(!(await categories()).includes("Wolves"));

  // Nor does one that cannot create them all, when it is cancelled.
  await page.button("Import another file").click();
  await page.route("**/v1/categories/*", async (route) => {
    if (route.request().postDataJSON()?.name !== "Foxes") return route.continue();
    await route.fulfill({ status: 500, json: { code: "internal_error", message: "an internal error", status: 500 } });
  });
  await importFile(page, "foxes.csv", "name,category\nAkela,Wolves\nReynard,Foxes\n", "Add 2 animals");
  await page.getByText("An internal error.").waitFor();
  assert.ok((await categories()).includes("Wolves"));
  await page.button("Cancel").click();
  await page.getByRole("heading", { name: "0 animals were added" }).waitFor();
  assert.deepEqual(await categories(), [...before, "Bears", "Big cats"].sort());
  assert.deepEqual(page.problems(/status of 500/), []);
  await page.leave();
});

test("an undo says how many changes the store cannot undo any more", async () => {
  const service = await startService({ inMemory: true, args: ["--max-events", "1000"] });
  try {
    const key = service.createKeyNamed("office", "--role", "owner");
    const call = caller(service.address, key);
    await call("PUT", "categories/1", { name: "Dogs" });
    const page = await openScreen(store.browser, service.address, key, "import");
    await page.getByLabel("Choose a file").setInputFiles(csv("many.csv", ["name,category", ...Array.from({ length: 1500 }, (_, at) => `Purged ${at},Dogs`)].join("\n")));
    await page.getByRole("button", { name: "Check 1,500 rows" }).click();
    await page.button("Add 1,500 animals").click();
    await page.getByRole("heading", { name: "1,500 animals were added" }).waitFor();
    // It purges events when it starts.
    await service.restart();
    for (;;) {
      const [first] = await call("GET", "events?limit=1");
      if (first.type === "pet.created" && first.data.name !== "Purged 0") break;
      await page.waitForTimeout(100);
    }
    await page.button("Undo…").click();
    await page.button("Undo the import").click();
    await page.getByText("1,000 animals that it added were deleted.").waitFor();
    await page.getByText("500 changes could not be undone: the store does not keep their events any more.").waitFor();
    assert.equal((await call("GET", "store/inventory")).total, 500);
    await page.leave();
  } finally {
    await service.stop();
  }
});

test("after an unexpected response, an import and a change of many animals are resumed, and others follow", async () => {
  const ids = (await batch(store.call, "resumed", creates("Resumed", 3))).results.map(({ id }) => id);
  const page = await store.openScreen("import");
  const breakNext = () => page.route("**/v1/pets/batch", (route) => route.fulfill({ json: { batchId: "x", results: [] } }), { times: 1 });
  await page.getByLabel("Choose a file").setInputFiles(csv("one.csv", "name,category\nOnce,Dogs\n"));
  await page.button("Check 1 row").click();
  await breakNext();
  await page.button("Add 1 animal").click();
  await page.getByText("Something unexpected happened. Try again: nothing is done twice.").waitFor();
  await page.getByText("0 of 1").waitFor();
  await page.button("Resume").click();
  await page.getByRole("heading", { name: "1 animal was added" }).waitFor();
  assert.equal((await store.call("GET", "pets?name=Once")).length, 1);

  await page.open("Animals");
  const box = (at) => page.getByRole("checkbox", { name: `Select Resumed ${at}`, exact: true });
  const bar = page.getByRole("toolbar", { name: "Selected animals" });
  const move = async (location) => {
    await bar.getByRole("button", { name: "Location", exact: true }).click();
    await page.getByRole("dialog").getByLabel("Location").fill(location);
    await page.getByRole("dialog").getByRole("button", { name: /^Change \d animals?$/ }).click();
  };
  const locations = async () => (await store.call("GET", `pets?id=${ids}`)).map(({ location }) => location);
  await box(0).check();
  await box(1).check();
  await breakNext();
  await move("Loft");
  await bar.getByText(/^Changing 0 of 2\. Something unexpected happened/).waitFor();
  await bar.getByRole("button", { name: "Resume" }).click();
  await page.getByText("2 animals have the location Loft now.").waitFor();
  assert.deepEqual(await locations(), ["Loft", "Loft", undefined]);
  // What is started after one that was given up.
  await breakNext();
  await move("Nowhere");
  await bar.getByText(/Something unexpected happened/).waitFor();
  await bar.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("dialog").getByText("because you cancelled").waitFor();
  await page.button("Close").click();
  await move("Garden");
  await page.getByText("2 animals have the location Garden now.").waitFor();
  assert.deepEqual(await locations(), ["Garden", "Garden", undefined]);
  assert.deepEqual(page.problems(/not one result for each change/), []);
  await page.leave();
});
