// The console: what a person behind the counter does, by mouse and by keyboard.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, afterEach, before, test } from "node:test";
import { artefacts, caller, closePages, launch, openConsole } from "./console.mjs";
import { startService } from "./harness.mjs";

let service, browser, key, call;

before(async () => {
  service = await startService({ inMemory: true, args: ["--reserve-for", "20m"] });
  browser = await launch();
  key = service.createKeyNamed("counter-2");
  call = caller(service.address, key);
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

afterEach(closePages(() => browser));

const open = (options, secret = key) => openConsole(browser, service.address, secret, options);
const addAnimal = (name, more) => call("POST", "pets", { name, categoryId: 1, status: "available", ...more });

test("types are checked", () => {
  execFileSync("node_modules/.bin/tsc", ["--project", "console.tsconfig.json"], { stdio: "inherit" });
});

test("an empty store offers a first animal, or examples", async () => {
  const page = await open();
  await page.getByRole("heading", { name: "No animals yet" }).waitFor();
  await page.isAccessible();
  await page.screenshot({ path: `${artefacts}/console-empty.png` });
  await page.button("Load examples").click();
  await page.row("Clementine").waitFor();
  await page.getByText("10 animals", { exact: true }).waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("sign in and out", async () => {
  const page = await open({}, null);
  await page.isAccessible();
  await page.keyboard.type("psk_wrong");
  await page.keyboard.press("Enter");
  await page.getByText("This API key is not valid.").waitFor();
  await page.keyboard.type(key);
  await page.keyboard.press("Enter");
  await page.row("Biscuit").waitFor();
  await page.live();
  // Other screens are loaded when they are opened.
  const loaded = await page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => name));
  assert.deepEqual(loaded.filter((name) => /\/screens\/(?!animals?\.js$)/.test(name)), []);
  await page.reload();
  await page.row("Biscuit").waitFor();
  await page.getByRole("button", { name: "counter-2" }).click();
  await page.isAccessible();
  await page.button("Sign out").click();
  await page.getByLabel("API key").waitFor();
  await page.reload();
  await page.getByLabel("API key").waitFor();
  // What the address names is kept, whatever is pressed before.
  await page.goto(`${service.address}/console#/animals/1`);
  await page.reload();
  await page.keyboard.press("Escape");
  await page.getByLabel("API key").fill(key);
  await page.keyboard.press("Enter");
  await page.panel.getByText(/· id 1( ·|$)/).waitFor();
  // A link with a key signs in, and the key does not stay in the address.
  await page.goto(`${service.address}/console#key=${key}`);
  await page.row("Biscuit").waitFor();
  assert.ok(!page.url().includes("psk_"));
  assert.deepEqual(page.problems(/status of 401/), []);
  await page.leave();
});

test("a key that is revoked is signed out", async () => {
  const page = await open({}, service.createKeyNamed("short-lived"));
  await page.live();
  const keys = await call("GET", "keys?limit=100");
  service.revokeKey(keys.find(({ name }) => name === "short-lived").id);
  await page.getByText("You were signed out").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.leave();
});

for (const [device, size] of Object.entries({ desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } })) {
  for (const dark of [false, true]) {
    const look = `${device}-${dark ? "dark" : "light"}`;
    test(`${look}: each task by mouse, and by keyboard`, async () => {
      const page = await open({ ...size, dark });
      await page.button("Add animal").click();
      await page.getByRole("dialog").getByLabel("Name").fill(`Rex ${look}`);
      await page.getByRole("dialog").getByRole("combobox", { name: "Category" }).selectOption("Rabbits");
      await page.isAccessible();
      await page.screenshot({ path: `${artefacts}/console-add-${look}.png` });
      await page.getByRole("dialog").getByRole("button", { name: "Add animal" }).click();
      await page.panel.getByRole("heading", { name: `Rex ${look}` }).waitFor();

      await page.button("Reserve").click();
      await page.getByText(/^(19|20):\d\d left$/).waitFor();
      await page.status(`Rex ${look}`, "pending").waitFor();
      await page.edit();
      assert.ok(await page.panel.getByRole("combobox", { name: "Status" }).isDisabled());
      await page.button("Discard").click();
      await page.panel.getByText("Reserved by “counter-2”").waitFor();
      await page.isAccessible();
      await page.fits();
      await page.screenshot({ path: `${artefacts}/console-sale-${look}.png` });
      await page.button("Cancel").click();
      await page.button("Reserve").click();
      await page.button("Complete sale").click();
      await page.status(`Rex ${look}`, "sold").waitFor();
      await page.button("Return").click();
      await page.panel.getByText("Returned by “counter-2”").waitFor();
      await page.status(`Rex ${look}`, "available").waitFor();

      await page.edit();
      await page.panel.getByLabel("Name").fill(`Max ${look}`);
      await page.panel.getByRole("combobox", { name: "Category" }).selectOption("Another number…");
      await page.panel.getByLabel("Number of the category").fill("-9223372036854775808");
      await page.panel.getByRole("combobox", { name: "Status" }).selectOption("no status");
      await page.button("Save changes").click();
      await page.row(`Max ${look}`).getByText("no. -9223372036854775808").waitFor();
      await page.panel.getByText("Not for sale").waitFor();
      const entry = page.panel.getByRole("listitem").filter({ hasText: "Taken off sale by “counter-2”" });
      await entry.getByText(/^Name Rex .* → Max /).waitFor();
      await entry.getByText("Category Rabbits → no. -9223372036854775808").waitFor();

      await page.button("Delete animal…").click();
      await page.getByRole("dialog", { name: `Delete Max ${look}?` }).waitFor();
      await page.isAccessible();
      await page.button("Delete").click();
      await page.getByText(`Max ${look} was deleted.`).waitFor();
      await page.panel.waitFor({ state: "detached" });
      assert.equal(await page.row(`Max ${look}`).count(), 0);

      await page.getByRole("button", { name: /sold$/ }).click();
      await page.getByRole("heading", { name: "No animal matches" }).waitFor();
      await page.button("Show all animals").click();
      await page.getByLabel("Category").selectOption("Cats");
      await page.row("Juniper").waitFor();
      await page.row("Biscuit").waitFor({ state: "detached" });
      await page.getByLabel("Category").selectOption("All categories");
      await page.getByLabel("Search name").fill("bis");
      await page.getByText("1 animal", { exact: true }).waitFor();
      await page.row("Biscuit").waitFor();
      await page.fits();
      await page.screenshot({ path: `${artefacts}/console-${look}.png` });

      const { keyboard } = page;
      await keyboard.press("Control+A");
      await keyboard.press("Delete");
      await page.row("Clementine").waitFor();
      await keyboard.press("Escape");
      await keyboard.press("n");
      await page.getByRole("dialog").waitFor();
      await keyboard.type(`Kim ${look}`);
      await keyboard.press("Tab");
      await keyboard.type("Dogs");
      await keyboard.press("Tab");
      await keyboard.press("Tab");
      await keyboard.press("Enter");
      await page.panel.getByRole("heading", { name: `Kim ${look}` }).waitFor();
      await page.focused("heading", `Kim ${look}`);
      await keyboard.press("Tab");
      await page.focused("button", "Reserve");
      // Held down, the key acts once.
      await keyboard.down("Enter");
      await page.focused("heading", `Kim ${look}`);
      await keyboard.down("Enter");
      await keyboard.up("Enter");
      await keyboard.press("Tab");
      await page.focused("button", "Complete sale");
      await keyboard.press("Enter");
      await page.focused("heading", `Kim ${look}`);
      await keyboard.press("Tab");
      await page.focused("button", "Return");
      await keyboard.press("Enter");
      await page.focused("heading", `Kim ${look}`);
      await keyboard.press("e");
      await keyboard.type(`Kit ${look}`);
      await keyboard.press("Enter");
      await page.row(`Kit ${look}`).waitFor();
      await page.focused("button", "Edit");
      await keyboard.press("Escape");
      await page.panel.waitFor({ state: "detached" });
      await page.focused("link", `Kit ${look}`);

      await keyboard.press("/");
      await keyboard.type(`kit ${look}`);
      await page.getByText("1 animal", { exact: true }).waitFor();
      await keyboard.press("ArrowDown");
      await page.focused("link", `Kit ${look}`);
      await keyboard.press("Escape");
      await keyboard.press("/");
      await keyboard.press("Control+A");
      await keyboard.press("Delete");
      await page.row("Biscuit").waitFor();
      await keyboard.press("ArrowDown");
      await page.focused("link", `Kit ${look}`);
      await keyboard.press("ArrowDown");
      await keyboard.press("ArrowUp");
      await keyboard.press("Enter");
      await page.panel.waitFor();
      await page.button("Delete animal…").focus();
      await keyboard.press("Enter");
      await page.getByRole("dialog").waitFor();
      await keyboard.press("Escape");
      // A closed dialog loses its role before it is removed.
      await page.locator("dialog").waitFor({ state: "detached" });
      await page.button("Delete animal…").focus();
      await keyboard.press("Enter");
      await keyboard.press("Shift+Tab");
      await keyboard.press("Enter");
      await page.row(`Kit ${look}`).waitFor({ state: "detached" });
      assert.deepEqual(page.problems(), []);
      await page.leave();
    });
  }
}

test("a read-only key looks, and says so", async () => {
  const page = await open({}, service.createKey("--scope", "pets:read", "--scope", "orders:read"));
  await page.getByText("read-only key").waitFor();
  await page.open("Biscuit");
  await page.panel.getByText("Added by “counter-2”").waitFor();
  assert.equal(await page.getByRole("button", { name: /^(Add|Reserve|Save|Delete)/ }).count(), 0);
  assert.equal(await page.panel.getByRole("textbox").count(), 0);
  await page.isAccessible();
  await page.keyboard.press("n");
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("hostile names are text, ids keep every digit, and searches ignore case", async () => {
  const name = `<img src=x onerror="alert(1)">`;
  await call("PUT", "categories/66", { name: "<script>alert(2)</script>" });
  await addAnimal(name, { categoryId: 66 });
  await call("POST", "pets", '{"name":"Exact","categoryId":9007199254740993}');
  const page = await open({}, service.createKeyNamed("<b>key</b>"));
  await page.row("Exact").getByText("no. 9007199254740993").waitFor();
  await page.open(name);
  await page.panel.getByText("<script>alert(2)</script> · id").waitFor();
  assert.equal(await page.locator("main img, main script, main b b").count(), 0);
  await page.open("Exact");
  await page.edit();
  await page.panel.getByLabel("Name").fill("Still exact");
  await page.button("Save changes").click();
  await page.row("Still exact").getByText("no. 9007199254740993").waitFor();

  for (const name of ["Straße", "ÉCLAIR", "İpek", "100% Dog", "100 Dogs", "Ipek"]) await addAnimal(name);
  const found = page.getByRole("table").getByRole("link");
  for (const [text, names] of [["e\u0301cl", ["ÉCLAIR"]], ["ipe", ["Ipek", "İpek"]], ["dog 100%", ["100 Dogs", "100% Dog"]], ["STRASSE", ["Straße"]]]) {
    await page.getByLabel("Search name").fill(text);
    await page.getByText(names.length > 1 ? "2 animals" : "1 animal", { exact: true }).waitFor();
    await page.row(names[0]).waitFor();
    assert.deepEqual(await found.allInnerTexts(), names);
  }
  // Also among what is added now.
  await addAnimal("Strand");
  await addAnimal("Straßenhund");
  await page.row("Straßenhund").waitFor();
  assert.deepEqual((await found.allInnerTexts()).sort(), ["Straße", "Straßenhund"]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("what others change appears, without losing what is typed", async () => {
  const { id } = await addAnimal("Nova");
  const page = await open();
  await page.live();
  await page.open("Nova");
  await page.edit();
  await page.panel.getByLabel("Name").fill("Nova the dog");
  await call("PATCH", `pets/${id}`, { status: "sold" });
  await page.status("Nova", "sold").waitFor();
  await page.panel.getByText("Marked as sold, without an order").waitFor();
  assert.equal(await page.panel.getByLabel("Name").inputValue(), "Nova the dog");
  assert.equal(await page.panel.getByRole("combobox", { name: "Status" }).inputValue(), "sold");
  const all = page.getByRole("button", { name: /all$/ });
  const total = parseInt(await all.innerText());
  await addAnimal("Newcomer");
  await page.row("Newcomer").waitFor();
  await all.filter({ hasText: String(total + 1) }).waitFor();
  await page.panel.getByRole("combobox", { name: "Category" }).selectOption("Another number…");
  await page.keyboard.type("-");
  await call("PATCH", `pets/${id}`, { location: "Kennel 4" });
  await page.row("Nova").getByTitle("Kennel 4").waitFor();
  await page.keyboard.type("7");
  await page.button("Save changes").click();
  await page.row("Nova the dog").getByText("no. -7").waitFor();

  // Nor the focus.
  await page.button("Delete animal…").focus();
  await call("PATCH", `pets/${id}`, { status: "available" });
  await page.panel.getByText(/^Returned by/).waitFor();
  await page.focused("button", "Delete animal…");
  await page.getByLabel("Search name").fill("nov");
  await page.getByText("1 animal", { exact: true }).waitFor();
  const release = await page.hold(/pets\?.*(name|q)=nova/);
  await page.getByLabel("Search name").fill("nova");
  await page.keyboard.press("ArrowDown");
  await page.focused("link", "Nova the dog");
  await release();
  await page.getByText("1 animal", { exact: true }).waitFor();
  await page.focused("link", "Nova the dog");

  await call("DELETE", `pets/${id}`);
  await page.getByText("Nova the dog was deleted.").waitFor();
  await page.row("Nova the dog").waitFor({ state: "detached" });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("an edit conflict shows both versions", async () => {
  const page = await open();
  const edit = async (name) => {
    const { id } = await addAnimal(name);
    await page.open(name);
    await page.panel.getByRole("heading", { name }).waitFor();
    await page.edit();
    await page.panel.getByLabel("Name").fill(`${name} mine`);
    await call("PATCH", `pets/${id}`, { name: `${name} theirs` });
    await page.panel.getByRole("heading", { name: `${name} theirs` }).waitFor();
    await page.button("Save changes").click();
    await page.button("Save mine").waitFor();
    const versions = page.panel.getByRole("row", { name: "Name" }).getByRole("cell");
    assert.deepEqual(await versions.allInnerTexts(), [`${name} theirs`, `${name} mine`]);
  };
  await edit("Ada");
  await page.isAccessible();
  await page.button("Save mine").click();
  await page.row("Ada mine").waitFor();
  await edit("Bob");
  await page.button("Take theirs").click();
  assert.equal(await page.panel.getByLabel("Name").inputValue(), "Bob theirs");
  await page.row("Bob theirs").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("an order that is completed while it is loaded keeps the focus", async () => {
  const { id } = await addAnimal("Late");
  const page = await open();
  await page.route("**/v1/events/stream*", () => {});
  await page.reload();
  const release = await page.hold(new RegExp(`petId=${id}&`));
  await page.open("Late");
  await page.button("Reserve").click();
  await page.focused("heading", "Late");
  await page.button("Complete sale").focus();
  let complete, respond;
  const completed = new Promise((resolve) => (complete = resolve));
  const responded = new Promise((resolve) => (respond = resolve));
  await page.route("**/complete", async (route) => {
    const response = await route.fetch();
    complete();
    await responded;
    await route.fulfill({ response });
  });
  await page.keyboard.press("Enter");
  await completed;
  await release();
  await page.button("Return").waitFor();
  await page.focused("heading", "Late");
  respond();
  await page.status("Late", "sold").waitFor();
  await page.focused("heading", "Late");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("what arrives late does not disturb the animal that is shown", async () => {
  const [first, second] = [await addAnimal("First"), await addAnimal("Second")];
  const { id } = await call("POST", "store/orders", { petId: first.id });
  const page = await open();
  await page.live();
  const secondIsShown = async () => {
    await page.panel.getByRole("heading", { name: "Second" }).waitFor();
    await page.panel.getByText("Added by “counter-2”").waitFor();
    await page.button("Reserve").waitFor();
    assert.equal(await page.panel.count(), 1);
  };
  const detailsOf = ({ id }) => [new RegExp(`petId=${id}&`), new RegExp(`subject=pets/${id}&`)];
  let release = await page.hold(...detailsOf(second));
  await page.open("Second");
  await page.button("Reserve").focus();
  await release();
  await page.panel.getByText("Added by “counter-2”").waitFor();
  await page.focused("button", "Reserve");

  const details = detailsOf(first);
  release = await page.hold(...details);
  await page.open("First");
  await page.panel.getByRole("heading", { name: "First" }).waitFor();
  await page.open("Second");
  await release();
  await secondIsShown();

  // Closed while it loads.
  release = await page.hold(...details);
  await page.open("First");
  await page.panel.getByRole("heading", { name: "First" }).waitFor();
  await page.keyboard.press("Escape");
  await release();
  await page.focused("link", "First");
  assert.equal(await page.panel.count(), 0);

  // From another screen, the animal itself is loaded.
  const openLate = async () => {
    await page.open("Orders");
    await page.row("First").getByRole("button", { name: "Complete" }).waitFor();
    const animal = new RegExp(`/pets\\?id=${first.id}$`);
    const requested = page.waitForRequest(animal);
    release = await page.hold(animal);
    // The list has it, too.
    const releaseList = await page.hold(/\/pets\?limit=50/);
    await page.open("First");
    await requested;
    await releaseList();
  };
  await openLate();
  await page.keyboard.press("Escape");
  await page.waitForURL(/#\/animals$/);
  await release();
  await page.row("First").waitFor();
  assert.equal(await page.panel.count(), 0);
  await openLate();
  await page.open("Second");
  await release();
  await secondIsShown();

  // The names of categories.
  await call("PUT", "categories/1", { name: "Dogs" });
  release = await page.hold("**/v1/categories?*");
  await page.reload();
  await page.panel.getByText(/^no\. 1 · id/).waitFor();
  await page.keyboard.press("n");
  await page.getByRole("dialog").waitFor();
  await release();
  await page.getByRole("dialog").getByRole("combobox", { name: "Category" }).selectOption("Dogs");
  await page.keyboard.press("Escape");
  await page.button("Discard").click();
  await page.panel.getByText(/^Dogs · id/).waitFor();
  await page.edit();
  await page.panel.getByRole("combobox", { name: "Category" }).selectOption("Dogs");

  // A change that could not be saved is not lost silently.
  await page.open("First");
  await page.edit();
  await page.panel.getByLabel("Name").fill("First of mine");
  release = await page.hold(`**/v1/pets/${first.id}`);
  await page.button("Save changes").click();
  await page.open("Second");
  await call("PATCH", `pets/${first.id}`, { name: "First of theirs" });
  await page.row("First of theirs").waitFor();
  await release();
  await page.getByText("First of theirs was not saved: it was changed while you were editing it.").waitFor();
  await secondIsShown();

  await call("POST", `store/orders/${id}/cancel`);
  await page.open("First of theirs");
  await page.button("Delete animal…").click();
  release = await page.hold(`**/v1/pets/${first.id}`);
  await page.button("Delete").click();
  await page.open("Second");
  await release();
  await page.getByText("First of theirs was deleted.").waitFor();
  await page.row("First of theirs").waitFor({ state: "detached" });
  await secondIsShown();
  assert.ok(page.url().endsWith(`#/animals/${second.id}`));
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
