// The console: the settings of the shop.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { useConsole } from "./console.mjs";

const backups = mkdtempSync(join(tmpdir(), "petstore-backups-"));
after(() => rmSync(backups, { recursive: true }));

const store = useConsole({
  args: ["--backup-dir", backups],
  prepare: async ({ call, service }) => {
    await call("PUT", "categories/1", { name: "Dogs" });
    const newest = async () => (await (await fetch(`${service.address}/readyz`)).json()).backups[0].newestAt;
    while (!(await newest())) await new Promise((resolve) => setTimeout(resolve, 50));
  },
});
const settings = () => store.call("GET", "store/settings");

async function openShop(page) {
  await page.locator("#key-name").click();
  await page.getByRole("link", { name: "The shop" }).click();
  await page.getByLabel("Name", { exact: true }).waitFor();
}

async function save(page) {
  const saved = page.waitForResponse((response) => response.request().method() === "PATCH" && response.ok());
  await page.button("Save").click();
  await saved;
  await page.getByText("Saved.").last().waitFor();
}

test("an owner sets the name, address, receipt text and currency of the shop", async () => {
  const page = await store.open({ locale: "en-GB" });
  await openShop(page);
  assert.equal(await page.locator("#account").isVisible(), false);
  assert.equal(await page.title(), "Shop · Petstore");
  await page.getByLabel("Name", { exact: true }).fill("Happy Paws");
  await page.getByLabel("Address").fill("12 Mill Lane\nFrederick");
  await page.getByLabel("Text at the end of receipts").fill("Thank you!");
  await page.getByLabel("Currency of new prices").selectOption("CHF");
  const head = page.getByRole("region", { name: "Receipt head" });
  await head.getByRole("heading", { name: "Happy Paws" }).waitFor();
  await head.getByText("Thank you!").waitFor();
  await page.getByText(/^Last backup on the server: .*\d\d:\d\d\./).waitFor();
  await page.inspect("shop");
  await save(page);
  assert.deepEqual(await settings(), { name: "Happy Paws", address: "12 Mill Lane\nFrederick", receiptText: "Thank you!", currency: "CHF" });
  // New prices have its currency; one that is there keeps its own.
  await store.add("Priced", { price: { amount: 100, currency: "SEK" } });
  await store.add("Bare");
  await page.open("Animals");
  for (const [name, currency] of [["Bare", "CHF"], ["Priced", "SEK"]]) {
    await page.open(name);
    await page.panel.getByRole("button", { name: "Sell…" }).click();
    assert.equal(await page.getByRole("dialog").getByLabel("Currency").inputValue(), currency);
    await page.keyboard.press("Escape");
  }
  // Emptied again.
  await openShop(page);
  for (const label of ["Name", "Address", "Text at the end of receipts"]) await page.getByLabel(label, { exact: true }).fill("");
  await page.getByLabel("Currency of new prices").selectOption("");
  await save(page);
  assert.deepEqual(await settings(), {});
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("typing is kept when another owner saves at the same time", async () => {
  await store.call("PATCH", "store/settings", { name: "First", address: "Here" });
  const page = await store.open();
  await openShop(page);
  await page.getByLabel("Name", { exact: true }).fill("Mine");
  // Another member: both are saved.
  await store.call("PATCH", "store/settings", { address: "There" });
  await save(page);
  assert.deepEqual(await settings(), { name: "Mine", address: "There" });
  assert.equal(await page.getByLabel("Address").inputValue(), "There");
  // The same one: a person decides.
  await page.getByLabel("Name", { exact: true }).fill("Mine again");
  await store.call("PATCH", "store/settings", { name: "Theirs" });
  await page.button("Save").click();
  await page.getByText("Another person has changed this to “Theirs”. Save again to keep yours.").waitFor();
  assert.equal((await settings()).name, "Theirs");
  await save(page);
  assert.equal((await settings()).name, "Mine again");
  // Unsaved typing is not lost by mistake.
  await page.getByLabel("Name", { exact: true }).fill("Lost");
  await page.open("Animals");
  await page.getByRole("dialog").getByRole("button", { name: "Keep editing" }).click();
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "Lost");
  await page.button("Discard").click();
  await page.open("Animals");
  await page.row("Bare").waitFor();
  assert.deepEqual(page.problems(/412/), []);
  await page.leave();
});

test("others see the shop, and cannot change it", async () => {
  await store.call("PATCH", "store/settings", { name: "Happy Paws", currency: "EUR" });
  const page = await store.open({}, store.service.createKeyNamed("till", "--role", "staff"));
  await openShop(page);
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "Happy Paws");
  assert.equal(await page.getByLabel("Name", { exact: true }).isDisabled(), true);
  await page.getByText("Only an owner can change this.").waitFor();
  assert.equal(await page.button("Save").count(), 0);
  assert.equal(await page.getByText("Last backup").count(), 0);
  await page.inspect("shop-read-only");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
