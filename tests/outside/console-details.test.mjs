// The console: what is recorded of animals and sales.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, afterEach, before, test } from "node:test";
import { artefacts, caller, closePages, csv, launch, openConsole, openScreen } from "./console.mjs";
import { DIGITS } from "../../crates/api/src/console/js/price.js";
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

const open = (options) => openConsole(browser, service.address, key, options);
const addAnimal = (name, more) => call("POST", "pets", { name, categoryId: 1, status: "available", ...more });
const USD = (amount) => ({ amount, currency: "USD" });
// The labels and texts of a list of facts.
const facts = (root) => root.locator(".facts > div").evaluateAll((rows) => rows.map(({ children: [label, text] }) => `${label.textContent}: ${text.textContent}`));
const yearsAgo = (years) => `${new Date().getUTCFullYear() - years}-01-01`;

test("an animal is added with all its details, shown, edited, and emptied", async () => {
  const page = await open();
  await page.live();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog");
  const fill = async (root, values) => {
    for (const [label, text] of Object.entries(values)) await root.getByLabel(label, { exact: true }).fill(text);
  };
  await fill(dialog, { Name: "Biscuit", Breed: "Border Collie", Colour: "black", "Date of birth": yearsAgo(3), Chip: "985 112-004 567 890", Location: "Kennel 4", Price: "1450,00" });
  await dialog.getByLabel("Sex").selectOption("female");
  await dialog.getByLabel("Currency").selectOption("EUR");
  // The usual fields and the buttons are on one screen.
  // Today, which can be changed and removed.
  assert.equal(await dialog.getByLabel("Acquired on").inputValue(), await page.evaluate(() => new Date().toLocaleDateString("sv")));
  for (const control of [dialog.getByLabel("Name"), dialog.getByLabel("Price"), dialog.getByRole("button", { name: "Add animal" })]) {
    const { y, height } = await control.boundingBox();
    assert.ok(y >= 0 && y + height <= 900, `${y} ${height}`);
  }
  await page.inspect("details-add");
  await dialog.getByText("Description, notes, origin and more").click();
  await fill(dialog, { Description: "Bright.\nPlayful.", Notes: "Shy.", "Acquired on": "2024-05-17", "Acquired from": "Hill Farm", "Their address": "Leeds", "Their licence": "LN/42", "Other details": "litter: 2024-07\npedigree: KC:1" });
  await page.inspect("details-more");
  await dialog.getByRole("button", { name: "Add animal" }).click();

  await page.panel.getByRole("heading", { name: "Biscuit" }).waitFor();
  await page.panel.getByText("Bright.").waitFor();
  const born = `1 January ${yearsAgo(3).slice(0, 4)}`;
  assert.deepEqual(await facts(page.panel), ["Breed: Border Collie", "Sex: female", `Age: 3 years born ${born}`, "Colour: black", "Chip: 985 112 004 567 890", "Price: €1,450.00", "Location: Kennel 4", "Acquired: 17 May 2024", "From: Hill Farm", "Address: Leeds", "Licence: LN/42", "litter: 2024-07", "pedigree: KC:1"]);
  await page.row("Biscuit").getByText("3 years", { exact: true }).waitFor();
  await page.row("Biscuit").getByRole("cell", { name: "€1,450.00", exact: true }).waitFor();
  await page.inspect("details");
  // On paper, only what is recorded.
  await page.emulateMedia({ media: "print" });
  await page.fits();
  assert.ok(await page.panel.getByText("985 112 004 567 890").isVisible());
  assert.equal(await page.getByRole("button").count() + await page.getByRole("textbox").count() + await page.getByRole("table").count(), 0);
  await page.screenshot({ path: `${artefacts}/console-details-print.png`, fullPage: true });
  await page.emulateMedia({ media: "screen" });
  const [pet] = await call("GET", "pets?microchip=985112004567890");
  const { id, ...members } = pet;
  assert.deepEqual(members, {
    name: "Biscuit", categoryId: 1, status: "available", breed: "Border Collie", sex: "female", birthDate: yearsAgo(3), color: "black", microchip: "985112004567890",
    price: { amount: 145000, currency: "EUR" }, description: "Bright.\nPlayful.", notes: "Shy.", location: "Kennel 4", acquiredOn: "2024-05-17",
    source: { name: "Hill Farm", address: "Leeds", licence: "LN/42" }, metadata: { litter: "2024-07", pedigree: "KC:1" },
  });

  // By keyboard; what is emptied is removed.
  await page.keyboard.press("e");
  await page.focused("textbox", "Name");
  await page.inspect("details-edit");
  await fill(page.panel, { Breed: "", Price: "1300", Chip: "" });
  await page.panel.getByText("Description, notes, origin and more").click();
  await fill(page.panel, { Description: " ", "Acquired on": "", "Their licence": "", "Other details": "litter: 2024-08" });
  await page.button("Save changes").click();
  await page.panel.getByText("Price €1,450.00 → €1,300.00").waitFor();
  const { breed, microchip, description, acquiredOn, ...rest } = members;
  assert.deepEqual(await call("GET", `pets?id=${id}`), [{ id, ...rest, price: { amount: 130000, currency: "EUR" }, source: { name: "Hill Farm", address: "Leeds" }, metadata: { litter: "2024-08" } }]);

  // The device remembers the currency, and nothing else.
  await page.reload();
  await page.live();
  await page.keyboard.press("Escape");
  await page.keyboard.press("n");
  assert.equal(await dialog.getByLabel("Currency").inputValue(), "EUR");
  assert.deepEqual(await page.evaluate(() => Object.keys(localStorage).sort()), ["petstore-currency", "petstore-sign-ins"]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the age is in the list, and buttons do not cover the field that has the focus, on a phone too", async () => {
  const name = "Aged";
  await addAnimal(name, { breed: "Hermann's tortoise", sex: "female", birthDate: yearsAgo(3), price: USD(45000), location: "Terrarium 12", microchip: "900000000000002" });
  const page = await open();
  await page.live();
  for (const viewport of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    await page.setViewportSize(viewport);
    const age = page.row(name).getByText("3 years", { exact: true });
    const isShown = await age.evaluate((age) => age.getBoundingClientRect().bottom <= age.parentElement.getBoundingClientRect().bottom);
    assert.ok(isShown, `${viewport.width} px`);
    await page.keyboard.press("n");
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Description, notes, origin and more").click();
    await dialog.getByLabel("Name").focus();
    // Of a text with several lines, the first one is in view.
    const focus = () => page.evaluate(() => {
      const [field, actions] = [document.activeElement, document.querySelector("dialog .actions")];
      const { top, bottom } = field.getBoundingClientRect();
      return { name: field.name, end: Math.min(bottom, top + 44), edge: actions.getBoundingClientRect().top, isButton: actions.contains(field) };
    });
    const seen = new Set();
    for (let at = await focus(); !at.isButton; at = await focus()) {
      assert.ok(at.end <= at.edge, `${viewport.width} px: ${JSON.stringify(at)}`);
      seen.add(at.name);
      await page.keyboard.press("Tab");
    }
    for (const field of ["notes", "acquiredOn", "source.address", "metadata"]) assert.ok(seen.has(field), `${field}: ${[...seen]}`);
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
  }
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("what is wrong is shown at its field", async () => {
  const other = await addAnimal("Chipped", { microchip: "900000000000001" });
  const page = await open();
  await page.live();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog");
  const problemOf = async (label, text) => {
    const control = dialog.getByLabel(label, { exact: true });
    await dialog.getByText(text).waitFor();
    assert.equal(await control.getAttribute("aria-invalid"), "true");
    const described = await control.evaluate((control) => document.getElementById(control.getAttribute("aria-describedby")).textContent);
    assert.match(described, text);
  };
  await dialog.getByLabel("Name").fill("Wrong");
  // The comma may separate thousands.
  for (const price of ["12.345", "1,450", "1,45,0", "450 EUR", "-5"]) {
    await dialog.getByLabel("Price").fill(price);
    await page.keyboard.press("Enter");
    await problemOf("Price", /Must be an amount such as 1450\.00, without thousands separators\./);
  }
  await dialog.getByLabel("Price").fill("12.34");
  assert.equal(await dialog.getByLabel("Price").getAttribute("aria-invalid"), null);
  await dialog.getByLabel("Chip").fill("12");
  await dialog.getByText("Description, notes, origin and more").click();
  await dialog.getByLabel("Their address").fill("Leeds");
  await dialog.getByText("Description, notes, origin and more").click();
  await dialog.getByLabel("Name").press("Enter");
  // It opens the section of the second one.
  await problemOf("Chip", /9, 10 or 15 digits/);
  await problemOf("Acquired from", /Required\./);
  await page.inspect("details-problems");
  await dialog.getByLabel("Their address").fill("");
  await dialog.getByLabel("Chip").fill("900000000000001");
  await page.keyboard.press("Enter");
  await problemOf("Chip", /Chipped has this chip\./);
  await page.isAccessible();
  await dialog.getByRole("link", { name: "Chipped" }).click();
  await page.waitForURL(new RegExp(`#/animals/${other.id}$`));
  await page.panel.getByRole("heading", { name: "Chipped" }).waitFor();
  assert.equal(await page.locator("dialog").count(), 0);
  assert.deepEqual(page.problems(/status of 4(00|09)/), []);
  await page.leave();
});

test("a sale takes one step, is corrected, and its buyer is erased", async () => {
  const { id } = await addAnimal("Quick", { price: USD(45000) });
  const page = await open();
  await page.live();
  await page.open("Quick");
  await page.button("Sell…").click();
  await page.getByRole("dialog", { name: "Sell Quick" }).waitFor();
  assert.equal(await page.getByRole("dialog").getByLabel("Price").inputValue(), "450.00");
  await page.inspect("sell");
  // Enter takes the defaults.
  await page.keyboard.press("Enter");
  await page.status("Quick", "sold").waitFor();
  await page.panel.getByText(/^Sold, order \d+$/).waitFor();
  const [quick] = await call("GET", `store/orders?petId=${id}`);
  assert.deepEqual([quick.status, quick.price, quick.buyer, quick.reference], ["completed", USD(45000), undefined, undefined]);

  const { id: petId } = await addAnimal("Slow", { price: USD(45000) });
  await page.open("Slow");
  await page.button("Sell…").click();
  const dialog = page.getByRole("dialog");
  for (const [label, text] of Object.entries({ Price: "400", Buyer: "Ann Smith", "Phone or email": "ann@example.com", Address: "York", Reference: "R-1" })) await dialog.getByLabel(label).fill(text);
  await dialog.getByRole("button", { name: "Sell" }).click();
  await page.panel.getByText("Ann Smith").waitFor();
  await page.inspect("sold");
  const [order] = await call("GET", `store/orders?petId=${petId}`);
  assert.deepEqual([order.status, order.price, order.buyer, order.reference], ["completed", USD(40000), { name: "Ann Smith", address: "York", contact: "ann@example.com" }, "R-1"]);

  await page.open("Show the order");
  await page.panel.getByRole("heading", { name: `Order ${order.id}` }).waitFor();
  await page.panel.getByText("Ann Smith").waitFor();
  assert.deepEqual(await facts(page.panel), ["Price: $400.00", "Buyer: Ann Smith", "Contact: ann@example.com", "Address: York", "Reference: R-1"]);
  await page.inspect("order");
  await page.button("Correct…").click();
  await dialog.getByLabel("Price").fill("390");
  await dialog.getByLabel("Address").fill("");
  // Another person changes the same, and something else.
  await call("PATCH", `store/orders/${order.id}`, { price: USD(38000), reference: "R-2" });
  await page.button("Save").click();
  await dialog.getByText("Another person has changed this to “380.00 USD”. Save again to keep yours.").waitFor();
  assert.equal(await dialog.getByLabel("Reference").inputValue(), "R-2");
  await page.inspect("correct-sale");
  await page.button("Save").click();
  await page.panel.locator(".facts").getByText("$390.00").waitFor();
  assert.deepEqual(await facts(page.panel), ["Price: $390.00", "Buyer: Ann Smith", "Contact: ann@example.com", "Reference: R-2"]);

  await page.button("Erase buyer…").click();
  await page.getByRole("dialog", { name: "Erase the buyer?" }).waitFor();
  await page.inspect("erase-buyer");
  await page.button("Erase").click();
  await page.panel.getByText("Ann Smith").waitFor({ state: "detached" });
  assert.equal((await call("GET", `store/orders/${order.id}`)).buyer, undefined);
  assert.ok(!page.url().includes("Ann"));
  assert.ok(!(await page.evaluate(() => JSON.stringify([localStorage, sessionStorage]))).includes("Ann"));

  await page.open("Activity");
  await page.getByRole("listitem").filter({ hasText: `Slow: sale corrected by “counter-2”, order ${order.id}` }).first().waitFor();
  assert.deepEqual(page.problems(/status of 412/), []);
  await page.leave();
});

test("an animal is added and sold on a phone", async () => {
  const page = await open({ width: 390, height: 844, touch: true, dark: true });
  await page.live();
  const inView = async (control) => {
    const { y, height } = await control.boundingBox();
    assert.ok(y >= 0 && y + height <= 844, `${control}: ${y} ${height}`);
  };
  await page.button("Add animal").tap();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Pocket");
  await dialog.getByLabel("Price").fill("450");
  await dialog.getByLabel("Currency").selectOption("USD");
  for (const control of [dialog.getByLabel("Name"), dialog.getByLabel("Price"), dialog.getByRole("button", { name: "Add animal" })]) await inView(control);
  await page.isAccessible();
  await page.fits();
  await page.screenshot({ path: `${artefacts}/console-add-by-touch.png` });
  await dialog.getByRole("button", { name: "Add animal" }).tap();
  await page.panel.getByRole("heading", { name: "Pocket" }).waitFor();
  await page.button("Sell…").tap();
  await page.getByRole("dialog", { name: "Sell Pocket" }).waitFor();
  await dialog.getByLabel("Buyer").fill("Ann Smith");
  for (const control of [dialog.getByLabel("Price"), dialog.getByRole("button", { name: "Sell" })]) await inView(control);
  await page.isAccessible();
  await page.fits();
  await page.screenshot({ path: `${artefacts}/console-sell-by-touch.png` });
  await dialog.getByRole("button", { name: "Sell" }).tap();
  await page.panel.getByText("Ann Smith").waitFor();
  const [{ id }] = await call("GET", "pets?name=Pocket");
  const [order] = await call("GET", `store/orders?petId=${id}`);
  assert.deepEqual([order.status, order.price, order.buyer], ["completed", USD(45000), { name: "Ann Smith" }]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("an animal that another person reserves is not sold", async () => {
  const { id } = await addAnimal("Wanted");
  const page = await open();
  await page.open("Wanted");
  await page.button("Sell…").click();
  await page.getByRole("dialog").waitFor();
  await call("POST", "store/orders", { petId: id, buyer: { name: "Bert Jones" } });
  await page.getByRole("dialog").getByRole("button", { name: "Sell" }).click();
  await page.getByText(/^Another person was faster: Wanted is reserved, order \d+\.$/).waitFor();
  await page.panel.getByText("Bert Jones").waitFor();
  await page.focused("heading", "Wanted");
  assert.deepEqual(page.problems(/status of 409/), []);
  await page.leave();
});

test("other details are saved in any order and under any name", async () => {
  const { id } = await addAnimal("Paired", { metadata: { litter: "1" } });
  const page = await open();
  const patches = [];
  page.on("request", (request) => request.method() === "PATCH" && patches.push(request.postDataJSON()));
  const save = async (text) => {
    await page.edit();
    const details = page.panel.getByLabel("Other details");
    if (!(await details.isVisible())) await page.panel.getByText("Description, notes, origin and more").click();
    await details.fill(text);
    await page.button("Save changes").click();
    await page.focused("button", "Edit");
  };
  await page.open("Paired");
  await save("zebra: 1\nlitter: 1\napple: 2");
  const metadata = async () => (await call("GET", `pets?id=${id}`))[0].metadata;
  assert.deepEqual(await metadata(), { apple: "2", litter: "1", zebra: "1" });
  // Each object inherits these names. An object literal would not have the last one.
  await save("toString: 1\nconstructor: 2\n__proto__: 3");
  assert.deepEqual(Object.entries(await metadata()), [["__proto__", "3"], ["constructor", "2"], ["toString", "1"]]);
  assert.deepEqual(await facts(page.panel), ["__proto__: 3", "constructor: 2", "toString: 1"]);
  await save("constructor: 2");
  assert.deepEqual(Object.entries(await metadata()), [["constructor", "2"]]);
  // Nothing is sent if nothing has changed. Each change before took an empty patch, and its own.
  await save(" constructor: 2\n\n");
  assert.deepEqual(patches.map((patch) => Object.keys(patch).length), [0, 1, 0, 1, 0, 1]);

  // A person who changes the animal all the time.
  await page.edit();
  await page.panel.getByLabel("Name").fill("Mine");
  let round = 0;
  await page.route(`**/v1/pets/${id}`, async (route) => {
    if (route.request().headers()["if-match"]) await call("PATCH", `pets/${id}`, { location: `K${++round}` });
    await route.continue();
  });
  await page.button("Save changes").click();
  await page.panel.getByText("Others are changing this animal right now. Try again.").waitFor();
  await page.unrouteAll();
  await page.button("Save changes").click();
  await page.row("Mine").waitFor();
  assert.deepEqual(page.problems(/status of 412/), []);
  await page.leave();
});

test("each currency of the contract is offered, with the digits of the service", async () => {
  const contract = await (await fetch(`${service.address}/v1/openapi.json`)).json();
  assert.deepEqual([...DIGITS.keys()].sort(), contract.components.schemas.Currency.enum);
  const source = readFileSync("../../crates/domain/src/price.rs", "utf8");
  const codes = (name) => source.match(new RegExp(`const ${name}: &str = "([^"]*)"`))[1].match(/[A-Z]{3}/g);
  const digits = { NO_DIGITS: 0, TWO_DIGITS: 2, THREE_DIGITS: 3 };
  const all = Object.entries(digits).flatMap(([name, digits]) => codes(name).map((code) => [code, digits]));
  assert.deepEqual([...DIGITS].sort(), all.sort());
});

test("the first currency is that of the region", async () => {
  const regions = [["bg-BG", "EUR"], ["de", "EUR"], ["en-GB", "GBP"], ["eo", "USD"], ["en-US", "USD", "en-US@posix"], ["en-US", "USD", ""]];
  for (const [locale, currency, language] of regions) {
    const page = await open({ locale });
    if (language !== undefined) await page.evaluate((value) => Object.defineProperty(navigator, "language", { value }), language);
    await page.live();
    await page.keyboard.press("n");
    assert.equal(await page.getByRole("dialog").getByLabel("Currency").inputValue(), currency, locale);
    assert.deepEqual(page.problems(), []);
    await page.leave();
  }
});

test("what is exported can be imported again", async () => {
  const more = {
    breed: "=Collie", sex: "male", birthDate: "2025-02-03", color: "red", price: { amount: 45050, currency: "EUR" }, description: "a\nb", notes: "x;-1",
    location: "K", acquiredOn: "2025-04-05", source: { name: "Farm", licence: "7" }, metadata: { litter: "1", "a-b": "2" },
  };
  await addAnimal("Round trip", { ...more, microchip: "123456789" });
  const page = await open();
  await page.getByLabel("Search name").fill("round");
  await page.getByText("1 animal", { exact: true }).waitFor();
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Export").click()]);
  const text = readFileSync(await saved.path(), "utf8");
  assert.match(text, /,acquiredOn,source\.name,source\.licence,metadata\.a-b,metadata\.litter\r\n\d+,Round trip,1,Dogs,available,'=Collie,male,2025-02-03,red,123456789,450\.50,EUR,"a\nb",x;'-1,K,2025-04-05,Farm,7,2,1\r\n$/);
  assert.deepEqual(page.problems(/blob:/), []);
  await page.leave();

  const imports = await openScreen(browser, service.address, key, "import");
  await imports.getByLabel("Choose a file").setInputFiles(csv("animals.csv", text.replace(/\d+,Round trip/, ",Came back").replace("123456789", "")));
  await imports.button("Check 1 row").click();
  await imports.button("Add 1 animal").click();
  await imports.getByRole("heading", { name: "1 animal was added" }).waitFor();
  const [{ id, ...pet }] = await call("GET", "pets?name=came%20back");
  assert.deepEqual(pet, { name: "Came back", categoryId: 1, status: "available", ...more });
  await imports.button("Import another file").click();
  await imports.getByLabel("Choose a file").setInputFiles(csv("bad.csv", "name,category,price,currency\nA,Dogs,x,EUR\nB,Dogs,1,\n"));
  await imports.button("Check 2 rows").click();
  await imports.getByText("Price: “x” must be an amount such as 1450.00.").waitFor();
  await imports.getByText("Price: The currency is missing.").waitFor();
  assert.deepEqual(imports.problems(), []);
  await imports.leave();
});
