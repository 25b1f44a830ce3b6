// Import and export of the console, and undo.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
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
  // Animals may have a number that has no name: no other category gets it.
  await call("POST", "pets", { name: "Unnamed", categoryId: 2 });
  const page = await open("import");
  await page.inspect("import");
  const text = "\uFEFFsep=;\r\nName;Category;Status;Notes\r\n\"Rex \"\"the\r\ndog\"\"\";Dogs;;\r\n\r\n'=1+1;STRASSE;SOLD;x\r\nMax;Dogz;available;\r\nLuna;4;lost;\r\n;;;\r\nTom;Dogs;;;too much\r\n";
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
    ["8", "Luna", "4", "–", "Status: “lost” must be available, pending, sold or empty."],
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
  // 2 is the number of an animal, and 4 that of another row.
  assert.deepEqual([taken, names.get("6"), names.has("2"), names.has("4")], ["3", "Dogz", false, false]);
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
  // What is pasted is read at once, and what is typed when it is complete.
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.evaluate(() => navigator.clipboard.writeText("Pasted,Dogs\n"));
  await page.getByLabel("Cells").press("Control+v");
  await page.getByRole("heading", { name: "Pasted cells" }).waitFor();
  await page.button("Another file").click();
  await page.getByLabel("Cells").pressSequentially("Ä");
  await page.button("Continue with these cells").waitFor();
  await page.getByLabel("Cells").fill("Ärmel, Jr., III\t-9223372036854775808\tsold\nZed\t9223372036854775808\n");
  await page.button("Continue with these cells").click();
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
  await page.getByText("2 invalid rows will be left out.").waitFor();
  await show(page, "invalid");
  assert.deepEqual((await cellsOf(page)).map((cells) => cells.at(-1)), [
    "Other detail: note: Must not have line breaks and control characters.",
    "Price: “1,450” may be 1450 or 1.450, and no other price tells. Write it without a mark between thousands.",
  ]);
  await page.button("Add 4 animals").click();
  await page.getByRole("heading", { name: "4 animals were added" }).waitFor();
  assert.deepEqual(await find("Spaced"), [{
    name: "Spaced", categoryId: 1, birthDate: "2025-02-03", sex: "female", price: { amount: 45050, currency: "USD" }, description: " a\r\nb ",
    source: { name: " Hill Farm ", licence: "-7" }, metadata: JSON.parse('{"__proto__":"=1","note":" first"}'),
  }]);
  assert.deepEqual(await find("Injected"), []);
  assert.deepEqual(await find("Grouped"), [{ name: "Grouped", categoryId: 1, price: { amount: 145000, currency: "USD" } }]);
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
    "Name: “ Full ” → Full\nPrice: 450.00 EUR → 500.00 EUR\nTheir address: 1 Road → –\nOther detail: litter: 3 → –",
    "Name: Chipped → Renamed",
  ]);
  await show(page, "invalid");
  assert.deepEqual((await cellsOf(page)).map((cells) => cells.at(-1)), [
    "Name: A name is missing.\nAnimal number: No animal has the number 999999.", "Animal number: Line 2 is about the same animal.", "Animal number: “x” is not the number of an animal."]);
  await page.button("Change 2 animals").click();
  await page.getByRole("heading", { name: "2 animals were changed" }).waitFor();
  const after = new Map((await readAll()).map((pet) => [pet.id, pet]));
  assert.deepEqual(after.get(full.id), { ...full, name: "Full", price: { amount: 50000, currency: "EUR" }, source: { name: "Hill Farm" }, metadata: { constructor: "x" } });
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
  await other.getByText("4,375 animals that it added were deleted.").waitFor();
  assert.deepEqual(await readAll(), before);
  await other.context().close();
});

test("an import runs while another screen is shown, and can be paused and cancelled", async () => {
  const page = await open("import");
  const lines = Array.from({ length: 4000 }, (_, at) => `Paused ${at},Dogs`);
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
  await page.button("Add 4,000 animals").click();
  // The first batch makes the import known, and then two are under way.
  await sent(1);
  await waiting.shift().continue();
  await sent(2);
  await page.open("Animals");
  await page.getByRole("heading", { name: "Animals", level: 1 }).waitFor();
  await page.open("Import");
  await page.getByText("1,000 of 4,000").waitFor();
  await page.button("Pause").click();
  for (const route of waiting.splice(0)) await route.continue();
  await page.getByText("Paused.").waitFor();
  await page.getByText("3,000 of 4,000").waitFor();
  await page.button("Cancel").click();
  await page.getByRole("heading", { name: "3,000 animals were added" }).waitFor();
  await page.getByText("The import was cancelled: 1,000 rows were not imported.").waitFor();
  assert.equal((await readAll("&name=Paused")).length, 3000);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a file is recognised, wherever it was imported, until its import is undone", async () => {
  const text = "name,category\nShared 1,Dogs\nShared 2,Dogs\n";
  const path = join(dirname(service.file), "shared.csv");
  writeFileSync(path, text);
  const command = (...args) => spawnSync(process.env.PETSTORE_BINARY, ["import", ...args, "--database", `sqlite:${service.file}`], { encoding: "utf8" }).stderr;
  const again = (page) => page.getByLabel(/^Add animals a second time: this file was imported .*, and 2 animals were added$/);
  const looked = async (page) => {
    await choose(page, csv("copy.csv", text));
    await check(page);
    await page.getByText("Nothing has been changed yet.").waitFor();
  };
  const one = await open("import");
  await looked(one);
  await one.button("Add 2 animals").click();
  await one.getByRole("heading", { name: "2 animals were added" }).waitFor();
  // In another browser, and on the command line.
  const other = await open("import");
  await looked(other);
  await again(other).waitFor();
  assert.equal(await other.getByRole("button", { name: /^Add/ }).count(), 0);
  assert.match(command(path), /already imported at .* \(2 animals\)/);
  assert.equal((await find("Shared 1")).length, 1);
  await one.button("Undo…").click();
  await one.button("Undo the import").click();
  await one.getByText("2 animals that it added were deleted.").waitFor();
  await other.button("Back").click();
  await check(other);
  await other.button("Add 2 animals").waitFor();
  // From the command line to the console.
  const id = command(path).match(/--undo (\S+)/)[1];
  await other.button("Back").click();
  await check(other);
  await again(other).waitFor();
  command("--undo", id);
  await other.button("Back").click();
  await check(other);
  await other.button("Add 2 animals").waitFor();
  // The undo keeps an animal, which would be added a second time.
  const repeated = command(path).match(/--undo (\S+)/)[1];
  const [{ id: petId }] = await call("GET", "pets?name=Shared%202");
  await call("POST", "pets/batch", { changes: [{ id: petId, update: { location: "Loft" } }] });
  command("--undo", repeated);
  await other.button("Back").click();
  await check(other);
  await other.getByLabel(/^Add animals a second time: this file was undone .*, except for 1 animal changed or ordered since$/).waitFor();
  // An import that is undone elsewhere while it runs.
  let [batches, release] = [0, () => {}];
  const held = new Promise((resolve) => (release = resolve));
  await one.route("**/v1/pets/batch", async (route) => {
    if (++batches > 1) await held;
    await route.continue();
  });
  await one.button("Import another file").click();
  await choose(one, csv("stopped.csv", ["name,category", ...Array.from({ length: 2500 }, (_, at) => `Stopped ${at},Dogs`)].join("\n")));
  await check(one);
  await one.button("Add 2,500 animals").click();
  await one.getByText("1,000 of 2,500").waitFor();
  const [{ batchid }] = await call("GET", "events?sort=desc&limit=1&types=pet.created");
  for (let next; next !== null;) next = (await call("POST", `pets/batch/${batchid}/undo`, next ? { cursor: next } : {})).next ?? null;
  release();
  await one.getByText("The import was stopped, because it was undone or the file was imported again: 1,500 rows were not imported.").waitFor();
  assert.deepEqual(await find("Stopped 2"), []);
  assert.deepEqual(one.problems(/status of 409/), []);
  assert.deepEqual(other.problems(), []);
  await one.leave();
  await other.leave();
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

test("the own export changes nothing, whatever it has, and blanks can be removed", async () => {
  const make = (name, more) => call("POST", "pets", { name, categoryId: 1, status: "available", ...more });
  const odd = await make("#N/A", { breed: " Collie ", notes: "#REF!", color: " Red ", metadata: { box: "#VALUE!" } });
  const formula = await make(" =x ", { notes: " = 1 " });
  const animals = await open("animals");
  const [saved] = await Promise.all([animals.waitForEvent("download"), animals.button("Export").click()]);
  const exported = readFileSync(await saved.path(), "utf8");
  const size = (await readAll()).length;
  await animals.leave();
  const page = await open("import");
  await choose(page, csv("animals.csv", exported));
  await check(page);
  await page.getByText(`Nothing to do: ${size.toLocaleString("en")} animals are in the store exactly as in this file.`).waitFor();

  // Blanks that were not exported are removed from names and breeds, and others can be removed, too.
  const again = async (name, text) => {
    await page.button("Back").click();
    await page.button("Another file").click();
    await choose(page, csv(name, text));
    await check(page);
    await page.getByText("Nothing has been changed yet.").waitFor();
  };
  await again("blanks.csv", `id,name,breed,color,notes\n${odd.id},'#N/A, Collie ,Red,'#REF!\n${formula.id},' =x ,,,= 1\n`);
  assert.deepEqual(await counts(page), [0, 2, 0, 0]);
  await show(page, "changed");
  assert.deepEqual((await cellsOf(page)).map((cells) => cells.at(-1)), ["Breed: “ Collie ” → Collie\nColour: “ Red ” → Red", "Notes: “ = 1 ” → = 1"]);
  await page.button("Change 2 animals").click();
  await page.getByRole("heading", { name: "2 animals were changed" }).waitFor();
  const now = new Map((await readAll()).map((pet) => [pet.id, pet]));
  assert.deepEqual([now.get(odd.id).color, now.get(odd.id).breed, now.get(odd.id).name], ["Red", "Collie", "#N/A"]);
  assert.deepEqual([now.get(formula.id).name, now.get(formula.id).notes], [" =x ", "= 1"]);
  await page.button("Import another file").click();

  // Errors of a spreadsheet are none that were exported.
  await choose(page, csv("errors.csv", "name,category\n#N/A,Dogs\n'#N/A,Dogs\n ' =y ,Dogs\n' Blanks ,Dogs\n"));
  await check(page);
  await page.button("Add 3 animals").waitFor();
  await show(page, "invalid");
  assert.deepEqual((await cellsOf(page)).map((cells) => cells.at(-1)), ["Name: The cell is the error #N/A. Correct it in the spreadsheet."]);
  await page.button("Add 3 animals").click();
  await page.getByRole("heading", { name: "3 animals were added" }).waitFor();
  assert.deepEqual((await readAll()).slice(-3).map(({ name }) => name), ["#N/A", "' =y", " Blanks "]);
  assert.deepEqual(page.problems(/blob:/), []);
  await page.leave();
});

test("an animal that a person changes after the preview is left as it is", async () => {
  const make = (name, more) => call("POST", "pets", { name, categoryId: 1, status: "available", ...more });
  const price = (amount) => ({ amount, currency: "EUR" });
  const [moved, priced, untouched, done] = [await make("Moved", { price: price(100) }), await make("Priced", { price: price(100) }), await make("Untouched", { price: price(100) }), await make("Done", { price: price(100) })];
  const patch = (id, body) => fetch(`${service.address}/v1/pets/${id}`, { method: "PATCH", body: JSON.stringify(body), headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/merge-patch+json" } });
  const page = await open("import");
  page.on("dialog", (dialog) => dialog.accept());
  const all = [moved, priced, untouched, done];
  await choose(page, csv("prices.csv", ["id,price,currency", ...all.map(({ id }) => `${id},2,EUR`)].join("\n")));
  await check(page);
  await page.button("Change 4 animals").waitFor();
  // What the file does not change may change. What it would set may be set.
  await patch(moved.id, { location: "Loft" });
  await patch(done.id, { price: price(200) });
  // The changes do not arrive, and until they are sent again, an animal is changed.
  await page.route("**/v1/pets/batch", () => undefined);
  await Promise.all([page.waitForRequest("**/v1/pets/batch"), page.button("Change 4 animals").click()]);
  await page.reload();
  await patch(priced.id, { price: price(300) });
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.button("Resume").click();
  await page.getByRole("heading", { name: "3 animals were changed" }).waitFor();
  await page.getByText("The animal was changed since the file was checked. Import this row again to see what it would change now.").waitFor();
  assert.deepEqual((await cellsOf(page)).map(([line]) => line), ["3"]);
  const now = await call("GET", `pets?id=${all.map(({ id }) => id)}&sort=asc`);
  assert.deepEqual(now.map(({ price }) => price.amount), [200, 300, 200, 200]);
  assert.equal(now[0].location, "Loft");
  assert.deepEqual(page.problems(/^a dialog: /), []);
  await page.leave();
});

test("many microchips are looked up in few requests, and in a store that is too large not at all", async () => {
  const chip = (at) => String(900_000_000_000_000 + at);
  const { results } = await call("POST", "pets/batch", { changes: Array.from({ length: 300 }, (_, at) => ({ create: { name: `Chip ${at}`, categoryId: 1, microchip: chip(at) } })) });
  const pages = Math.ceil((await call("GET", "store/inventory")).total / 100);
  const page = await open("import");
  const urls = [];
  page.on("request", (request) => /\/v1\/pets\?/.test(request.url()) && urls.push(new URL(request.url()).search));
  const requests = async (name, lines) => {
    await choose(page, csv(name, ["id,name,category,microchip", ...lines].join("\n")));
    urls.length = 0;
    await check(page);
    await page.getByText("Nothing has been changed yet.").waitFor();
    const all = urls.splice(0);
    const shown = await counts(page);
    await page.button("Back").click();
    await page.button("Another file").click();
    return { all, shown };
  };
  const rows = (from, to) => Array.from({ length: to - from }, (_, at) => `,New ${at},Dogs,${chip(from + at)}`);

  // All animals are read instead of each microchip.
  const walk = await requests("chips.csv", rows(100, 500));
  assert.equal(walk.all.length, pages);
  assert.deepEqual(walk.shown, [200, 0, 0, 200]);
  // A few are looked up one by one.
  const few = await requests("few.csv", rows(298, 302));
  assert.deepEqual([few.all.filter((query) => query.includes("microchip=")).length, few.all.length, few.shown], [4, 4, [2, 0, 0, 2]]);
  // Those of the animals that the rows are about are known.
  const own = await requests("own.csv", results.map(({ id }, at) => `${id},Chip ${at},Dogs,${chip(at)}`));
  assert.deepEqual([own.all.length, own.shown], [3, [0, 0, 300, 0]]);

  // A store in which neither is possible.
  await page.route("**/v1/store/inventory", (route) => route.fulfill({ json: { available: 0, pending: 0, sold: 0, total: 9_000_000 } }));
  await choose(page, csv("many.csv", ["name,category,microchip", ...Array.from({ length: 5100 }, (_, at) => `Many ${at},Dogs,${chip(at)}`)].join("\n")));
  urls.length = 0;
  await check(page);
  await page.getByText("The store has too many animals to look for 5,100 microchips now. Rows with the microchip of an animal in the store will be left out.").waitFor();
  assert.deepEqual(urls, []);
  await page.inspect("import-unknown-chips");
  await page.button("Add 5,100 animals").click();
  await page.getByRole("heading", { name: "4,800 animals were added" }).waitFor({ timeout: 120_000 });
  await page.getByText("300 rows were left out.").waitFor();
  assert.deepEqual(page.problems(), []);
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
