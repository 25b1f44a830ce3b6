// Many animals at once in the console: select, change, delete, export, undo.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { caller, openConsole, useConsole } from "./console.mjs";
import { withService } from "./harness.mjs";

// Each test has a category of its own, which it filters by.
const store = useConsole({
  async prepare({ call }) {
    await call("PUT", "categories/2", { name: "Cats" });
    for (let id = 11; id <= 19; id++) await call("PUT", `categories/${id}`, { name: `Litter ${id}` });
  },
});

// Adds animals, named "Pup 001" and so on, and returns them.
async function addMany(categoryId, size, more) {
  const changes = Array.from({ length: size }, (_, at) =>
    ({ create: { name: `Pup ${String(at + 1).padStart(3, "0")}`, categoryId, status: "available", ...more?.(at) } }));
  const { results } = await store.call("POST", "pets/batch", { changes });
  return results.map(({ id }) => id);
}

const petOf = async (id) => (await store.call("GET", `pets?id=${id}`))[0];
const petsOf = (ids) => store.call("GET", `pets?limit=100&id=${ids}`);
const checkbox = (page, name) => page.getByRole("checkbox", { name: `Select ${name}`, exact: true });
const bar = (page) => page.getByRole("toolbar", { name: "Selected animals" });
const tool = (page, name) => bar(page).getByRole("button", { name, exact: true });
const selected = (page, number) => bar(page).getByText(`${number} selected`, { exact: true }).waitFor();
const noneSelected = (page) => bar(page).waitFor({ state: "hidden" });
const toast = (page, text) => page.locator(".toast").filter({ hasText: text });

// The button of a message that offers to undo. While it has the focus, the message stays, however long a test takes.
async function undoOf(page, text) {
  const undo = toast(page, text).getByRole("button", { name: "Undo" });
  await undo.focus();
  return undo;
}

// Opens the list of a category, and waits for the text below it.
async function openCategory(categoryId, foot, look, secret, more = "") {
  const page = await store.open(look, secret);
  await page.live();
  await page.goto(`${store.service.address}/console#/animals?categoryId=${categoryId}${more}`);
  await page.getByRole("heading", { name: `Litter ${categoryId}`, level: 1 }).waitFor();
  await page.locator(".more").getByText(foot).waitFor();
  return page;
}

// Fills in the dialog of a member.
async function change(page, member, fill) {
  await tool(page, member).click();
  const dialog = page.getByRole("dialog");
  await fill(dialog);
  await dialog.getByRole("button", { name: /^Change [\d,]+ animals?$/ }).click();
}

test("rows are selected with the mouse, Shift and the keyboard", async () => {
  const ids = await addMany(11, 8);
  const page = await openCategory(11, "8 animals");
  // They are seen before the mouse is there.
  for (const name of ["Pup 005", "the animals that are shown"]) assert.ok(await checkbox(page, name).evaluate((box) => Number(getComputedStyle(box).opacity) >= 0.5), name);
  await checkbox(page, "Pup 002").check();
  await selected(page, 1);
  assert.equal(await bar(page).getByRole("button", { name: "Select all 8 that match" }).count(), 1);
  await checkbox(page, "Pup 006").click({ modifiers: ["Shift"] });
  await selected(page, 5);
  assert.equal(page.url().includes("animals/"), false, "no animal was opened");
  await page.inspect("many");
  await checkbox(page, "Pup 004").uncheck();
  await selected(page, 4);
  // A range is deselected in the same way.
  await checkbox(page, "Pup 002").click({ modifiers: ["Shift"] });
  await selected(page, 2);
  assert.deepEqual(await Promise.all([2, 3, 4, 5, 6].map((at) => checkbox(page, `Pup 00${at}`).isChecked())), [false, false, false, true, true]);

  // Those that are shown.
  const head = page.getByRole("checkbox", { name: "Select the animals that are shown" });
  assert.equal(await head.evaluate((box) => box.indeterminate), true);
  await head.check();
  await selected(page, 8);
  await bar(page).getByRole("button", { name: /^Select all/ }).waitFor({ state: "hidden" });
  await head.uncheck();
  await noneSelected(page);

  // The keyboard.
  await page.getByRole("link", { name: "Pup 008", exact: true }).focus();
  await page.keyboard.press("x");
  await selected(page, 1);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Shift+Space");
  await selected(page, 3);
  await page.keyboard.press("Space");
  await selected(page, 2);
  await page.focused("link", "Pup 006");
  // Enter opens an animal; Escape closes the panel before it clears the selection.
  await page.keyboard.press("Enter");
  await page.panel.waitFor();
  await page.keyboard.press("Escape");
  await page.panel.waitFor({ state: "detached" });
  await selected(page, 2);
  // The buttons of a toolbar.
  await tool(page, "Status").focus();
  await page.keyboard.press("ArrowRight");
  await page.focused("button", "Category");
  await page.keyboard.press("Escape");
  await noneSelected(page);

  // An animal that disappears drops out: it is deleted, or no longer matches.
  for (const name of ["Pup 001", "Pup 002", "Pup 003"]) await checkbox(page, name).check();
  await selected(page, 3);
  await store.call("DELETE", `pets/${ids[0]}`);
  await selected(page, 2);
  const patch = { method: "PATCH", headers: { Authorization: `Bearer ${store.key}`, "Content-Type": "application/merge-patch+json" } };
  const patched = (id, body) => fetch(`${store.service.address}/v1/pets/${id}`, { ...patch, body: JSON.stringify(body) });
  await patched(ids[1], { categoryId: 99 });
  await selected(page, 1);
  // Another one is renamed, and stays selected.
  await patched(ids[2], { name: "Renamed" });
  await page.getByRole("checkbox", { name: "Select Renamed", checked: true }).waitFor();
  await selected(page, 1);
  // Other filters: nothing that is not shown stays selected.
  await page.getByRole("button", { name: /available$/ }).click();
  await noneSelected(page);
  assert.deepEqual(page.problems(), []);
});

test("each member is changed, and undone from the message and from the history", async () => {
  const ids = await addMany(12, 4);
  const before = await petsOf(ids);
  const page = await openCategory(12, "4 animals");
  for (const at of [1, 2, 3]) await checkbox(page, `Pup 00${at}`).check();
  const three = ids.slice(0, 3);
  const values = async (member) => (await petsOf(ids)).map((pet) => pet[member]);

  await change(page, "Location", (dialog) => dialog.getByLabel("Location").fill("Room 2"));
  const undo = await undoOf(page, "3 animals have the location Room 2 now.");
  assert.deepEqual(await values("location"), ["Room 2", "Room 2", "Room 2", undefined]);
  await page.isAccessible();
  await undo.click();
  await toast(page, "3 animals are as before.").waitFor();
  assert.deepEqual(await petsOf(ids), before);
  await selected(page, 3);

  await change(page, "Price", async (dialog) => {
    await dialog.getByLabel("Price").fill("1,450");
    await dialog.getByLabel("Currency").selectOption("EUR");
    await dialog.getByRole("button", { name: "Change 3 animals" }).click();
    await dialog.getByText(/^Must be an amount such as/).waitFor();
    await dialog.getByLabel("Price").fill("45.50");
  });
  await toast(page, "3 animals have the price €45.50 now.").waitFor();
  assert.deepEqual(await values("price"), [...three.map(() => ({ amount: 4550, currency: "EUR" })), undefined]);
  // Without an amount, they have no price.
  await change(page, "Price", () => {});
  await toast(page, "3 animals have no price now.").waitFor();
  assert.deepEqual(await petsOf(ids), before);

  await change(page, "Status", (dialog) => dialog.getByLabel("Status").selectOption("sold"));
  await toast(page, "3 animals have the status sold now.").waitFor();
  assert.deepEqual(await values("status"), ["sold", "sold", "sold", "available"]);
  // Into another category: they leave the list, and the selection.
  await change(page, "Category", (dialog) => dialog.getByLabel("Category", { exact: true }).selectOption("Cats"));
  await toast(page, "3 animals have the category Cats now.").waitFor();
  await noneSelected(page);
  assert.deepEqual(await values("categoryId"), [2, 2, 2, 12]);

  // The history, after the messages are gone.
  await page.reload();
  await page.live();
  await page.open("Import");
  const entry = (name) => page.getByRole("row").filter({ hasText: name });
  await entry("Location: Room 2").getByText("undone").waitFor();
  await entry("Status: sold").getByText("3 animals were changed").waitFor();
  await page.inspect("many-history");
  for (const name of ["Category: Cats", "Status: sold"]) {
    await page.getByRole("button", { name: `Undo “${name}”…` }).click();
    await page.getByRole("dialog").getByText("This changes 3 animals back.").waitFor();
    await page.button("Undo the change").click();
    await page.getByRole("heading", { name: "The change was undone" }).waitFor();
    await page.getByText("3 animals are as before.").waitFor();
    await page.button("Import another file").click();
  }
  assert.deepEqual(await petsOf(ids), before);
  assert.deepEqual(page.problems(), []);
});

test("all that match a search are selected over several pages, changed, exported and deleted", async () => {
  const ids = await addMany(13, 230, (at) => ({ breed: at % 2 ? "Beagle" : "Collie", status: at < 220 ? "available" : "sold" }));
  const beagles = ids.filter((_, at) => at % 2 && at < 220);
  const page = await openCategory(13, "of 110", {}, store.key, "&status=available&q=beagle");
  await checkbox(page, "Pup 220").check();
  await tool(page, "Select all 110 that match").click();
  await selected(page, 110);

  const [download] = await Promise.all([page.waitForEvent("download"), tool(page, "Export").click()]);
  const lines = readFileSync(await download.path(), "utf8").trim().split("\r\n");
  assert.equal(lines.length, 111);
  assert.deepEqual(lines.slice(1).map((line) => Number(line.split(",")[0])), beagles.toReversed());

  // A new category, and those that were sold are not in it.
  await change(page, "Location", (dialog) => dialog.getByLabel("Location").fill("Kennel 7"));
  await toast(page, "110 animals have the location Kennel 7 now.").waitFor();
  const moved = async () => (await Promise.all([ids.slice(0, 100), ids.slice(100, 200), ids.slice(200)].map(petsOf))).flat();
  assert.deepEqual((await moved()).filter(({ location }) => location).map(({ id }) => id), beagles);
  const before = await moved();

  await tool(page, "Delete").click();
  await page.getByRole("heading", { name: "Delete 110 animals?" }).waitFor();
  await page.button("Cancel").click();
  await tool(page, "Delete").click();
  await page.button("Delete 110 animals").click();
  const undo = await undoOf(page, "110 animals were deleted.");
  await noneSelected(page);
  await page.getByText("No animal matches").waitFor();
  assert.equal((await moved()).length, 120);
  await undo.click();
  await toast(page, "110 animals are as before.").waitFor();
  assert.deepEqual(await moved(), before);
  await page.getByRole("link", { name: "Pup 220", exact: true }).waitFor();
  assert.deepEqual(page.problems(), []);
});

test("animals that cannot be changed are listed with their reasons", async () => {
  const ids = await addMany(14, 4);
  await store.call("POST", "store/orders", { petId: ids[1] });
  const { id: sale } = await store.call("POST", "store/orders", { petId: ids[2] });
  await store.call("POST", `store/orders/${sale}/complete`);
  const page = await openCategory(14, "4 animals");
  for (const at of [1, 2, 3, 4]) await checkbox(page, `Pup 00${at}`).check();
  await change(page, "Status", (dialog) => dialog.getByLabel("Status").selectOption("no status"));
  await page.getByRole("heading", { name: "2 animals were not changed" }).waitFor();
  await page.getByText("2 animals have no status now.").waitFor();
  const dialog = page.getByRole("dialog");
  const reasons = await dialog.getByRole("row").evaluateAll((rows) => rows.slice(1).map((row) => [...row.children].map((cell) => cell.innerText)));
  assert.deepEqual(reasons, [
    ["Pup 003", "It was sold with an order: return the order first."],
    ["Pup 002", "It is reserved: complete or cancel its order first."],
  ]);
  await page.inspect("many-report");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Save the list").click()]);
  assert.match(readFileSync(await saved.path(), "utf8"), /^\uFEFFid,name,problem\r\n\d+,Pup 003,It was sold/);
  // Undone from here.
  await dialog.getByRole("button", { name: "Undo", exact: true }).click();
  await toast(page, "2 animals are as before.").waitFor();
  assert.deepEqual((await petsOf(ids)).map(({ status }) => status), ["available", "pending", "sold", "available"]);

  // What was changed since is kept by an undo.
  for (const at of [2, 3]) await checkbox(page, `Pup 00${at}`).uncheck();
  await change(page, "Location", (dialog) => dialog.getByLabel("Location").fill("Room 9"));
  const undo = await undoOf(page, "2 animals have the location Room 9 now.");
  const headers = { Authorization: `Bearer ${store.key}`, "Content-Type": "application/merge-patch+json" };
  await fetch(`${store.service.address}/v1/pets/${ids[0]}`, { method: "PATCH", headers, body: JSON.stringify({ location: "Garden" }) });
  await undo.click();
  await page.getByRole("heading", { name: "1 animal was kept" }).waitFor();
  await page.getByRole("dialog").getByText("It was changed since.").waitFor();
  await page.getByRole("dialog").getByText("1 animal is as before.").waitFor();
  await page.button("Close").click();
  assert.equal((await petOf(ids[0])).location, "Garden");
  assert.equal((await petOf(ids[3])).location, undefined);

  // A reserved animal is not deleted.
  await checkbox(page, "Pup 001").uncheck();
  await checkbox(page, "Pup 002").check();
  await tool(page, "Delete").click();
  await page.button("Delete 2 animals").click();
  await page.getByRole("heading", { name: "1 animal was not deleted" }).waitFor();
  await page.button("Close").click();
  // Afterwards, too, it can be undone.
  await (await undoOf(page, "1 animal was deleted.")).click();
  await toast(page, "1 animal is as before.").waitFor();
  assert.equal((await petsOf(ids)).length, 4);
  assert.deepEqual(page.problems(), []);
});

test("a long change shows its progress, and is cancelled or resumed", async () => {
  for (let at = 0; at < 3; at++) await addMany(15, 1000);
  const at = async (location) => (await store.call("GET", `events?limit=1000&sort=desc`)).filter(({ data }) => data.location === location).length;
  const page = await openCategory(15, "of 1,000+");
  await checkbox(page, "Pup 1000").first().check();
  await tool(page, "Select all 1,000+ that match").click();
  await selected(page, "3,000");

  // Cancelled while two of three batches are under way.
  let release;
  let bothSent;
  const released = new Promise((resolve) => (release = resolve));
  const sent = new Promise((resolve) => (bothSent = resolve));
  let batches = 0;
  await page.route("**/v1/pets/batch", async (route) => {
    if (++batches === 2) bothSent();
    await released;
    await route.continue();
  });
  await change(page, "Location", (dialog) => dialog.getByLabel("Location").fill("Barn"));
  await bar(page).getByText("Changing 0 of 3,000").waitFor();
  await sent;
  await page.focused("button", "Cancel");
  await page.isAccessible();
  await page.button("Cancel").click();
  release();
  await page.getByRole("heading", { name: "Cancelled" }).waitFor();
  await page.getByText("2,000 animals have the location Barn now. 1,000 animals were not changed, because you cancelled.").waitFor();
  assert.equal(batches, 2);
  await page.button("Close").click();
  await (await undoOf(page, "2,000 animals have the location Barn now.")).click();
  await toast(page, "2,000 animals are as before.").waitFor();
  await page.unroute("**/v1/pets/batch");

  // The service fails at one batch, and it is sent again with the same key.
  const keys = [];
  let failures = 1;
  await page.route("**/v1/pets/batch", (route) => {
    keys.push(route.request().headers()["idempotency-key"]);
    if (keys.length > 1 && failures-- > 0) return route.fulfill({ status: 500, json: { code: "internal_error", message: "the service failed", status: 500 } });
    return route.continue();
  });
  await change(page, "Location", (dialog) => dialog.getByLabel("Location").fill("Loft"));
  await bar(page).getByText("The service failed.").waitFor();
  await tool(page, "Resume").click();
  await toast(page, "3,000 animals have the location Loft now.").waitFor();
  assert.equal(new Set(keys).size, 3);
  assert.equal(keys.length, 4);
  await selected(page, "3,000");
  assert.equal(await at("Loft"), 1000);
  assert.deepEqual(page.problems(/status of 500/), []);
});

test("on a phone, the bar is above the navigation and covers no button", async () => {
  await addMany(16, 30);
  const page = await openCategory(16, "30 animals", { width: 390, height: 844 });
  await checkbox(page, "Pup 030").check();
  await selected(page, 1);
  const covered = () => page.evaluate(() => {
    const [box, nav] = [".many", "nav"].map((selector) => document.querySelector(selector).getBoundingClientRect());
    const rows = [...document.querySelectorAll("tbody tr")];
    return { isAbove: box.bottom <= nav.top, isBelowRows: rows.at(-1).getBoundingClientRect().bottom <= box.top };
  });
  assert.equal((await covered()).isAbove, true);
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await page.waitForFunction(() => document.querySelector("tbody tr:last-child").getBoundingClientRect().bottom < innerHeight);
  assert.deepEqual(await covered(), { isAbove: true, isBelowRows: true });
  await checkbox(page, "Pup 001").check();
  await page.fits();
  await page.isAccessible();
  await change(page, "Location", (dialog) => dialog.getByLabel("Location").fill("Room 3"));
  await toast(page, "2 animals have the location Room 3 now.").waitFor();
  // In the middle of the list, there is no place without a row.
  await page.evaluate(() => scrollTo(0, 400));
  await page.waitForFunction(() => {
    const message = document.querySelector(".toast").getBoundingClientRect();
    return [...document.querySelectorAll(".many button, nav a")].map((button) => button.getBoundingClientRect())
      .every(({ top, bottom, left, right }) => message.top >= bottom || message.bottom <= top || message.left >= right || message.right <= left);
  });
  assert.deepEqual(page.problems(), []);
});

test("undo is offered for ten seconds, and for longer to a person who is about to use it", async () => {
  await addMany(18, 2);
  const page = await openCategory(18, "2 animals");
  await checkbox(page, "Pup 001").check();
  await selected(page, 1);
  await page.stopClock();
  const offer = toast(page, "1 animal has the location Room 1 now.");
  const move = () => change(page, "Location", (dialog) => dialog.getByLabel("Location").fill("Room 1"));
  await move();
  await offer.waitFor();
  await page.clock.runFor(9500);
  assert.equal(await offer.count(), 1);
  await page.clock.runFor(1000);
  assert.equal(await offer.count(), 0);
  await move();
  await offer.hover();
  await page.clock.runFor(12_000);
  assert.equal(await offer.count(), 1);
  await page.mouse.move(0, 0);
  await page.clock.runFor(1500);
  assert.equal(await offer.count(), 0);
  assert.deepEqual(page.problems(), []);
});

test("a key that can only read sees no checkboxes", async () => {
  await addMany(17, 2);
  const page = await openCategory(17, "2 animals", {}, store.service.createKeyNamed("reader", "--role", "read-only"));
  assert.equal(await page.getByRole("checkbox").count(), 0);
  await page.getByRole("link", { name: "Pup 002", exact: true }).focus();
  await page.keyboard.press("x");
  assert.equal(await bar(page).count(), 0);
  assert.deepEqual(page.problems(), []);
});

test("animals are changed while no category has a name, and into one that is new", () => withService({ inMemory: true }, async (service) => {
  const key = service.createKeyNamed("counter-2", "--role", "owner");
  const call = caller(service.address, key);
  const changes = ["Ada", "Bo"].map((name) => ({ create: { name, categoryId: 1, status: "available" } }));
  await call("POST", "pets/batch", { changes });
  const page = await openConsole(store.browser, service.address, key);
  await page.live();
  for (const name of ["Ada", "Bo"]) await checkbox(page, name).check();
  const categories = [];
  page.on("request", (request) => request.method() === "PUT" && categories.push(request.url()));
  await change(page, "Location", (dialog) => dialog.getByLabel("Location").fill("Room 2"));
  await toast(page, "2 animals have the location Room 2 now.").waitFor();
  await change(page, "Price", (dialog) => dialog.getByLabel("Price").fill("12"));
  await toast(page, /^2 animals have the price .*12\.00 now\./).waitFor();
  await change(page, "Status", (dialog) => dialog.getByLabel("Status").selectOption("sold"));
  await toast(page, "2 animals have the status sold now.").waitFor();
  assert.deepEqual(categories, []);
  await change(page, "Category", (dialog) => dialog.getByRole("textbox", { name: "New category" }).fill("Dogs"));
  await toast(page, "2 animals have the category Dogs now.").waitFor();
  assert.deepEqual((await call("GET", "pets")).map(({ location, status, price: { amount } }) => [location, status, amount]), [["Room 2", "sold", 1200], ["Room 2", "sold", 1200]]);
  // The animals had number 1 without a name.
  assert.deepEqual(await call("GET", "categories"), [{ id: 2, name: "Dogs" }]);
  assert.deepEqual(page.problems(/status of 412/), []);
}));

test("a search without letters and digits finds nothing, and one of too many words says so", async () => {
  const ids = await addMany(19, 3, (at) => (at ? {} : { name: "One two three four five six seven eight nine", microchip: "985112004567899" }));
  const page = await openCategory(19, "3 animals");
  await checkbox(page, "Pup 002").check();
  await selected(page, 1);
  const search = page.getByRole("searchbox");
  const lists = [];
  page.on("request", (request) => /\/v1\/(pets|store\/inventory)/.test(request.url()) && lists.push(request.url()));
  await search.fill("🐶 -!");
  await page.getByRole("heading", { name: "Type a letter or digit" }).waitFor();
  await noneSelected(page);
  assert.equal(await page.locator("tbody tr").count(), 0);
  await page.getByRole("button", { name: "– all" }).waitFor();
  assert.equal(await page.button("Export").isVisible(), false);
  // An animal that is added does not appear.
  await store.call("POST", "pets", { name: "Late 🐶", categoryId: 19, status: "available" });
  await page.reload();
  await page.live();
  await page.getByRole("heading", { name: "Type a letter or digit" }).waitFor();
  assert.equal(await page.locator("tbody tr").count(), 0);
  await page.isAccessible();
  assert.deepEqual(lists, []);

  await search.fill("one two three four five six seven eight");
  await page.getByText("1 animal", { exact: true }).waitFor();
  await page.getByRole("button", { name: "1 all" }).waitFor();
  await page.button("Export").waitFor();
  assert.equal(await page.getByText("Only the first 8 words were looked for.").count(), 0);
  await search.fill("one two three four five six seven eight xyz");
  await page.getByText("Only the first 8 words were looked for.").waitFor();
  await page.getByText("1 animal", { exact: true }).waitFor();
  // Words that are not looked for narrow nothing; those that are do.
  const first = "One two three four five six seven eight nine";
  await checkbox(page, first).check();
  await selected(page, 1);

  // A microchip is one term, also if it is grouped: also of an animal that arrives while it is looked for.
  await search.fill("985 112 004-567 899");
  await page.getByText("1 animal", { exact: true }).waitFor();
  await page.row(first).waitFor();
  await store.call("PATCH", `pets/${ids[0]}`, { microchip: null });
  const [other] = await addMany(19, 1, () => ({ name: "Chipped", microchip: "985112004567899" }));
  await page.row("Chipped").waitFor();
  assert.ok(other > ids[0]);
  assert.deepEqual(page.problems(), []);
});
