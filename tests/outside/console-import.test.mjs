// Import and export of the console.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
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

test("a spreadsheet is checked before anything is added", async () => {
  await call("PUT", "categories/5", { name: "Straße" });
  const page = await open("import");
  await page.inspect("import");
  const text = "\uFEFFsep=;\r\nName;Category;Status;Notes\r\n\"Rex \"\"the\r\ndog\"\"\";Dogs;;\r\n\r\n'=1+1;STRASSE;SOLD;x\r\nMax;Dogz;available;\r\nLuna;7;lost;\r\n;;;\r\nTom;Dogs;;;too much\r\n";
  await choose(page, csv("animals.csv", text));
  const cells = () => page.getByRole("row").evaluateAll((rows) => rows.slice(1).map((row) => [...row.children].map((cell) => cell.innerText)));
  await page.getByText("Max").waitFor();
  assert.deepEqual(await cells(), [
    ["3", "Rex \"the dog\"\nNo line breaks and control characters.", "Dogs", ""],
    ["6", "=1+1", "Straße", "sold"],
    ["7", "Max", "Dogz\nNo category is named “Dogz”.", "available"],
    ["8", "Luna", "no. 7", "lost\nMust be available, pending, sold or empty."],
    ["10", "Tom\nMore cells than the 4 columns.", "Dogs", ""],
  ]);
  await page.inspect("import-preview");
  await page.getByRole("button", { name: /invalid$/ }).click();
  assert.equal((await cells()).length, 4);
  // Somebody else gives a name to the number that it chooses, and then it chooses another one.
  let taken;
  await page.route("**/v1/categories/*", async (route) => {
    taken ??= route.request().url().split("/").at(-1);
    await call("PUT", `categories/${taken}`, { name: "Meanwhile" });
    await route.continue();
  });
  await page.button("Add it").click();
  await page.button("Import 2 animals").waitFor();
  const names = new Map((await call("GET", "categories")).map(({ id, name }) => [String(id), name]));
  assert.equal(names.get(taken), "Meanwhile");
  assert.ok([...names.values()].includes("Dogz"));

  // Another column.
  await page.getByRole("combobox", { name: "Status" }).selectOption("–");
  await page.button("Import 3 animals").click();
  await page.getByRole("heading", { name: "3 animals were added" }).waitFor();
  await page.getByText("2 rows were rejected.").waitFor();
  await page.inspect("import-report");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Save the rejected rows").click()]);
  assert.equal(readFileSync(await saved.path(), "utf8"), "\uFEFFName,Category,Status,Notes,problem\r\n\"Rex \"\"the\r\ndog\"\"\",Dogs,,,No line breaks and control characters.\r\nTom,Dogs,,,too much,More cells than the 4 columns.\r\n");
  const [formula] = await call("GET", "pets?name=%3D1%2B1");
  assert.deepEqual([formula.name, formula.categoryId], ["=1+1", 5]);

  // The same file again: nothing is added twice.
  await page.button("Import another file").click();
  await choose(page, csv("animals.csv", text));
  await page.getByRole("combobox", { name: "Status" }).selectOption("–");
  await page.button("Import 3 animals").click();
  await page.getByRole("heading", { name: "0 animals were added" }).waitFor();
  await page.getByText("3 rows of this file had been added before").waitFor();

  // Cells without a header, in a key that takes any int64.
  await page.button("Import another file").click();
  await page.getByLabel("Cells").fill("Ärmel, Jr., III\t-9223372036854775808\tsold\nZed\t9223372036854775808\n");
  await page.getByText("No category is named “9223372036854775808”.").first().waitFor();
  await page.button("Import 1 animal").click();
  await page.getByRole("heading", { name: "1 animal was added" }).waitFor();
  const [pet] = await call("GET", "pets?name=%C3%84rmel,%20Jr&categoryId=-9223372036854775808");
  assert.equal(pet.status, "sold");

  // Not UTF-8, and not closed.
  await page.button("Import another file").click();
  await choose(page, { name: "old.csv", mimeType: "text/csv", buffer: Buffer.from("name,category\n\xc4rmel,Dogs\n", "latin1") });
  await page.getByText("Check names with accents.").waitFor();
  await page.getByRole("cell", { name: "Ärmel" }).waitFor();
  await page.button("Another file").click();
  const dataTransfer = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["name,category\nRex,Dogs\n\"Max,Dogs\n"], "broken.csv"));
    return transfer;
  });
  await page.getByRole("main").dispatchEvent("drop", { dataTransfer });
  await page.getByText("Line 3: a quote is not closed.").waitFor();

  // The service may have forgotten the idempotency keys of an old import.
  await page.evaluate(() => {
    const old = { key: 1, time: Date.now() - 21 * 3_600_000, name: "old.csv", text: "name,category\nRex,Dogs\n", pasted: false };
    sessionStorage.setItem("petstore-import", JSON.stringify(old));
  });
  await page.reload();
  await page.getByText("The import of old.csv was interrupted after 0 rows, and cannot be resumed after 20 hours.").waitFor();

  // Idempotency keys are those of an API key.
  await page.route("**/v1/pets", () => {});
  await choose(page, csv("paused.csv", "name,category\nRex,Dogs\nMax,Dogs\n"));
  await page.button("Import 2 animals").click();
  await page.button("Pause").click();
  await page.goto(`${service.address}/console#key=${service.createKeyNamed("counter-3")}`);
  await page.open("Import");
  await page.getByText("The import of paused.csv was interrupted after 0 rows, and cannot be resumed with another API key.").waitFor();
  assert.deepEqual(page.problems(/status of 412/), []);
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
  await page.getByText("Also read: birthDate, source.name, source.licence, price, currency, sex, description, metadata.note, metadata.__proto__.").waitFor();
  assert.equal(await page.getByText(/^Price: Must be an amount such as (1450\.00|145\.000), without thousands separators\.$/).count(), 2);
  await page.button("Import 4 animals").click();
  await page.getByRole("heading", { name: "3 animals were added" }).waitFor();
  const find = async (name) => (await call("GET", `pets?name=${name}`)).map(({ id, ...pet }) => pet);
  assert.deepEqual(await find("%20Spaced"), [{
    name: " Spaced ", categoryId: 1, birthDate: "2025-02-03", sex: "female", price: { amount: 45050, currency: "USD" }, description: " a\r\nb ",
    source: { name: " Hill Farm ", licence: "-7" }, metadata: JSON.parse('{"__proto__":"=1","note":" first"}'),
  }]);
  // A line break is no other detail, and the service rejects it.
  await page.getByText(/^Must not contain control characters/).waitFor();
  assert.deepEqual(await find("Injected"), []);
  assert.deepEqual(await find("Exact"), [{ name: "Exact", categoryId: 1, price: { amount: 1450, currency: "KWD" } }]);
  assert.deepEqual(await find("Blank"), [{ name: "Blank", categoryId: 1 }]);
  await page.button("Import another file").click();
  await choose(page, csv("twice.csv", "name,category,Source name,source.name\nRex,Dogs,a,b\n"));
  await page.getByText("More than one column is “source.name”.").waitFor();
  assert.deepEqual(page.problems(/status of 400/), []);
  await page.leave();
});

test("5,000 rows are imported once, over a lost connection and a reload", async () => {
  proxy = await startProxy(service.address);
  const page = await open("import", proxy.address);
  page.setDefaultTimeout(120_000);
  const lines = Array.from({ length: 5000 }, (_, at) => (at % 8 ? ",Dogs" : `Bulk ${at},Dogs`));
  await choose(page, csv("bulk.csv", ["name,category", ...lines].join("\n")));
  // Thousands of requests are slow to follow for the test.
  page.removeAllListeners("request");
  await page.button("Import 625 animals").click();
  const done = (least) => page.waitForFunction((least) => document.querySelector("progress")?.value >= least, least);
  await done(50);
  await page.inspect("import-progress");
  // Requests arrive, but not their responses.
  proxy.dropResponses(true);
  await page.getByText("No connection.").waitFor();
  proxy.dropResponses(false);
  await done(120);
  await page.button("Pause").click();
  await page.getByText("Paused.").waitFor();
  await page.button("Go on").click();
  await done(200);
  // The browser asks first.
  page.once("dialog", (dialog) => dialog.accept());
  await page.reload();
  await page.getByText("This import was interrupted.").waitFor();
  // What is done is not sent again.
  await page.evaluate(() => performance.setResourceTimingBufferSize(10_000));
  await page.getByRole("button", { name: /^Go on with \d\d\d animals$/ }).click();
  await page.getByRole("heading", { name: "625 animals were added" }).waitFor();
  const sent = await page.evaluate(() => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/v1/pets")).length);
  assert.ok(sent > 200 && sent < 450, `${sent} rows were sent after the reload`);
  await page.getByText("4,375 rows were rejected.").waitFor();
  assert.deepEqual((await page.getByRole("cell", { name: /^\d+$/ }).allInnerTexts()).slice(0, 3), ["3", "4", "5"]);
  let [found, cursor] = [[], ""];
  do {
    const response = await fetch(`${service.address}/v1/pets?name=Bulk&limit=100${cursor}`, { headers: { Authorization: `Bearer ${key}` } });
    found.push(...(await response.json()).map(({ name }) => name));
    cursor = response.headers.get("link")?.match(/&?cursor=([\w-]+)/)?.[1];
    cursor = cursor && `&cursor=${cursor}`;
  } while (cursor);
  assert.equal(found.length, 625);
  assert.equal(new Set(found).size, 625);
  assert.deepEqual(page.problems(/ERR_/), ["a dialog: "]);
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
