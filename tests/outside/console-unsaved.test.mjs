// The console: typing is not lost, and a key that is pressed once too often does nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { useConsole } from "./console.mjs";

const store = useConsole({ prepare: ({ call }) => call("PUT", "categories/1", { name: "Dogs" }) });

const question = (page) => page.getByRole("dialog", { name: "Discard what you typed?" });
const keep = (page) => question(page).getByRole("button", { name: "Keep editing" }).click();
const discard = (page) => question(page).getByRole("button", { name: "Discard" }).click();

test("leaving an animal with unsaved typing asks", async () => {
  const [first, second] = [await store.add("First"), await store.add("Second")];
  const page = await store.open();
  await page.live();
  await page.open("Second");
  await page.panel.getByRole("heading", { name: "Second" }).waitFor();
  await page.open("First");
  await page.panel.getByRole("heading", { name: "First" }).waitFor();
  await page.edit();
  // Nothing is typed yet.
  await page.open("Second");
  await page.panel.getByRole("heading", { name: "Second" }).waitFor();
  await page.open("First");
  await page.edit();
  await page.panel.getByLabel("Name").fill("First of all");

  const ways = {
    "another animal": () => page.open("Second"),
    "another screen": () => page.open("Orders"),
    Esc: () => page.keyboard.press("Escape"),
    close: () => page.getByRole("link", { name: "Close" }).click(),
    Back: () => page.goBack(),
    "a typed address": () => page.evaluate((id) => (location.hash = `#/animals/${id}`), second.id),
  };
  for (const [way, leave] of Object.entries(ways)) {
    await leave();
    await question(page).waitFor();
    await keep(page);
    await question(page).waitFor({ state: "detached" });
    await page.waitForURL(new RegExp(`#/animals/${first.id}$`));
    assert.equal(await page.panel.getByLabel("Name").inputValue(), "First of all", way);
  }
  // Filters leave the animal open, and are not asked about.
  await page.getByRole("button", { name: /available$/ }).click();
  await page.waitForURL(/status=available$/);
  assert.equal(await page.panel.getByLabel("Name").inputValue(), "First of all");
  await page.goBack();
  await page.waitForURL(new RegExp(`#/animals/${first.id}$`));

  // Back is still where it was.
  await page.goBack();
  await question(page).waitFor();
  await page.isAccessible();
  await discard(page);
  await page.panel.getByRole("heading", { name: "Second" }).waitFor();
  await page.open("First");
  await page.edit();
  assert.equal(await page.panel.getByLabel("Name").inputValue(), "First");
  // What is saved is not asked about.
  await page.panel.getByLabel("Name").fill("Saved");
  await page.button("Save changes").click();
  await page.row("Saved").waitFor();
  await page.open("Orders");
  await page.getByRole("heading", { name: "No open orders" }).waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a reload and signing out ask, too", async () => {
  await store.add("Typed");
  const page = await store.open();
  await page.live();
  await page.open("Typed");
  await page.edit();
  await page.panel.getByLabel("Name").fill("Typed over");
  page.removeAllListeners("dialog");
  const asked = new Promise((resolve) => page.once("dialog", async (dialog) => {
    resolve(dialog.type());
    await dialog.dismiss();
  }));
  await page.evaluate(() => void setTimeout(() => location.reload()));
  assert.equal(await asked, "beforeunload");
  assert.equal(await page.panel.getByLabel("Name").inputValue(), "Typed over");

  await page.locator("#key-name").click();
  await page.button("Sign out").click();
  await keep(page);
  assert.equal(await page.panel.getByLabel("Name").inputValue(), "Typed over");
  await page.locator("#key-name").click();
  await page.button("Sign out").click();
  await discard(page);
  await page.getByLabel("API key").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a dialog with typing asks before it closes", async () => {
  const page = await store.open();
  await page.live();
  const dialog = page.getByRole("dialog", { name: "Add animal" });
  await page.keyboard.press("n");
  await dialog.waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });

  await page.keyboard.press("n");
  await dialog.getByLabel("Name").fill("Rex");
  const ways = {
    Esc: () => page.keyboard.press("Escape"),
    "a click beside it": () => page.mouse.click(5, 400),
    Cancel: () => dialog.getByRole("button", { name: "Cancel" }).click(),
    Back: () => page.evaluate(() => (location.hash = "#/orders")),
  };
  for (const [way, leave] of Object.entries(ways)) {
    // More than once: browsers let no person be locked in by a dialog that asks to stay.
    for (let times = 0; times < 3; times++) {
      await leave();
      await question(page).waitFor();
      await keep(page);
      await question(page).waitFor({ state: "detached" });
      assert.equal(await dialog.getByLabel("Name").inputValue(), "Rex", way);
    }
  }
  // Esc on the question keeps the typing.
  await page.keyboard.press("Escape");
  await question(page).waitFor();
  await page.keyboard.press("Escape");
  await question(page).waitFor({ state: "detached" });
  assert.equal(await dialog.getByLabel("Name").inputValue(), "Rex");
  // What is typed and taken back is not asked about.
  await dialog.getByLabel("Name").fill("");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.keyboard.press("n");
  await dialog.getByLabel("Name").fill("Rex");
  await page.keyboard.press("Escape");
  await discard(page);
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("Enter three times reserves, and does nothing else; nor does a triple click", async () => {
  const ordersOf = async ({ id }) => (await store.call("GET", `store/orders?petId=${id}`)).map(({ status }) => status);
  const byKey = await store.add("By key");
  const page = await store.open();
  await page.live();
  await page.open("By key");
  await page.button("Reserve").focus();
  await page.keyboard.press("Enter");
  await page.focused("heading", "By key");
  await page.button("Complete sale").waitFor();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  assert.deepEqual(await ordersOf(byKey), ["placed"]);
  // The next step is one Tab away.
  await page.keyboard.press("Tab");
  await page.focused("button", "Complete sale");
  await page.keyboard.press("Enter");
  await page.focused("heading", "By key");
  await page.button("Return").waitFor();
  await page.keyboard.press("Enter");
  assert.deepEqual(await ordersOf(byKey), ["completed"]);

  // The next step appears below the pointer.
  const byMouse = await store.add("By mouse");
  await page.open("By mouse");
  const { x, y } = await page.button("Reserve").boundingBox();
  await page.mouse.move(x + 20, y + 20);
  const press = async (clickCount) => {
    await page.mouse.down({ clickCount });
    await page.mouse.up({ clickCount });
  };
  await press(1);
  await page.button("Complete sale").waitFor();
  await press(2);
  await press(3);
  await page.panel.getByText(/^Reserved, order/).waitFor();
  assert.deepEqual(await ordersOf(byMouse), ["placed"]);

  // In the list of orders as well.
  const listed = await store.order("Listed");
  await page.open("Orders");
  await page.button("All").click();
  await page.row("Listed").getByRole("button", { name: "Complete" }).focus();
  await page.keyboard.press("Enter");
  await page.status("Listed", "completed").waitFor();
  await page.focused("link", "Listed");
  assert.equal((await store.call("GET", `store/orders/${listed.id}`)).status, "completed");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("every status has a next action", async () => {
  const page = await store.open();
  await page.live();
  const steps = () => page.panel.locator("[aria-live] .actions").getByRole("button").allInnerTexts();
  const cases = [
    ["On sale", { status: "available" }, /^Available$/, ["Reserve", "Sell…"]],
    ["Unlisted", { status: undefined }, /^Not for sale/, ["Put up for sale"]],
    ["Marked pending", { status: "pending" }, /^Marked as pending, without an order$/, ["Make available"]],
    ["Marked sold", { status: "sold" }, /^Marked as sold, without an order$/, ["Make available"]],
  ];
  for (const [name, more, notice, actions] of cases) {
    await store.add(name, more);
    await page.open(name);
    await page.panel.getByText(notice).waitFor();
    assert.deepEqual(await steps(), actions);
    if (actions.length > 1) continue;
    await page.button(actions[0]).click();
    await page.status(name, "available").waitFor();
    await page.button("Reserve").waitFor();
    await page.focused("heading", name);
  }
  await page.button("Reserve").click();
  await page.panel.getByText(/^Reserved, order/).waitFor();
  assert.deepEqual(await steps(), ["Complete sale", "Cancel"]);
  await page.button("Complete sale").click();
  await page.panel.getByText(/^Sold, order/).waitFor();
  assert.deepEqual(await steps(), ["Return"]);
  // An order that is over leads to its animal.
  await page.button("Return").click();
  await page.button("Reserve").waitFor();
  await page.open("Orders");
  await page.button("Returned").click();
  await page.row("Marked sold").getByRole("button", { name: /^Details/ }).click();
  await page.panel.getByRole("link", { name: "Show the animal" }).click();
  await page.panel.getByRole("heading", { name: "Marked sold" }).waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
