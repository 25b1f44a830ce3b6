// Import and export of the console, and undo.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { caller, csv, launch, openScreen, startProxy } from "./console.mjs";
import { startService } from "./harness.mjs";

let service, browser, key, call, proxy;

before(async () => {
  service = await startService({ inMemory: true });
  browser = await launch();
  key = service.createKeyNamed("counter-2");
  call = caller(service.address, key);
  await call("PUT", "categories/1", { name: "Dogs" });
});

after(async () => {
  await browser?.close();
  await proxy?.close();
  await service?.stop();
});

const open = (screen, address = service.address) => openScreen(browser, address, key, screen);
const choose = (page, file) => page.getByLabel("Choose a file").setInputFiles(file);
const check = (page) => page.getByRole("button", { name: /^Check [\d,]+ row/ }).click();
const cellsOf = (page) => page.getByRole("row").evaluateAll((rows) => rows.slice(1).map((row) => [...row.children].map((cell) => cell.innerText)));
const counts = async (page) => (await page.locator(".card").allInnerTexts()).map((text) => Number(text.match(/\d+/)[0]));
const show = (page, kind) => page.getByRole("button", { name: new RegExp(`\\d ?${kind}$`) }).click();
const column = (page, heading) => page.getByLabel(`Column “${heading}”`);
const find = async (name) => (await call("GET", `pets?name=${encodeURIComponent(name)}`)).map(({ id, ...pet }) => pet);

async function readAll(query = "") {
  const [all, headers] = [[], { Authorization: `Bearer ${key}` }];
  for (let next = `/v1/pets?limit=100${query}`; next;) {
    const response = await fetch(new URL(next, service.address), { headers });
    all.push(...(await response.json()));
    next = response.headers.get("link")?.match(/<([^>]*)>; rel="next"/)?.[1];
  }
  return all;
}

test("a spreadsheet is checked before anything is added", async () => {
  await call("PUT", "categories/5", { name: "Straße" });
  const page = await open("import");
  await page.inspect("import");
  const text = "\uFEFFsep=;\r\nName;Category;Status;Notes\r\n\"Rex \"\"the\r\ndog\"\"\";Dogs;;\r\n\r\n'=1+1;STRASSE;SOLD;x\r\nMax;Dogz;available;\r\nLuna;7;lost;\r\n;;;\r\nTom;Dogs;;;too much\r\n";
  await choose(page, csv("animals.csv", text));
  await page.getByLabel("Status “lost” (1 row)").waitFor();
  await page.inspect("import-columns");
  await check(page);
  await page.getByText("Nothing has been changed yet.").waitFor();
  assert.deepEqual(await counts(page), [1, 0, 0, 4]);
  assert.deepEqual(await cellsOf(page), [["6", "=1+1", "STRASSE", "sold", "Notes: x"]]);
  await show(page, "invalid");
  assert.deepEqual(await cellsOf(page), [
    ["3", "–", "Dogs", "–", "Name: Must not have line breaks and control characters."],
    ["7", "Max", "Dogz", "available", "Category: No category is named “Dogz”."],
    ["8", "Luna", "7", "–", "Status: “lost” must be available, pending, sold or empty."],
    ["10", "Tom", "Dogs", "–", "The row has more cells than the 4 columns."],
  ]);
  await page.inspect("import-check");
  const [invalid] = await Promise.all([page.waitForEvent("download"), page.button("Save the invalid rows").click()]);
  assert.match(readFileSync(await invalid.path(), "utf8"), /^\uFEFFName,Category,Status,Notes,problem\r\n/);

  // A value and a column are corrected, and a category is created. Another client gives a name to the number that is
  // chosen for it, and then another one is chosen.
  await page.button("Back").click();
  await page.getByLabel("Status “lost” (1 row)").selectOption("no status");
  await column(page, "Notes").selectOption("not imported");
  await check(page);
  await page.getByLabel("Create 1 category: Dogz").check();
  await page.getByText("2 invalid rows will be left out.").waitFor();
  assert.deepEqual(await counts(page), [3, 0, 0, 2]);
  let taken;
  await page.route("**/v1/categories/*", async (route) => {
    taken ??= route.request().url().split("/").at(-1);
    await call("PUT", `categories/${taken}`, { name: "Reptiles" });
    await route.continue();
  });
  await page.button("Add 3 animals").click();
  await page.getByRole("heading", { name: "3 animals were added" }).waitFor();
  const names = new Map((await call("GET", "categories")).map(({ id, name }) => [String(id), name]));
  assert.equal(names.get(taken), "Reptiles");
  assert.ok([...names.values()].includes("Dogz"));
  await page.getByText("2 rows were left out.").waitFor();
  await page.inspect("import-report");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Save the rows that were left out").click()]);
  assert.equal(readFileSync(await saved.path(), "utf8"), "\uFEFFName,Category,Status,Notes,problem\r\n\"Rex \"\"the\r\ndog\"\"\",Dogs,,,Name: Must not have line breaks and control characters.\r\nTom,Dogs,,,too much,The row has more cells than the 4 columns.\r\n");
  assert.deepEqual(await find("=1+1"), [{ name: "=1+1", categoryId: 5, status: "sold" }]);

  // The same file again: nothing is added twice, unless that is wanted.
  await page.button("Import another file").click();
  await choose(page, csv("copy.csv", text));
  await check(page);
  await page.getByLabel(/^Add animals a second time: this file was imported/).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Add/ }).count(), 0);
  await page.getByLabel(/^Add animals a second time/).check();
  await page.getByRole("button", { name: /^Add \d animals$/ }).waitFor();

  // Cells without a header, in a category that can be any int64.
  await page.button("Back").click();
  await page.button("Another file").click();
  await page.getByLabel("Cells").fill("Ärmel, Jr., III\t-9223372036854775808\tsold\nZed\t9223372036854775808\n");
  await check(page);
  await page.button("Add 1 animal").click();
  await page.getByRole("heading", { name: "1 animal was added" }).waitFor();
  const [pet] = await call("GET", "pets?name=%C3%84rmel,%20Jr&categoryId=-9223372036854775808");
  assert.equal(pet.status, "sold");
  assert.deepEqual(page.problems(/status of 412/), []);
  await page.leave();
});

test("files as people have them are read, or refused by name", async () => {
  const page = await open("import");
  // Not UTF-8, and not closed.
  await choose(page, { name: "old.csv", mimeType: "text/csv", buffer: Buffer.from("name,category\n\xc4rmel,Dogs\n", "latin1") });
  await page.getByText("Check names with accents.").waitFor();
  await page.getByRole("cell", { name: "Ärmel" }).waitFor();
  await page.button("Another file").click();
  const drop = async (name, text) => {
    const dataTransfer = await page.evaluateHandle(([name, text]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], name));
      return transfer;
    }, [name, text]);
    await page.getByRole("main").dispatchEvent("drop", { dataTransfer });
  };
  await drop("broken.csv", "name,category\nRex,Dogs\n\"Max,Dogs\n");
  await page.getByText("Line 3: a quote is not closed.").waitFor();
  await drop("animals.csv", "%PDF-1.7\n");
  await page.getByText("This file is a PDF, which is not a table.").waitFor();
  await drop("empty.csv", "");
  await page.getByText("The file is empty.").waitFor();

  // Headings that mean the same, and none that means a name: the person is asked.
  await choose(page, csv("twice.csv", "Rufname,Tier,Kategorie,Wert\nRex,Bello,Dogs,12\n"));
  await page.getByText("“Rufname” and “Tier” could both be “Name”. Choose which one it is.").waitFor();
  await column(page, "Tier").selectOption("Name");
  assert.equal(await column(page, "Rufname").inputValue(), "");
  await column(page, "Wert").selectOption("Other detail: Wert");
  await page.getByLabel("Status, where there is none").selectOption("available");
  await check(page);
  await page.button("Add 1 animal").click();
  await page.getByRole("heading", { name: "1 animal was added" }).waitFor();
  assert.deepEqual(await find("Bello"), [{ name: "Bello", categoryId: 1, status: "available", metadata: { Wert: "12" } }]);
  await page.button("Import another file").click();
  await choose(page, csv("unknown.csv", "Wie,Was\nRex,Dogs\nMax,Dogs\n"));
  await page.getByLabel("The first row names the columns").check();
  await page.getByText("Choose the column that has the name of the animal, and the one that has its category.").waitFor();
  assert.ok(await page.button("Check 2 rows").isDisabled());
  await column(page, "Wie").selectOption("Name");
  await column(page, "Was").selectOption("Category");
  await page.button("Check 2 rows").click();
  await page.button("Add 2 animals").waitFor();

  // A workbook with several sheets: the one with a table is read, and another can be chosen.
  await page.button("Back").click();
  await page.button("Another file").click();
  await choose(page, fileURLToPath(new URL("../import-files/chosen-sheet.xlsx", import.meta.url)));
  const sheet = page.getByLabel("Sheet", { exact: true });
  await sheet.waitFor();
  assert.deepEqual(await sheet.locator("option").allInnerTexts(), ["Readme", "Animals", "Sold & gone"]);
  assert.deepEqual(await cellsOf(page), [["2", "Rex", "Dogs", "available"], ["3", "Mia", "Cats", "sold"]]);
  await page.inspect("import-workbook");
  await sheet.selectOption("Sold & gone");
  await page.getByRole("cell", { name: "Leo" }).waitFor();
  assert.deepEqual(await cellsOf(page), [["2", "Leo", "Cats", "sold"]]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a table is read as the command line does", async () => {
  const page = await open("import");
  const text = [
    "Name,Category,Birth date,SOURCE NAME,Source-Licence,Price,Currency,Sex,Description,Metadata.note,metadata.__proto__,Unknown",
    '" Spaced ",Dogs, 2025-02-03 ," Hill Farm ",\'-7," 450,5 ", usd , FEMALE ," a\r\nb "," first",\'=1,x',
    'Injected,Dogs,,,,,,,,"x\nlitter: 2",,',
    'Grouped,Dogs,,,,"1,450.00",USD,,,,,',
    'Ambiguous,Dogs,,,,"1,450",KWD,,,,,',
    "Exact,Dogs,,,,1.450,KWD,,,,,",
    "Blank,Dogs,,\" \",,,EUR,,\" \",,,",
  ].join("\n");
  await choose(page, csv("animals.csv", text));
  await check(page);
  await page.getByText("3 invalid rows will be left out.").waitFor();
  await show(page, "invalid");
  assert.deepEqual((await cellsOf(page)).map((cells) => cells.at(-1)), [
    "Other detail: note: Must not have line breaks and control characters.",
    "Price: “1,450.00” must be an amount such as 1450.00, without thousands separators.",
    "Price: “1,450” must be an amount such as 145.000, without thousands separators.",
  ]);
  await page.button("Add 3 animals").click();
  await page.getByRole("heading", { name: "3 animals were added" }).waitFor();
  assert.deepEqual(await find("Spaced"), [{
    name: "Spaced", categoryId: 1, birthDate: "2025-02-03", sex: "female", price: { amount: 45050, currency: "USD" }, description: " a\r\nb ",
    source: { name: " Hill Farm ", licence: "-7" }, metadata: JSON.parse('{"__proto__":"=1","note":" first"}'),
  }]);
  assert.deepEqual(await find("Injected"), []);
  assert.deepEqual(await find("Exact"), [{ name: "Exact", categoryId: 1, price: { amount: 1450, currency: "KWD" } }]);
  assert.deepEqual(await find("Blank"), [{ name: "Blank", categoryId: 1 }]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("rows of animals in the store change them, and the own export changes nothing", async () => {
  const make = (name, more) => call("POST", "pets", { name, categoryId: 1, ...more });
  const source = { name: "Hill Farm", address: "1 Road" };
  const full = await make(" Full ", { status: "available", breed: "Collie", price: { amount: 45000, currency: "EUR" }, notes: "-1\na", source, metadata: { litter: "3", constructor: "x" } });
  const chipped = await make("Chipped", { microchip: "985112004567890", status: "pending" });
  const before = await readAll();
  const animals = await open("animals");
  const [saved] = await Promise.all([animals.waitForEvent("download"), animals.button("Export").click()]);
  const exported = readFileSync(await saved.path(), "utf8");
  await animals.leave();

  const page = await open("import");
  await choose(page, csv("animals.csv", exported));
  await check(page);
  await page.getByText(`Nothing to do: ${before.length} animals are in the store exactly as in this file.`).waitFor();
  await page.inspect("import-unchanged");
  assert.deepEqual(await readAll(), before);

  // Only the columns of the file change; an empty cell removes, and one animal is changed by its microchip.
  await page.button("Back").click();
  await page.button("Another file").click();
  const lines = ["id,name,microchip,price,currency,source.address,metadata.litter", `${full.id},Full,,500,EUR,,`, "999999,,,,,,", `${full.id},Twice,,,,,`, "x,Wrong,,,,,"];
  await choose(page, csv("changes.csv", [...lines, ",Renamed,985 112 004 567 890,,,,"].join("\n")));
  await check(page);
  await page.getByText("4 invalid rows will be left out.").waitFor();
  assert.deepEqual(await counts(page), [0, 1, 0, 4]);
  await page.getByLabel("1 row has the microchip of an animal in the store: change this animal").check();
  await page.button("Change 2 animals").waitFor();
  await show(page, "changed");
  assert.deepEqual((await cellsOf(page)).map((cells) => cells.at(-1)), [
    "Price: 450.00 EUR → 500.00 EUR\nTheir address: 1 Road → –\nOther detail: litter: 3 → –",
    "Name: Chipped → Renamed",
  ]);
  await show(page, "invalid");
  assert.deepEqual((await cellsOf(page)).map((cells) => cells.at(-1)), [
    "Name: A name is missing.\nAnimal number: No animal has the number 999999.", "Animal number: Line 2 is about the same animal.", "Animal number: “x” is not the number of an animal."]);
  await page.button("Change 2 animals").click();
  await page.getByRole("heading", { name: "2 animals were changed" }).waitFor();
  const after = new Map((await readAll()).map((pet) => [pet.id, pet]));
  assert.deepEqual(after.get(full.id), { ...full, price: { amount: 50000, currency: "EUR" }, source: { name: "Hill Farm" }, metadata: { constructor: "x" } });
  assert.deepEqual(after.get(chipped.id), { ...chipped, name: "Renamed" });

  // It is undone, except what was changed since.
  await call("PATCH", `pets/${chipped.id}`, { location: "Kennel 4" });
  await page.button("Undo…").click();
  await page.button("Undo the import").click();
  await page.getByRole("heading", { name: "The import was undone" }).waitFor();
  await page.getByText("1 animal was kept.").waitFor();
  await page.getByRole("link", { name: "Renamed" }).waitFor();
  await page.inspect("import-undone");
  const undone = new Map((await readAll()).map((pet) => [pet.id, pet]));
  assert.deepEqual(undone.get(full.id), full);
  assert.equal(undone.get(chipped.id).name, "Renamed");
  await page.button("Import another file").click();
  await page.getByRole("row").filter({ hasText: "changes.csv" }).getByText("undone").waitFor();
  await page.inspect("import-history");

  // A number that no animal has, as in the export of another store.
  await choose(page, csv("other-store.csv", "id,name,category\n999999,Newcomer,Dogs\n"));
  await check(page);
  await page.getByText("1 row has a number that no animal has: new animals get new numbers.").waitFor();
  await page.button("Add 1 animal").click();
  await page.getByRole("heading", { name: "1 animal was added" }).waitFor();
  assert.deepEqual(await find("Newcomer"), [{ name: "Newcomer", categoryId: 1 }]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("5,000 rows are imported once, over a lost connection and a closed tab, and undone", async () => {
  proxy = await startProxy(service.address);
  const before = await readAll();
  const page = await open("import", proxy.address);
  page.setDefaultTimeout(120_000);
  const lines = Array.from({ length: 5000 }, (_, at) => (at % 8 ? `Bulk ${at},Dogs,,` : `,Dogs,,`));
  await choose(page, csv("bulk.csv", ["name,category,status,notes", ...lines].join("\n")));
  await check(page);
  // Batches wait here until the test lets them go.
  let [batches, release] = [0, () => {}];
  const held = new Promise((resolve) => (release = resolve));
  await page.route("**/v1/pets/batch", async (route) => {
    if (++batches > 2) await held;
    await route.continue();
  });
  await page.button("Add 4,375 animals").click();
  const done = (tab, least) => tab.waitForFunction((least) => document.querySelector("progress")?.value >= least, least);
  await done(page, 2000);
  await page.inspect("import-progress");
  // Requests arrive, but not their responses.
  proxy.dropResponses(true);
  release();
  await page.getByText("No connection.").waitFor();
  // The tab is closed, and the import is resumed in another one.
  const other = await page.context().newPage();
  page.once("dialog", (dialog) => dialog.accept());
  await page.close();
  proxy.dropResponses(false);
  await other.goto(`${proxy.address}/console#key=${key}`);
  await other.getByRole("link", { name: "Import", exact: true }).click();
  await other.getByText(/^The import of bulk.csv was interrupted after [234],000 rows of 4,375/).waitFor();
  await other.getByRole("button", { name: "Resume" }).click();
  await other.getByRole("heading", { name: "4,375 animals were added" }).waitFor({ timeout: 120_000 });
  await other.getByText("625 rows were left out.").waitFor();
  assert.deepEqual((await other.getByRole("cell", { name: /^\d+$/ }).allInnerTexts()).slice(0, 3), ["2", "10", "18"]);
  const found = (await readAll("&name=Bulk")).map(({ name }) => name);
  assert.equal(found.length, 4375);
  assert.equal(new Set(found).size, 4375);

  await other.getByRole("button", { name: "Undo…" }).click();
  await other.getByRole("button", { name: "Undo the import" }).click();
  await other.getByRole("heading", { name: "The import was undone" }).waitFor({ timeout: 120_000 });
  await other.getByText("4,375 animals are as before.").waitFor();
  assert.deepEqual(await readAll(), before);
  await other.context().close();
});

test("an import runs while another screen is shown, and can be paused and cancelled", async () => {
  const page = await open("import");
  const lines = Array.from({ length: 3000 }, (_, at) => `Paused ${at},Dogs`);
  await choose(page, csv("paused.csv", ["name,category", ...lines].join("\n")));
  await check(page);
  const waiting = [];
  let arrived = () => {};
  await page.route("**/v1/pets/batch", (route) => {
    waiting.push(route);
    arrived();
  });
  const sent = (count) => new Promise((resolve) => {
    arrived = () => waiting.length >= count && resolve();
    arrived();
  });
  await page.button("Add 3,000 animals").click();
  await sent(2);
  await page.open("Animals");
  await page.getByRole("heading", { name: "Animals", level: 1 }).waitFor();
  await page.open("Import");
  await page.getByText("0 of 3,000").waitFor();
  await page.button("Pause").click();
  for (const route of waiting.splice(0)) await route.continue();
  await page.getByText("Paused.").waitFor();
  await page.getByText("2,000 of 3,000").waitFor();
  await page.button("Cancel").click();
  await page.getByRole("heading", { name: "2,000 animals were added" }).waitFor();
  await page.getByText("The import was cancelled: 1,000 rows were not imported.").waitFor();
  assert.equal((await readAll("&name=Paused")).length, 2000);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("an import cannot be resumed with another key, or after the service has forgotten it", async () => {
  const page = await open("import");
  const interrupt = async (name) => {
    await choose(page, csv(name, "name,category\nRex,Dogs\nMax,Dogs\n"));
    await check(page);
    await page.route("**/v1/pets/batch", () => {});
    await Promise.all([page.waitForRequest("**/v1/pets/batch"), page.button("Add 2 animals").click()]);
  };
  page.on("dialog", (dialog) => dialog.accept());
  await interrupt("old.csv");
  await page.reload();
  await page.getByText("The import of old.csv was interrupted after 0 rows of 2.").waitFor();
  const inDatabase = (change) => page.evaluate((change) => new Promise((resolve) => {
    indexedDB.open("petstore-imports").onsuccess = ({ target: { result: database } }) => {
      const imports = database.transaction("imports", "readwrite").objectStore("imports");
      imports.getAll().onsuccess = ({ target: { result } }) => {
        for (const kept of result) imports.put({ ...kept, ...change });
        imports.transaction.oncomplete = () => resolve(database.close());
      };
    };
  }), change);
  await inDatabase({ time: Date.now() - 21 * 3_600_000 });
  await page.reload();
  await page.getByText("The import of old.csv was interrupted after 0 rows of 2, and cannot be resumed after 20 hours.").waitFor();
  await interrupt("other.csv");
  await page.reload();
  await page.button("Resume").waitFor();
  await inDatabase({ key: 999 });
  await page.reload();
  await page.getByText("cannot be resumed with another API key").waitFor();
  // Who signs out leaves no file behind.
  await interrupt("confidential.csv");
  await page.reload();
  await page.button("Resume").waitFor();
  await page.getByRole("button", { name: "counter-2" }).click();
  await page.button("Sign out").click();
  await page.getByLabel("API key").waitFor();
  assert.deepEqual(await page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name)), []);
  await page.leave();
});

test("what is shown is exported, without formulas", async () => {
  await call("POST", "pets", { name: "=HYPERLINK(\"x\");-1", categoryId: 1, status: "available" });
  const page = await open("animals");
  await page.getByLabel("Search name").fill("=h");
  await page.getByText("1 animal", { exact: true }).waitFor();
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Export").click()]);
  assert.equal(saved.suggestedFilename(), "animals.csv");
  const lines = readFileSync(await saved.path(), "utf8").split("\r\n").map((line) => line.replace(/^\d+,/, ""));
  assert.deepEqual(lines, ["\uFEFFid,name,categoryId,category,status", `"'=HYPERLINK(""x"");'-1",1,Dogs,available`, ""]);
  assert.deepEqual(page.problems(/blob:/), []);
  await page.leave();
});
