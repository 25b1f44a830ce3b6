// A long import in the console beside a till: interrupted, resumed and undone, it leaves the store as it was. It prints
// how long it took, also compared with `petstore import`, and the till's longest sale. IMPORT_ROWS sets its size, and
// IMPORT_DATABASE=postgres the database. The times are no assertions: other programs may use the machine.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { caller, launch, openScreen } from "./console.mjs";
import { startService } from "./harness.mjs";
import { startPostgres } from "./postgres.mjs";

const ROWS = Number(process.env.IMPORT_ROWS ?? 3000);
const isFull = ROWS > 10_000;
const isPostgres = process.env.IMPORT_DATABASE === "postgres";
const TIMEOUT = 60_000 + ROWS * 20;
// Of the rows, so many change animals of the store.
const CHANGED = Math.floor(ROWS / 50);
const STOCK = 20;
const PAUSE = 50;

const group = (number) => number.toLocaleString("en");
const seconds = (from) => (performance.now() - from) / 1000;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

// A store with animals that the file changes, others, orders, and the stock of the till.
async function openShop(use) {
  // Its files are on the disk if it is measured.
  const postgres = isPostgres ? await startPostgres({ isDurable: isFull }) : null;
  const service = await startService({ inMemory: !isFull, database: postgres?.url });
  const database = postgres?.url ?? `sqlite:${service.file}`;
  try {
    const key = service.createKeyNamed("office", "--role", "owner");
    const call = caller(service.address, key);
    await call("PUT", "categories/1", { name: "Dogs" });
    await call("PUT", "categories/2", { name: "At the till" });
    const ids = [];
    const add = async (size, pet) => {
      for (let at = 0; at < size; at += 1000) {
        const changes = Array.from({ length: Math.min(1000, size - at) }, (_, index) => ({ create: pet(at + index) }));
        ids.push(...(await call("POST", "pets/batch", { changes })).results.map(({ id }) => id));
      }
    };
    await add(CHANGED + 100, (at) => ({ name: `Old ${at}`, categoryId: 1, status: "available", price: { amount: 2000 + at, currency: "EUR" }, ...(at % 3 === 0 && { notes: "quiet" }) }));
    for (const petId of ids.slice(-3)) await call("POST", "store/orders", { petId });
    await add(STOCK, (at) => ({ name: `Till ${at}`, categoryId: 2, status: "available", price: { amount: 100, currency: "EUR" } }));
    const file = join(dirname(service.file), "animals.csv");
    const line = (at) => (at < CHANGED ? `${ids[at]},Old ${at},Dogs,available,,12.50,EUR` : `,Imported ${at},${at % 2 ? "Dogs" : "New arrivals"},available,Mixed breed ${at % 40},${10 + (at % 90)}.00,EUR`);
    const text = `id,name,category,status,breed,price,currency\n${Array.from({ length: ROWS }, (_, at) => line(at)).join("\n")}\n`;
    writeFileSync(file, text);
    const till = startTill(caller(service.address, service.createKeyNamed("till-1")), ids.slice(-STOCK));
    try {
      await use({ service, database, key, call, file, till });
    } finally {
      await till.stop();
    }
  } finally {
    await service.stop();
    await postgres?.stop();
  }
}

// Sells one animal after the other, and takes it back. Remembers the longest sale.
function startTill(call, stock) {
  const till = { sales: 0, longest: 0 };
  let isOpen = true;
  const work = async () => {
    while (isOpen) {
      const petId = stock[till.sales % stock.length];
      const start = performance.now();
      const { id } = await call("POST", "store/orders", { petId });
      await call("POST", `store/orders/${id}/complete`);
      till.longest = Math.max(till.longest, performance.now() - start);
      till.sales++;
      await call("POST", `store/orders/${id}/return`);
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  };
  const done = work();
  // Whoever stops it sees the error.
  done.catch(() => {});
  till.stop = () => {
    isOpen = false;
    return done;
  };
  return till;
}

// Everything but the animals and the orders of the till.
async function snapshot({ service, key }) {
  const readAll = async (list) => {
    const [all, headers] = [[], { Authorization: `Bearer ${key}` }];
    for (let next = `/v1/${list}?limit=100`; next;) {
      const response = await fetch(new URL(next, service.address), { headers });
      all.push(...(await response.json()));
      next = response.headers.get("link")?.match(/<([^>]*)>; rel="next"/)?.[1];
    }
    return all;
  };
  const pets = await readAll("pets");
  const atTill = new Set(pets.filter(({ categoryId }) => categoryId === 2).map(({ id }) => id));
  return {
    pets: pets.filter(({ id }) => !atTill.has(id)),
    orders: (await readAll("store/orders")).filter(({ petId }) => !atTill.has(petId)),
    categories: await readAll("categories"),
  };
}

test(`${group(ROWS)} rows are imported beside a till, interrupted, resumed and undone`, { timeout: 3 * TIMEOUT }, async (t) => {
  const figures = {};
  await openShop(async (shop) => {
    const { service, key, call, file, till } = shop;
    const before = await snapshot(shop);
    const page = await openScreen(browser, service.address, key, "import");
    page.setDefaultTimeout(TIMEOUT);
    const chosen = performance.now();
    await page.getByLabel("Choose a file").setInputFiles(file);
    await page.button(`Check ${group(ROWS)} rows`).click();
    await page.getByLabel("Create 1 category: New arrivals").check();
    const start = page.button(`Add ${group(ROWS - CHANGED)} and change ${group(CHANGED)} animals`);
    await start.waitFor();
    figures.check = seconds(chosen);
    const sold = till.sales;
    const started = performance.now();
    await start.click();
    const progress = page.locator("progress");
    await page.waitForFunction((least) => document.querySelector("progress")?.value >= least, ROWS * 0.4);
    assert.ok((await progress.evaluate(({ value }) => value)) < ROWS, "it is over already");
    await page.reload();
    await page.getByText(/^The import of animals.csv was interrupted after/).waitFor();
    await page.button("Resume").click();
    await page.getByRole("heading", { name: `${group(ROWS - CHANGED)} animals were added, and ${group(CHANGED)} changed` }).waitFor();
    figures.console = seconds(started);
    assert.ok(till.sales > sold, "the till has sold nothing");
    assert.equal((await call("GET", "store/inventory")).total, before.pets.length + STOCK + ROWS - CHANGED);

    const undoing = performance.now();
    await page.button("Undo…").click();
    await page.button("Undo the import").click();
    await page.getByRole("heading", { name: "The import was undone" }).waitFor();
    figures.undo = seconds(undoing);
    await page.getByText(`${group(ROWS)} changes were undone.`).waitFor();
    assert.equal(await page.getByText("kept").count(), 0);
    await till.stop();
    assert.deepEqual(await snapshot(shop), before);
    assert.deepEqual(page.problems(/^a dialog: /), []);
    Object.assign(figures, { sales: till.sales, longest: till.longest });
    await page.leave();
  });
  // The same file on the command line, beside a till, too.
  await openShop(async ({ database, call, file, till }) => {
    const started = performance.now();
    const command = spawn(process.env.PETSTORE_BINARY, ["import", file, "--create-categories", "--database", database], { stdio: ["ignore", "ignore", "pipe"] });
    let text = "";
    command.stderr.on("data", (part) => (text += part));
    assert.equal(await new Promise((resolve) => command.once("close", resolve)), 0, text);
    figures.command = seconds(started);
    assert.equal((await call("GET", "store/inventory")).total, 100 + STOCK + ROWS);
    figures.commandLongest = till.longest;
  });
  const s = (value) => `${value.toFixed(1)} s (${group(Math.round(ROWS / value))} rows per second)`;
  t.diagnostic(`${group(ROWS)} rows on ${isPostgres ? "PostgreSQL" : "SQLite"}: checked in ${s(figures.check)}, imported in ${s(figures.console)} with an interruption, undone in ${s(figures.undo)}`);
  t.diagnostic(`petstore import: ${s(figures.command)}, so the console takes ${(figures.console / figures.command).toFixed(1)} times as long`);
  t.diagnostic(`the till: ${group(figures.sales)} sales, the longest ${Math.round(figures.longest)} ms; beside petstore import ${Math.round(figures.commandLongest)} ms`);
});
