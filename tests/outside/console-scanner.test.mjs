// The console: a chip scanner, which is a keyboard, used anywhere on the page.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { caller, closePages, launch, openConsole } from "./console.mjs";
import { startService } from "./harness.mjs";

let service, browser, key, call;

before(async () => {
  service = await startService({ inMemory: true });
  browser = await launch();
  key = service.createKeyNamed("counter-2");
  call = caller(service.address, key);
  // The names that begin like a chip are found by typing into a list of choices.
  for (const [id, name] of ["Dogs", "9 lives"].entries()) await call("PUT", `categories/${id + 1}`, { name });
  for (const [name, microchip] of Object.entries(CHIPS)) await call("POST", "pets", { name, categoryId: 1, status: "available", microchip });
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

afterEach(closePages(() => browser));

const CHIPS = { Fifteen: "985000000000042", Ten: "1234567890", Nine: "123456789" };

async function open() {
  const page = await openConsole(browser, service.address, key);
  await page.live();
  return Object.assign(page, {
    isOpen: (name) => page.panel.getByRole("heading", { name, exact: true }).waitFor(),
    close: async () => {
      await page.open("Animals");
      await page.panel.waitFor({ state: "detached" });
    },
  });
}

test("a scan opens the animal, wherever the focus is", async () => {
  const page = await open();
  const search = page.getByLabel("Search name, breed, chip or id");
  for (const [name, chip] of Object.entries(CHIPS)) {
    await page.scan(chip);
    await page.isOpen(name);
  }
  // In the search, also behind what was typed before.
  for (const text of ["", "bis", "985"]) {
    await page.close();
    await search.fill(text);
    await page.scan(CHIPS.Fifteen);
    await page.isOpen("Fifteen");
    assert.equal(await search.inputValue(), "");
    await page.row("Nine").waitFor();
  }
  // On a button, which is not pressed.
  await page.button("Reserve").focus();
  await page.scan(CHIPS.Ten);
  await page.isOpen("Ten");
  assert.deepEqual(await call("GET", "store/orders"), []);
  // In a list of choices, which is as it was.
  const category = page.getByRole("region", { name: "List" }).getByLabel("Category");
  await category.focus();
  await page.scan(CHIPS.Fifteen);
  await page.isOpen("Fifteen");
  assert.equal(await category.locator("option:checked").innerText(), "All categories");
  await page.row("Nine").waitFor();
  // On another screen: a check box, and a text of several lines.
  await page.open("Import");
  await page.getByLabel("Cells").focus();
  await page.scan(CHIPS.Ten);
  await page.isOpen("Ten");
  await page.open("Import");
  await page.getByLabel("Cells").fill("name,category\nRex,Dogs\n");
  await page.button("Continue with these cells").click();
  await page.getByLabel("The first row names the columns").focus();
  await page.scan(CHIPS.Nine);
  await page.isOpen("Nine");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("an unknown chip offers to add an animal, and the next scan is another chip", async () => {
  const page = await open();
  const unknown = page.getByRole("dialog", { name: "No animal has this chip" });
  await page.scan("985000000000043");
  await unknown.getByText("985 000 000 000 043").waitFor();
  await page.inspect("chip-unknown");
  await page.scan("985000000000044");
  await unknown.getByText("985 000 000 000 044").waitFor();
  assert.equal(await page.locator("dialog").count(), 1);
  await page.scan(CHIPS.Ten);
  await page.isOpen("Ten");
  await page.locator("dialog").waitFor({ state: "detached" });

  // The response to an earlier scan arrives last.
  const release = await page.hold(/microchip=985000000000045/);
  await page.scan("985000000000045");
  await page.scan(CHIPS.Nine);
  await page.isOpen("Nine");
  await release();
  // A dialog would be in the way.
  await page.open("Orders");
  await page.getByRole("heading", { name: "No open orders" }).waitFor();
  await page.scan("985000000000046");
  await unknown.getByText("985 000 000 000 046").waitFor();
  assert.equal(await page.locator("dialog").count(), 1);

  await unknown.getByRole("button", { name: "Add an animal with this chip" }).click();
  const form = page.getByRole("dialog", { name: "Add animal" });
  assert.equal(await form.getByLabel("Chip").inputValue(), "985000000000046");
  await form.getByLabel("Name").fill("Stray");
  await page.keyboard.press("Enter");
  await page.isOpen("Stray");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a scan fills in the chip of a form, and nothing else", async () => {
  const page = await open();
  const dialog = page.getByRole("dialog");
  const value = (label) => dialog.getByLabel(label, { exact: true }).inputValue();
  await page.keyboard.press("n");
  await dialog.getByLabel("Name").fill("New");
  await page.scan("985000000000050");
  await page.focused("textbox", "Chip");
  assert.deepEqual([await value("Name"), await value("Chip")], ["New", "985000000000050"]);
  // Another chip replaces it only there.
  await page.scan("985000000000051");
  assert.equal(await value("Chip"), "985000000000051");
  await dialog.getByLabel("Location").fill("K1");
  await page.scan("985000000000052");
  await dialog.getByText("The chip 985000000000052 was scanned. Finish or close this first, and scan it again.").waitFor();
  assert.deepEqual([await value("Location"), await value("Chip")], ["K1", "985000000000051"]);
  assert.equal((await call("GET", "pets?name=new")).length, 0);
  await page.button("Cancel").click();
  await page.button("Discard").click();

  // A sale.
  await page.open("Nine");
  await page.button("Sell…").click();
  await dialog.getByLabel("Price").focus();
  await page.scan("123456789");
  await dialog.getByText(/^The chip 123456789 was scanned\./).waitFor();
  assert.equal(await value("Price"), "");
  // The number of a receipt stays, and Enter does not sell.
  for (const receipt of ["400638133393", "1234567890"]) {
    await dialog.getByLabel("Reference").fill("");
    await page.scan(receipt);
    assert.equal(await value("Reference"), receipt);
  }
  assert.deepEqual(await call("GET", "store/orders"), []);
  await page.isAccessible();
  await page.button("Cancel").click();
  await page.button("Discard").click();

  // A question is not answered.
  await page.button("Delete animal…").click();
  await page.getByRole("dialog", { name: "Delete Nine?" }).getByRole("button", { name: "Delete" }).focus();
  await page.scan(CHIPS.Ten);
  await page.getByText(/^The chip 1234567890 was scanned\./).waitFor();
  await page.getByRole("dialog", { name: "Delete Nine?" }).waitFor();
  assert.equal((await call("GET", "pets?microchip=123456789")).length, 1);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the rest of an interrupted scan is not taken for another chip", async () => {
  const page = await open();
  const search = page.getByLabel("Search name, breed, chip or id");
  for (const late of [2, 6, 10]) {
    await page.scan(CHIPS.Fifteen, 10, late);
    await page.getByText("The scan was interrupted. Scan again.").last().waitFor();
    assert.equal(await page.panel.count(), 0);
  }
  await search.focus();
  await page.scan(CHIPS.Fifteen, 10, 6);
  assert.equal(await search.inputValue(), "");
  await page.scan(CHIPS.Fifteen);
  await page.isOpen("Fifteen");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a person who types digits is no scanner", async () => {
  const page = await open();
  const search = page.getByLabel("Search name, breed, chip or id");
  await page.keyboard.type("1234567890", { delay: 300 });
  await page.keyboard.press("Enter");
  assert.equal(await page.panel.count(), 0);
  // Where there is no chip, Enter does what it always does.
  await page.open("Nine");
  await page.button("Sell…").click();
  await page.getByRole("dialog").getByLabel("Price").focus();
  await page.keyboard.type("123456789", { delay: 300 });
  await page.keyboard.press("Enter");
  await page.panel.locator(".facts").getByText("$123,456,789.00").waitFor();
  await page.status("Nine", "sold").waitFor();
  // In the search, a chip can also be typed.
  await search.focus();
  await page.scan(CHIPS.Ten, 300);
  await page.isOpen("Ten");
  assert.equal(await search.inputValue(), "");
  // Two scans are not one, and not each number is a chip.
  for (const digits of ["12345678", "12345678901", "1234567890123456"]) {
    await page.getByRole("link", { name: "Close" }).focus();
    await page.scan(digits);
  }
  await page.isOpen("Ten");
  await search.fill("");
  await page.scan("12345678901");
  assert.equal(await search.inputValue(), "12345678901");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
