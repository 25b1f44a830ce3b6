// The console: sales that are interrupted, rejected or overtaken.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { caller, closePages, launch, openConsole, openScreen } from "./console.mjs";
import { startService } from "./harness.mjs";

let service, browser, key, call;

before(async () => {
  service = await startService({ inMemory: true, args: ["--reserve-for", "20m"] });
  browser = await launch();
  key = service.createKeyNamed("counter-2");
  call = caller(service.address, key);
  await call("PUT", "categories/1", { name: "Dogs" });
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

afterEach(closePages(() => browser));

const addAnimal = (name, more) => call("POST", "pets", { name, categoryId: 1, status: "available", ...more });
const USD = (amount) => ({ amount, currency: "USD" });
const prices = (page) => page.panel.locator(".facts > div").filter({ has: page.getByText("Price", { exact: true }) }).locator("dd").allInnerTexts();

// Opens the dialog that sells an animal.
async function startSale(name, more) {
  const { id } = await addAnimal(name, more);
  const page = await openConsole(browser, service.address, key);
  await page.live();
  await page.open(name);
  await page.button("Sell…").click();
  const dialog = page.getByRole("dialog", { name: `Sell ${name}` });
  await dialog.waitFor();
  return { id, page, dialog };
}

test("a sale that is being sent cannot be cancelled", async () => {
  const { id, page, dialog } = await startSale("Hasty");
  const release = await page.hold("**/v1/store/orders");
  await page.keyboard.press("Enter");
  await dialog.locator("[aria-busy]").waitFor();
  assert.ok(await page.button("Cancel").isDisabled());
  // Esc, twice: a browser lets no person be locked in by a dialog that asks to stay.
  for (let times = 0; times < 2; times++) await page.keyboard.press("Escape");
  await page.mouse.click(5, 5);
  assert.ok(await dialog.isVisible());
  await release();
  await dialog.waitFor({ state: "detached" });
  await page.panel.getByText(/^Sold, order \d+$/).waitFor();
  assert.deepEqual((await call("GET", `store/orders?petId=${id}`)).map(({ status }) => status), ["completed"]);

  // Before it is sent, it can.
  await page.button("Return").click();
  await page.button("Sell…").click();
  await dialog.waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.button("Sell…").click();
  await page.button("Cancel").click();
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.deepEqual((await call("GET", `store/orders?petId=${id}`)).map(({ status }) => status), ["returned"]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a sale whose completion fails says so, and continues", async () => {
  const { id, page, dialog } = await startSale("Halfway", { price: USD(45000) });
  const orders = async () => (await call("GET", `store/orders?petId=${id}`)).map(({ status, price, reference }) => [status, price.amount, reference]);
  await page.route("**/complete", (route) => route.fulfill({ status: 500, json: { code: "internal_error", message: "an internal error; try again", status: 500 } }));
  await page.keyboard.press("Enter");
  await dialog.getByText(/^Order \d+ reserves Halfway, but the sale is not complete\. An internal error; try again\. Try again, or close this and complete the order later\.$/).waitFor();
  await page.inspect("sale-interrupted");
  assert.deepEqual(await orders(), [["placed", 45000, undefined]]);
  // Again, with a correction: the same order is corrected and completed.
  await page.unrouteAll();
  await dialog.getByLabel("Price").fill("400");
  await dialog.getByLabel("Reference").fill("R-1");
  await dialog.getByRole("button", { name: "Sell" }).click();
  await page.panel.getByText(/^Sold, order \d+$/).waitFor();
  assert.deepEqual(await orders(), [["completed", 40000, "R-1"]]);
  assert.deepEqual(page.problems(/status of 500/), []);
  await page.leave();

  // Or closed: the panel shows the reservation, and completes it.
  const other = await startSale("Later");
  await other.page.route("**/complete", (route) => route.fulfill({ status: 500, json: { code: "internal_error", message: "an internal error", status: 500 } }));
  await other.page.keyboard.press("Enter");
  await other.dialog.getByText(/^Order \d+ reserves Later/).waitFor();
  await other.page.unrouteAll();
  await other.dialog.getByRole("button", { name: "Cancel" }).click();
  await other.page.panel.getByText(/^Reserved, order \d+$/).waitFor();
  await other.page.button("Complete sale").click();
  await other.page.status("Later", "sold").waitFor();
  assert.deepEqual(other.page.problems(/status of 500/), []);
  await other.page.leave();

  // The order is cancelled before it is completed.
  const third = await startSale("Cancelled");
  await third.page.route("**/complete", async (route) => {
    await call("POST", new URL(route.request().url()).pathname.replace(/^\/v1\/(.*)complete$/, "$1cancel"));
    await route.continue();
  });
  await third.page.keyboard.press("Enter");
  await third.page.panel.getByText("Another person was faster: Cancelled is available.").waitFor();
  assert.equal(await third.page.locator("dialog").count(), 0);
  assert.deepEqual(third.page.problems(/status of 409/), []);
  await third.page.leave();
});

test("an animal whose chip was given to another one is not returned", async () => {
  const { id } = await addAnimal("Sold one", { microchip: "900000000000007" });
  const order = await call("POST", "store/orders", { petId: id });
  await call("POST", `store/orders/${order.id}/complete`);
  const heir = await addAnimal("Heir", { microchip: "900000000000007" });
  const page = await openConsole(browser, service.address, key);
  await page.open("Sold one");
  await page.button("Return").click();
  await page.panel.getByText("Heir has this chip.").waitFor();
  assert.equal(await page.getByText("Another person was faster").count(), 0);
  await page.isAccessible();
  await page.panel.getByRole("link", { name: "Heir" }).click();
  await page.waitForURL(new RegExp(`#/animals/${heir.id}$`));
  assert.deepEqual(page.problems(/status of 409/), []);
  await page.leave();
});

test("a reservation that is being made stays so while others change the animal", async () => {
  const { id } = await addAnimal("Busy");
  const page = await openConsole(browser, service.address, key);
  await page.live();
  await page.open("Busy");
  await page.panel.getByText(/^Added by/).waitFor();
  await page.button("Sell…").focus();
  await call("PATCH", `pets/${id}`, { location: "K1" });
  await page.panel.locator(".facts").getByText("K1", { exact: true }).waitFor();
  await page.focused("button", "Sell…");

  const keys = [];
  let release;
  const released = new Promise((resolve) => (release = resolve));
  await page.route("**/v1/store/orders", async (route) => {
    keys.push(route.request().headers()["idempotency-key"]);
    await released;
    await route.continue();
  });
  await page.button("Reserve").click();
  await page.locator(".panel [aria-busy]").waitFor();
  await call("PATCH", `pets/${id}`, { location: "K2" });
  await page.panel.locator(".facts").getByText("K2", { exact: true }).waitFor();
  assert.equal(await page.button("Reserve").getAttribute("aria-busy"), "true");
  await page.button("Reserve").click();
  release();
  await page.button("Complete sale").waitFor();
  await page.focused("heading", "Busy");
  assert.equal(keys.length, 1);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a price is shown once, unless the animal was sold for another one", async () => {
  const { page } = await startSale("Priced", { price: USD(45000) });
  await page.keyboard.press("Enter");
  await page.panel.getByText(/^Sold, order \d+$/).waitFor();
  assert.deepEqual(await prices(page), ["$450.00"]);
  await page.button("Return").click();
  await page.button("Sell…").click();
  await page.getByRole("dialog").getByLabel("Price").fill("400");
  await page.keyboard.press("Enter");
  await page.panel.locator(".facts").getByText("$400.00").waitFor();
  assert.deepEqual(await prices(page), ["$400.00", "$450.00"]);
  await page.leave();
});

test("an order that was loaded before it changed is not shown", async () => {
  const { id: petId } = await addAnimal("Overtaken", { price: USD(100) });
  const { id } = await call("POST", "store/orders", { petId });
  const page = await openScreen(browser, service.address, key, "orders");
  let respond, loaded;
  const [released, first] = [new Promise((resolve) => (respond = resolve)), new Promise((resolve) => (loaded = resolve))];
  let held = false;
  await page.route(`**/v1/store/orders/${id}`, async (route) => {
    if (held) return route.continue();
    held = true;
    const response = await route.fetch();
    loaded();
    await released;
    await route.fulfill({ response });
  });
  await page.button(`Details of order ${id}`).click();
  await first;
  await call("PATCH", `store/orders/${id}`, { price: USD(200) });
  await page.panel.locator(".facts").getByText("$2.00").waitFor();
  const older = page.waitForResponse(`**/v1/store/orders/${id}`);
  respond();
  await older;
  // A change that comes after the older response.
  await page.row("Overtaken").getByText("$2.00").waitFor();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
  assert.deepEqual(await prices(page), ["$2.00"]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
