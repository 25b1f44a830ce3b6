// The console: cage cards, labels and receipts, as a browser prints them.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import jsQR from "jsqr";
import { PNG } from "pngjs";
import { artefacts, caller, openConsole, useConsole } from "./console.mjs";
import { startService } from "./harness.mjs";

// In points, as PDF has it.
const SIZES = { a4: [595, 842], letter: [612, 792], a6: [298, 420] };
const SHOP = { name: "Happy Paws", address: "12 Mill Lane\nFrederick, MD 21701", receiptText: "Tax permit 20-1234567.\nThank you!", currency: "USD" };
const JUNIPER = {
  name: "Juniper", breed: "Cavalier King Charles Spaniel", sex: "female", birthDate: "2026-08-02", color: "blenheim",
  price: { amount: 145_000, currency: "USD" }, location: "Kennel 4",
  source: { name: "Hollow Oak Kennels", address: "12 Mill Lane, Frederick, MD", licence: "52-B-0187" },
};
// The longest members that the service accepts, with and without places to break a line; other scripts; nothing at all.
const EXTREMES = [
  { name: "Sir Reginald Featherbottom von und zu Hohenstein ".repeat(6).slice(0, 255).trim(), breed: "W".repeat(100), sex: "unknown", birthDate: "1900-01-01",
    color: "x y ".repeat(25).trim(), location: "L".repeat(100), price: { amount: 1_000_000_000_000, currency: "VND" },
    source: { name: "S".repeat(200), address: "a long address ".repeat(13).trim(), licence: "9".repeat(200) } },
  { name: "W".repeat(255), price: { amount: 1_000_000_000_000, currency: "EUR" } },
  { name: "ياسمين الصغيرة", breed: "كلب سلوقي", color: "بني", location: "القفص ٤", source: { name: "مزرعة النخيل" } },
  { name: "猫".repeat(80), breed: "日本猫".repeat(20), price: { amount: 45_000, currency: "JPY" } },
  { name: "A" },
];

let chips = 985_112_004_000_000;
const store = useConsole({
  async prepare({ call }) {
    await call("PUT", "categories/1", { name: "Dogs" });
    await call("PATCH", "store/settings", SHOP);
  },
});

// Renders the page as the browser prints it.
async function render(page, name) {
  const pdf = await page.pdf({ preferCSSPageSize: true, printBackground: true });
  writeFileSync(`${artefacts}/${name}.pdf`, pdf);
  return pdf;
}

// Does so, and returns the size of each page in points.
async function printed(page, name) {
  const pdf = await render(page, name);
  const boxes = [...pdf.toString("latin1").matchAll(/\/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]/g)];
  return boxes.map(([, width, height]) => [Math.round(width), Math.round(height)]);
}

// Looks at what is printed, in the way in which paper shows it.
async function onPaper(page, look) {
  await page.emulateMedia({ media: "print" });
  try {
    return await look(page.locator("body > .papers"));
  } finally {
    await page.emulateMedia({ media: null });
  }
}

// Texts and QR codes that overlap, or that leave their card or page.
const collisions = (papers) => papers.evaluate((papers) => {
  const problems = [];
  const inside = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  for (const box of papers.querySelectorAll(".fit, .receipt")) {
    const parts = [];
    const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(node);
      // Lines are a bit higher than their letters.
      for (const { left, right, top, bottom, height } of range.getClientRects()) {
        parts.push({ node, text: node.data, left, right, top: top + height * 0.2, bottom: bottom - height * 0.2 });
      }
    }
    for (const code of box.querySelectorAll("svg path")) parts.push({ node: code, text: "QR code", ...code.getBoundingClientRect().toJSON() });
    const outer = box.getBoundingClientRect();
    for (const [at, part] of parts.entries()) {
      if (!inside(part, outer)) problems.push(`outside: ${part.text.slice(0, 40)}`);
      for (const other of parts.slice(at + 1)) {
        if (other.node !== part.node && overlap(part, other)) problems.push(`${part.text.slice(0, 40)} overlaps ${other.text.slice(0, 40)}`);
      }
    }
  }
  return problems;
});

async function decode(svg) {
  const { data, width, height } = PNG.sync.read(await svg.screenshot({ scale: "css" }));
  return jsQR(new Uint8ClampedArray(data), width, height)?.data;
}

const choose = (page, format) => page.getByRole("dialog").getByLabel("Paper").selectOption(format);
const close = (page) => page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
// Every paper has the sizes of its pages, its texts, and nothing that overlaps.
async function check(page, name, size, pages) {
  assert.deepEqual(await printed(page, name), Array(pages).fill(size), name);
  assert.deepEqual(await onPaper(page, collisions), [], name);
}

// Opens a list of the animals that a search finds, and selects them all.
async function select(page, query, count) {
  await page.goto(`${store.service.address}/console#/animals?${query}`);
  await page.getByText(new RegExp(`^${count} animals?$`)).waitFor();
  await page.getByRole("checkbox", { name: "Select the animals that are shown" }).check({ force: true });
  const bar = page.getByRole("toolbar");
  await bar.getByText(`${count} selected`).waitFor();
  return bar;
}

test("a cage card has what the law asks for, on every paper", async () => {
  const { id } = await store.add("Juniper", { ...JUNIPER, microchip: String(++chips) });
  const page = await store.open({ locale: "en-US" });
  await page.open("Juniper");
  await page.panel.getByRole("button", { name: "Print…" }).click();
  await page.getByRole("dialog").getByText("1 card on 1 page").waitFor();
  // The paper of the region.
  assert.equal(await page.getByLabel("Paper").inputValue(), "card-letter-4");
  await page.inspect("print-card");
  for (const [format, size] of [["card-a6", "a6"], ["card-a4-4", "a4"], ["card-a4-2", "a4"], ["card-letter-4", "letter"], ["card-letter-2", "letter"]]) {
    await choose(page, format);
    await check(page, format, SIZES[size], 1);
    const texts = await onPaper(page, (papers) => papers.innerText());
    for (const text of ["Happy Paws", "Dogs", "Juniper", "Cavalier King Charles Spaniel", "Female", "2 August 2026", "blenheim", "985 112 004 000 001",
      "Kennel 4", "Hollow Oak Kennels", "12 Mill Lane, Frederick, MD", "52-B-0187", "$1,450.00"]) assert.ok(texts.includes(text), `${format}: ${text} in ${texts}`);
    assert.equal(await onPaper(page, (papers) => decode(papers.locator("svg"))), `${store.service.address}/console#/animals/${id}`);
  }
  // As long as the dialog is open, the page prints the card; then the list again.
  await page.evaluate(() => (window.print = () => (window.prints = (window.prints ?? 0) + 1)));
  await page.getByRole("dialog").getByRole("button", { name: "Print" }).click();
  assert.equal(await page.evaluate(() => window.prints), 1);
  await close(page);
  assert.equal(await page.locator(".papers").count(), 0);
  await page.emulateMedia({ media: "print" });
  await page.panel.getByText("Hollow Oak Kennels").waitFor();
  await page.emulateMedia({ media: null });
  // The paper that was chosen last is offered first, for cards.
  await page.panel.getByRole("button", { name: "Print…" }).click();
  assert.equal(await page.getByLabel("Paper").inputValue(), "card-letter-2");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a card says what it lacks, and has the shop as it is now", async () => {
  await store.add("Goldie", { price: { amount: 1200, currency: "USD" } });
  const page = await store.open({ locale: "en-US" });
  await page.open("Goldie");
  const print = page.panel.getByRole("button", { name: "Print…" });
  const lacks = page.getByText("Not recorded, so not on the card: breed, sex, date of birth, colour, source, chip.");
  await print.click();
  await lacks.waitFor();
  await page.inspect("print-bare-card");
  await choose(page, "label-a4");
  await lacks.waitFor({ state: "detached" });
  await choose(page, "card-a6");
  await lacks.waitFor();
  assert.match(await onPaper(page, (papers) => papers.innerText()), /^Happy Paws\s+Dogs\s+Goldie\s+\$12\.00$/);
  await close(page);
  // Another person changes it.
  await store.call("PATCH", "store/settings", { name: "Happier Paws" });
  try {
    await print.click();
    assert.match(await onPaper(page, (papers) => papers.innerText()), /^Happier Paws\s/);
    await close(page);
    // Without a connection, it is the one from before.
    await page.goOffline();
    await page.getByText(/^No connection/).waitFor();
    await print.click();
    assert.match(await onPaper(page, (papers) => papers.innerText()), /^Happier Paws\s/);
    await close(page);
  } finally {
    await store.call("PATCH", "store/settings", SHOP);
  }
  assert.deepEqual(page.problems(/ERR_INTERNET_DISCONNECTED/), []);
  await page.leave();
});

test("papers look the same whatever was shown before", async () => {
  const { id: petId } = await store.add("", { ...JUNIPER, name: "Sir Reginald Featherbottom von Hohenstein", microchip: String(++chips), color: "blenheim, white chest and a dark spot",
    location: "Kennel 4, back room", source: { name: "Hollow Oak Kennels and Breeders of Western Maryland", address: "12 Mill Lane, Frederick, Maryland 21701, United States", licence: "52-B-0187" } });
  const { id: orderId } = await store.call("POST", "store/orders", { petId, buyer: { name: "Ada Moreno" }, price: { amount: 139_900, currency: "USD" }, reference: "R-2026-1107" });
  await store.call("POST", `store/orders/${orderId}/complete`);
  // The times at which the files are made differ.
  const papers = async (page, name) => {
    const files = [];
    for (const [hash, format] of [[`animals/${petId}`, "card-a6"], [`animals/${petId}`, "label-letter"], [`orders/${orderId}`, "receipt-letter"], [`orders/${orderId}`, "receipt-58"]]) {
      await page.evaluate((hash) => (location.hash = hash), `#/${hash}`);
      await page.panel.getByRole("button", { name: "Print…" }).click();
      await choose(page, format);
      files.push((await render(page, `${name}-${format}`)).toString("latin1").replaceAll(/\/(CreationDate|ModDate) \([^)]*\)/g, ""));
      assert.deepEqual(await onPaper(page, collisions), [], `${name}-${format}`);
      await close(page);
    }
    return files;
  };
  const page = await store.open({ locale: "en-US" });
  const expected = await papers(page, "fresh");
  // These have styles of their own, which stay loaded.
  for (const [hash, shown] of [["reports?view=register", /^\d+ acquired/], ["reports", /^By category$/], ["import", /^Choose a file$/], ["shop", /^What your receipts/]]) {
    await page.evaluate((hash) => (location.hash = hash), `#/${hash}`);
    await page.getByText(shown).first().waitFor();
  }
  await page.evaluate(() => (location.hash = "#/animals?q=Sir+Reginald"));
  await page.getByRole("checkbox", { name: /^Select Sir Reginald/ }).check({ force: true });
  await page.getByRole("toolbar").getByText("1 selected").waitFor();
  assert.equal(await page.locator("link[rel=stylesheet]").count() > 6, true);
  const after = await papers(page, "after");
  for (const [at, file] of after.entries()) assert.equal(file === expected[at], true, `paper ${at}`);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("cards and labels of a selection never overlap, and pages break between them", async () => {
  for (const pet of EXTREMES) await store.add(pet.name, { ...pet, categoryId: 2, microchip: String(++chips) });
  for (let at = 0; at < 26; at++) await store.add(`Guinea pig ${at}`, { categoryId: 2, ...(at % 2 && { price: { amount: 4500, currency: "USD" } }) });
  const page = await store.open({ locale: "de-DE" });
  const bar = await select(page, "categoryId=2", 31);
  await bar.getByRole("button", { name: "Print", exact: true }).click();
  await page.getByRole("dialog").getByText("31 labels on 2 pages").waitFor();
  assert.equal(await page.getByLabel("Paper").inputValue(), "label-a4");
  await page.inspect("print-labels");
  for (const [format, size, pages] of [["label-a4", "a4", 2], ["label-letter", "letter", 2], ["card-a4-4", "a4", 8], ["card-a4-2", "a4", 16], ["card-letter-4", "letter", 8], ["card-a6", "a6", 31]]) {
    await choose(page, format);
    await check(page, `many-${format}`, SIZES[size], pages);
    await onPaper(page, async (papers) => {
      const texts = await papers.innerText();
      for (const { name } of EXTREMES) assert.ok(texts.includes(name), `${format}: ${name}`);
      await papers.locator(".page").last().screenshot({ path: `${artefacts}/print-${format}.png` });
      // Cards are in their page.
      const isBroken = await papers.evaluate((papers) => [...papers.querySelectorAll(".page")].some((page) =>
        [...page.children].some((card) => card.getBoundingClientRect().bottom > page.getBoundingClientRect().bottom + 1)));
      assert.equal(isBroken, false);
      const links = papers.locator("svg");
      assert.equal(await links.count(), 31);
      assert.match(await decode(links.last()), /\/console#\/animals\/\d+$/);
    });
  }
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("labels start at the place that is chosen, on the first sheet only", async () => {
  for (let at = 0; at < 3; at++) await store.add(`Rest ${at}`, { categoryId: 44 });
  const page = await store.open({ locale: "de-DE" });
  const bar = await select(page, "categoryId=44", 3);
  await bar.getByRole("button", { name: "Print", exact: true }).click();
  const start = page.getByLabel("Start at label");
  const places = () => onPaper(page, (papers) => papers.locator(".page").evaluateAll((pages) => pages.map((page) => [...page.children].map(({ className }, at) => className && at + 1).filter(Boolean))));
  // The sheets follow what is chosen.
  const arranged = async (...expected) => {
    const deadline = Date.now() + 60_000;
    while (!isDeepStrictEqual(await places(), expected) && Date.now() < deadline) await page.waitForTimeout(100);
    assert.deepEqual(await places(), expected);
  };
  await arranged([1, 2, 3]);
  await start.fill("23");
  await page.getByText("3 labels on 2 pages").waitFor();
  await arranged([23, 24], [1]);
  await check(page, "labels-started", SIZES.a4, 2);
  await onPaper(page, (papers) => papers.locator(".page").first().screenshot({ path: `${artefacts}/print-labels-started.png` }));
  await page.inspect("print-labels-started");
  // There is no such label.
  await start.fill("31");
  await arranged([23, 24], [1]);
  await choose(page, "label-letter");
  await arranged([1, 2, 3]);
  await start.fill("30");
  await arranged([30], [1, 2]);
  await choose(page, "card-a4-4");
  assert.equal(await start.isVisible(), false);
  await arranged([1, 2, 3]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a thousand labels are printed, and loading them shows its progress", async () => {
  const changes = (from, count) => Array.from({ length: count }, (_, at) => ({ create: { name: `Fish ${from + at}`, categoryId: 3, status: "available" } }));
  await store.call("POST", "pets/batch", { changes: changes(0, 1000) });
  const page = await store.open({ locale: "de-DE" });
  await page.goto(`${store.service.address}/console#/animals?categoryId=3`);
  await page.getByRole("checkbox", { name: "Select the animals that are shown" }).check({ force: true });
  const bar = page.getByRole("toolbar");
  await bar.getByRole("button", { name: /^Select all/ }).click();
  await bar.getByText("1,000 selected").waitFor();
  await page.stopClock();
  const release = await page.hold(/pets\?limit=100&sort=desc&id=/);
  await bar.getByRole("button", { name: "Print", exact: true }).click();
  await page.clock.runFor(1900);
  assert.equal(await bar.getByRole("progressbar").count(), 0);
  await page.clock.runFor(200);
  await bar.getByText("Loading 0 of 1,000").waitFor();
  await release();
  await page.runUntil(() => page.getByRole("dialog").getByText("1,000 labels on 42 pages").isVisible());
  assert.equal(await page.locator(".papers .animal-label").count(), 1000);
  assert.equal((await printed(page, "labels-1000")).length, 42);
  await close(page);
  // More than that is not loaded.
  await store.call("POST", "pets/batch", { changes: changes(1000, 1) });
  await page.getByRole("checkbox", { name: "Select Fish 1000", exact: true }).check({ force: true });
  await bar.getByText("1,001 selected").waitFor();
  await bar.getByRole("button", { name: "Print", exact: true }).click();
  await page.getByText("Up to 1,000 animals are printed at once: select fewer.").waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

// Opens the papers of an order.
async function openPaper(page, id) {
  await page.goto(`${store.service.address}/console#/orders/${id}`);
  await page.panel.getByRole("heading", { name: `Order ${id}` }).waitFor();
  await page.panel.getByRole("button", { name: "Print…" }).click();
  await page.getByRole("dialog").waitFor();
}

test("a receipt has the shop, the animal, the buyer and the price, on sheets and till rolls", async () => {
  const pet = await store.add("Biscuit", { ...JUNIPER, name: "Biscuit", microchip: String(++chips) });
  const { id } = await store.call("POST", "store/orders", { petId: pet.id, buyer: { name: "Ada Moreno", address: "4 Orchard Street, Frederick, MD", contact: "ada@example.com" },
    price: { amount: 139_900, currency: "USD" }, reference: "R-2026-1107" });
  const page = await store.open({ locale: "en-US" });
  const textOf = () => onPaper(page, (papers) => papers.innerText());
  await openPaper(page, id);
  const reserved = await textOf();
  assert.match(reserved, /^Reservation$/m);
  assert.match(reserved, /This is not a receipt/);
  assert.match(reserved, /Reserved until/);
  assert.doesNotMatch(reserved, /^Receipt$|Sold on/m);
  await close(page);
  await store.call("POST", `store/orders/${id}/complete`);
  const sold = new Intl.DateTimeFormat("en-GB", { dateStyle: "long" }).format(new Date());
  await page.panel.getByText("completed", { exact: true }).waitFor();
  await openPaper(page, id);
  await page.inspect("print-receipt");
  for (const [format, size] of [["receipt-a4", "a4"], ["receipt-letter", "letter"], ["receipt-a6", "a6"]]) {
    await choose(page, format);
    await check(page, format, SIZES[size], 1);
  }
  for (const [format, width] of [["receipt-80", 227], ["receipt-58", 164]]) {
    await choose(page, format);
    const pages = await printed(page, format);
    assert.equal(pages.length, 1, format);
    assert.equal(pages[0][0], width);
    assert.deepEqual(await onPaper(page, collisions), [], format);
    await onPaper(page, (papers) => papers.locator(".page").screenshot({ path: `${artefacts}/print-${format}.png` }));
  }
  const text = await textOf();
  for (const expected of ["Happy Paws", "12 Mill Lane", "Frederick, MD 21701", "Receipt", String(id), "R-2026-1107", sold, "Ada Moreno", "4 Orchard Street, Frederick, MD", "ada@example.com",
    "Biscuit", "Dogs, Cavalier King Charles Spaniel", "Female", "blenheim", "985 112 004 ", "2 August 2026", "$1,399.00", "Tax permit 20-1234567.", "Thank you!"]) assert.ok(text.includes(expected), `${expected} in ${text}`);
  assert.doesNotMatch(text, /Reservation|Returned|Cancelled/);
  await close(page);
  // The date of the sale stays when it is corrected, and so does the animal as it was sold.
  await store.call("PATCH", `pets/${pet.id}`, { name: "Renamed", color: "grey" });
  await openPaper(page, id);
  const again = await textOf();
  assert.match(again, /^Biscuit$/m);
  assert.doesNotMatch(again, /Renamed|grey/);
  await close(page);
  await store.call("PATCH", `store/orders/${id}`, { reference: "R-2" });
  await store.call("POST", `store/orders/${id}/return`);
  await page.panel.getByText("returned", { exact: true }).waitFor();
  await openPaper(page, id);
  const returned = await textOf();
  for (const expected of [/^Returned$/m, /This sale is no longer valid/, /Returned on/, /Sold on/]) assert.match(returned, expected);
  assert.doesNotMatch(returned, /^Receipt$|^Total$/m);
  await close(page);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("an order without anything, a deleted animal, and a long text are printed, too", async () => {
  const { id } = await store.order("Gone");
  await store.call("POST", `store/orders/${id}/cancel`);
  const order = await store.call("GET", `store/orders/${id}`);
  await store.call("DELETE", `pets/${order.petId}`);
  await store.call("PATCH", "store/settings", { name: null, address: null, receiptText: Array.from({ length: 150 }, (_, at) => `${at}.`).join("\n") });
  try {
    const page = await store.open();
    await openPaper(page, id);
    const text = await onPaper(page, (papers) => papers.innerText());
    for (const expected of [/^Cancelled$/m, /The animal was not sold/, /^Reserved on$/m, /^Gone$/m, /^Dogs$/m, /149\./]) assert.match(text, expected);
    await choose(page, "receipt-a4");
    const pages = await printed(page, "receipt-long");
    assert.ok(pages.length === 3 || pages.length === 4, `${pages.length} pages`);
    await choose(page, "receipt-80");
    assert.equal((await printed(page, "receipt-long-80")).length, 1);
    await page.getByText("The shop has no name yet").waitFor();
    assert.deepEqual(page.problems(), []);
    await page.leave();
  } finally {
    await store.call("PATCH", "store/settings", SHOP);
  }
});

test("a receipt has its date and its animal when the log has forgotten both", async () => {
  const service = await startService({ inMemory: true, args: ["--max-events", "3"] });
  try {
    const key = service.createKeyNamed("counter-2");
    const call = caller(service.address, key);
    await call("PUT", "categories/1", { name: "Dogs" });
    const { id: petId } = await call("POST", "pets", { ...JUNIPER, categoryId: 1, status: "available", microchip: "985112004999999" });
    const { id } = await call("POST", "store/orders", { petId });
    await call("POST", `store/orders/${id}/complete`);
    execFileSync("python3", ["-c", `import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=60) as db:
    db.execute("UPDATE orders SET completed_at = 1772366400000000")`, service.file]);
    await service.restart();
    const page = await openConsole(store.browser, service.address, key, { timeZone: "Europe/Berlin" });
    await page.live();
    const textOf = async () => {
      await page.evaluate((id) => (location.hash = `#/orders/${id}`), id);
      await page.panel.getByRole("button", { name: "Print…" }).click();
      const text = await onPaper(page, (papers) => papers.innerText());
      await close(page);
      return text;
    };
    await call("DELETE", `pets/${petId}`);
    assert.equal((await call("GET", `events?subject=pets/${petId}&sort=desc&limit=1`))[0].type, "pet.deleted");
    const expected = [/^Sold on\s+1 March 2026 at 13:00$/m, /^Juniper$/m, /^Dogs, Cavalier/m, /^Female$/m, /985 112 004 999 999/];
    for (const text of expected) assert.match(await textOf(), text);
    for (let at = 0; at < 5; at++) await call("PATCH", `store/orders/${id}`, { reference: String(at) });
    while ((await call("GET", `events?subject=pets/${petId}&limit=1`)).length) await new Promise((resolve) => setTimeout(resolve, 100));
    for (const text of expected) assert.match(await textOf(), text);
    assert.deepEqual(page.problems(), []);
    await page.leave();
  } finally {
    await service.stop();
  }
});
