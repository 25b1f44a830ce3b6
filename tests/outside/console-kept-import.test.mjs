// Import in the console: dates, keys without sight of the animals, and imports that are interrupted or cannot be kept.

import assert from "node:assert/strict";
import { test } from "node:test";
import { csv, useConsole } from "./console.mjs";

const store = useConsole({ prepare: ({ call }) => call("PUT", "categories/1", { name: "Dogs" }) });
const choose = (page, file) => page.getByLabel("Choose a file").setInputFiles(file);
const check = (page) => page.getByRole("button", { name: /^Check [\d,]+ row/ }).click();
const find = (name) => store.call("GET", `pets?name=${encodeURIComponent(name)}`);
const categories = async () => (await store.call("GET", "categories?limit=100")).map(({ name }) => name).sort();

test("dates may have the day or the month first, and a person is asked if no date tells", async () => {
  const page = await store.openScreen("import");
  const lines = ["Anna,Dogs,05/06/2020,31/12/2020", "Bert,Dogs,07-08-2020,01/02/2021", "Cleo,Dogs,31.12.2020,"];
  await choose(page, csv("dates.csv", ["name,category,birthDate,acquiredOn", ...lines].join("\n")));
  await page.getByText("Dates such as “05/06/2020” may have the day or the month first, and no other date of the column tells. Choose which, below.").waitFor();
  const order = page.getByLabel("Dates such as “05/06/2020” (Date of birth)");
  assert.deepEqual(await order.locator("option").allInnerTexts(), ["– choose –", "day first: 2020-06-05", "month first: 2020-05-06"]);
  await page.inspect("import-dates");
  await check(page);
  await page.getByText("2 invalid rows will be left out.").waitFor();
  await page.getByRole("button", { name: /\d ?invalid$/ }).click();
  const problem = "Date of birth: Dates such as “05/06/2020” may have the day or the month first, and no other date of the column tells. Choose which, in the step before.";
  assert.deepEqual(await page.locator("tr.invalid td:last-child").allInnerTexts(), [problem, problem]);
  await page.button("Back").click();
  await order.selectOption("month first: 2020-05-06");
  await page.getByText(/^Dates such as .* Choose which, below\.$/).waitFor({ state: "detached" });
  // Without the column, nothing is asked.
  await page.getByLabel("Column “birthDate”").selectOption("not imported");
  await order.waitFor({ state: "detached" });
  await page.getByLabel("Column “birthDate”").selectOption("Date of birth");
  assert.equal(await order.inputValue(), "mdy");
  await check(page);
  await page.button("Add 3 animals").click();
  await page.getByRole("heading", { name: "3 animals were added" }).waitFor();
  const dates = await Promise.all(["Anna", "Bert", "Cleo"].map(async (name) => (await find(name)).map(({ birthDate, acquiredOn }) => [birthDate, acquiredOn])[0]));
  assert.deepEqual(dates, [["2020-05-06", "2020-12-31"], ["2020-07-08", "2021-02-01"], ["2020-12-31", undefined]]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("prices have the currency of the shop, or the one that is chosen", async () => {
  const page = await store.openScreen("import");
  await choose(page, csv("prices.csv", "name,category,price\nCheap,Dogs,5\nMarked,Dogs,€ 7\n"));
  await page.getByText("Prices without a sign of their currency are left out until you choose one, below.").waitFor();
  await check(page);
  await page.getByText("1 invalid row will be left out.").waitFor();
  await page.button("Back").click();
  await page.getByLabel("Currency of the prices").selectOption("CHF");
  await page.getByText(/^Prices without a sign/).waitFor({ state: "detached" });
  await check(page);
  await page.button("Add 2 animals").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a row stands in the way of later ones only if it is valid", async () => {
  const { id } = await store.call("POST", "pets", { name: "Twice", categoryId: 1 });
  const page = await store.openScreen("import");
  const rows = [`${id},,Dogs,`, `0${id},Twice II,Dogs,`, `${id},Twice III,Dogs,`, ",,Dogs,900000000000077", ",Chip,Dogs,900000000000077", ",Chip II,Dogs,900000000000077"];
  await choose(page, csv("repeated.csv", `id,name,category,microchip\n${rows.join("\n")}\n`));
  await check(page);
  await page.button("Add 1 and change 1 animal").waitFor();
  await page.getByRole("button", { name: /\d ?invalid$/ }).click();
  assert.deepEqual(await page.locator("tr.invalid td:first-child").allInnerTexts(), ["2", "4", "5", "7"]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a key that cannot see animals imports nothing", async () => {
  const text = /^An import is compared with the animals of the store, so that none is added twice\. Your access can change animals, but not see them/;
  const secret = (...scopes) => store.service.createKeyNamed("scanner", ...scopes.flatMap((scope) => ["--scope", scope]));
  const some = await store.open({}, secret("pets:write", "orders:read"));
  await some.live();
  assert.equal(await some.getByRole("link", { name: "Import", exact: true }).isVisible(), false);
  await some.evaluate(() => (location.hash = "#/import"));
  await some.getByRole("heading", { name: "Not for you", level: 1 }).waitFor();
  await some.getByText(text).waitFor();
  await some.isAccessible();
  assert.deepEqual(some.problems(), []);
  await some.leave();
  const none = await store.open({}, secret("pets:write"));
  await none.getByText(text).waitFor();
  await none.leave();
});

// Changes the database of the imports that a page has kept.
const inKept = (page, change) => page.evaluate((change) => new Promise((resolve, reject) => {
  indexedDB.open("petstore-imports").onsuccess = ({ target: { result: database } }) => {
    const transaction = database.transaction(["imports", "chunks"], "readwrite");
    const chunks = transaction.objectStore("chunks");
    if (change === "lose a chunk") chunks.openKeyCursor(null, "prev").onsuccess = ({ target: { result } }) => chunks.delete(result.primaryKey);
    const imports = transaction.objectStore("imports").getAll();
    const keys = chunks.getAllKeys();
    transaction.oncomplete = () => {
      database.close();
      resolve({ imports: imports.result, chunks: keys.result.length });
    };
    transaction.onerror = () => reject(transaction.error);
  };
}), change);

test("an import of which a part was lost is not resumed", async () => {
  const page = await store.openScreen("import");
  page.on("dialog", (dialog) => dialog.accept());
  const before = (await store.call("GET", "store/inventory")).total;
  const lines = Array.from({ length: 2500 }, (_, at) => `Lost ${at},Dogs`);
  await choose(page, csv("lost.csv", ["name,category", ...lines].join("\n")));
  await check(page);
  let batches = 0;
  await page.route("**/v1/pets/batch", (route) => (++batches > 1 ? undefined : route.continue()));
  await page.button("Add 2,500 animals").click();
  await page.getByText("1,000 of 2,500").waitFor();
  const { imports: [kept], chunks } = await inKept(page, "nothing");
  assert.deepEqual([kept.total, kept.chunks, chunks], [2500, 3, 3]);
  await inKept(page, "lose a chunk");
  await page.reload();
  await page.getByText("The import of lost.csv was interrupted after 1,000 rows of 2,500, and cannot be resumed because this browser has not kept all of it. Undo it, or check which animals were added.").waitFor();
  assert.equal(await page.button("Resume").count(), 0);
  assert.equal((await store.call("GET", "store/inventory")).total - before, 1000);
  await page.button("Undo the import of lost.csv…").click();
  await page.button("Undo the import").click();
  await page.getByText("1,000 animals that it added were deleted.").waitFor();
  assert.deepEqual(page.problems(/^a dialog: /), []);
  await page.leave();
});

test("an import that the browser cannot keep runs, and says that it cannot be resumed", async () => {
  const page = await store.openScreen("import");
  page.on("dialog", (dialog) => dialog.accept());
  // There is space for one chunk, and no more: each request succeeds, and the transaction does not.
  await page.evaluate(() => {
    const { put } = IDBObjectStore.prototype;
    IDBObjectStore.prototype.put = function (value) {
      if (value.at === 1) setTimeout(() => this.transaction.abort());
      return put.call(this, value);
    };
  });
  const lines = Array.from({ length: 2500 }, (_, at) => `Unkept ${at},Dogs`);
  await choose(page, csv("unkept.csv", ["name,category", ...lines].join("\n")));
  await check(page);
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route("**/v1/pets/batch", (route) => held.then(() => route.continue()));
  await page.button("Add 2,500 animals").click();
  await page.getByText("this browser has no space to keep the import, so it cannot be resumed.").waitFor();
  assert.deepEqual(await inKept(page, "nothing"), { imports: [], chunks: 0 });
  release();
  await page.getByRole("heading", { name: "2,500 animals were added" }).waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("an import that is interrupted while it creates categories is resumed or discarded", async () => {
  const before = await categories();
  const page = await store.openScreen("import");
  page.on("dialog", (dialog) => dialog.accept());
  const interrupt = async (name, text) => {
    // The second category does not arrive.
    await page.route("**/v1/categories/*", (route) => (route.request().postDataJSON()?.name.startsWith("Z") ? undefined : route.continue()));
    await choose(page, csv(name, text));
    await check(page);
    await page.getByLabel(/^Create 3 categories/).check();
    await Promise.all([page.waitForRequest((request) => request.method() === "PUT" && request.postData().includes('"Z')), page.button("Add 3 animals").click()]);
    await page.reload();
    await page.getByText(`The import of ${name} was interrupted after 0 rows of 3.`).waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
  };
  await interrupt("zoo.csv", "name,category,category number\nFirst of zoo,Yaks,\nSecond of zoo,Zebras,\nThird of zoo,Zorillas,777\n");
  assert.deepEqual(await categories(), [...before, "Yaks"].sort());
  await page.button("Resume").click();
  await page.getByRole("heading", { name: "3 animals were added" }).waitFor();
  assert.deepEqual(await categories(), [...before, "Yaks", "Zebras", "Zorillas"].sort());
  const ids = new Map((await store.call("GET", "categories?limit=100")).map(({ id, name }) => [name, id]));
  const found = await Promise.all(["First", "Second", "Third"].map(async (name) => (await find(`${name} of zoo`))[0].categoryId));
  assert.deepEqual(found, [ids.get("Yaks"), ids.get("Zebras"), 777]);
  await page.button("Import another file").click();

  await interrupt("park.csv", "name,category\nA,Wolves\nB,Zonkeys\nC,Zebus\n");
  assert.ok((await categories()).includes("Wolves"));
  await page.button("Discard").click();
  await page.button("Resume").waitFor({ state: "detached" });
  assert.deepEqual(await categories(), [...before, "Yaks", "Zebras", "Zorillas"].sort());
  assert.deepEqual(page.problems(/^a dialog: |status of 412/), []);
  await page.leave();
});
