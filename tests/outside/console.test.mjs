// The console: what a person behind the counter does, by mouse and by keyboard.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { artefacts, caller, launch, openConsole } from "./console.mjs";
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
  await page.reload();
  await page.row("Biscuit").waitFor();
  await page.getByRole("button", { name: "counter-2" }).click();
  await page.isAccessible();
  await page.button("Sign out").click();
  await page.getByLabel("API key").waitFor();
  await page.reload();
  await page.getByLabel("API key").waitFor();
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
    test(`${look}: each task by mouse`, async () => {
      const page = await open({ ...size, dark });
      await page.button("Add animal").click();
      await page.getByRole("dialog").getByLabel("Name").fill(`Rex ${look}`);
      await page.locator("dialog [name=category]").selectOption("Rabbits");
      await page.isAccessible();
      await page.screenshot({ path: `${artefacts}/console-add-${look}.png` });
      await page.getByRole("dialog").getByRole("button", { name: "Add animal" }).click();
      await page.panel.getByRole("heading", { name: `Rex ${look}` }).waitFor();

      await page.button("Reserve").click();
      await page.getByText(/^(19|20):\d\d left$/).waitFor();
      await page.status(`Rex ${look}`).filter({ hasText: "pending" }).waitFor();
      assert.ok(await page.panel.locator("[name=status]").isDisabled());
      await page.panel.getByText("Reserved by “counter-2”").waitFor();
      await page.isAccessible();
      await page.fits();
      await page.screenshot({ path: `${artefacts}/console-sale-${look}.png` });
      await page.button("Cancel").click();
      await page.button("Reserve").click();
      await page.button("Complete sale").click();
      await page.status(`Rex ${look}`).filter({ hasText: "sold" }).waitFor();
      await page.button("Return").click();
      await page.panel.getByText("Returned by “counter-2”").waitFor();

      await page.panel.getByLabel("Name").fill(`Max ${look}`);
      await page.panel.locator("[name=category]").selectOption("Another number…");
      await page.panel.getByLabel("Number of the category").fill("-9223372036854775808");
      await page.panel.locator("[name=status]").selectOption("no status");
      await page.button("Save changes").click();
      await page.row(`Max ${look}`).getByText("no. -9223372036854775808").waitFor();
      await page.panel.getByText("Not for sale").waitFor();
      await page.panel.getByText(/^Renamed from “Rex .*”, moved from Rabbits to no. -9223372036854775808, taken off sale/).waitFor();

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
      await page.getByLabel("Search by name").fill("bis");
      await page.getByText("1 animal", { exact: true }).waitFor();
      await page.row("Biscuit").waitFor();
      await page.fits();
      await page.screenshot({ path: `${artefacts}/console-${look}.png` });
      assert.deepEqual(page.problems(), []);
      await page.leave();
    });

    // Keys do the same in the dark.
    if (dark !== (device === "phone")) continue;
    test(`${look}: each task by keyboard`, async () => {
      const page = await open({ ...size, dark });
      const { keyboard } = page;
      const focused = (name) => page.locator(":focus", { hasText: name }).waitFor();
      await page.row("Biscuit").waitFor();
      await keyboard.press("n");
      await keyboard.type(`Kim ${look}`);
      await keyboard.press("Tab");
      await keyboard.type("Dogs");
      await keyboard.press("Tab");
      await keyboard.press("Tab");
      await keyboard.press("Enter");
      await page.panel.getByRole("heading", { name: `Kim ${look}` }).waitFor();
      await focused(`Kim ${look}`);
      await keyboard.press("Tab");
      await focused("Reserve");
      // Held down, the key acts once.
      await keyboard.down("Enter");
      await focused("Complete sale");
      await keyboard.down("Enter");
      await keyboard.up("Enter");
      await focused("Complete sale");
      await keyboard.press("Enter");
      await focused("Return");
      await keyboard.press("Enter");
      await focused("Reserve");
      await keyboard.press("Tab");
      await keyboard.type(`Kit ${look}`);
      await keyboard.press("Enter");
      await page.row(`Kit ${look}`).waitFor();
      await keyboard.press("Escape");
      await page.panel.waitFor({ state: "detached" });
      await focused(`Kit ${look}`);

      await keyboard.press("/");
      await keyboard.type("kit");
      await page.getByText(/^\d animals?$/).waitFor();
      await page.row("Biscuit").waitFor({ state: "detached" });
      await keyboard.press("ArrowDown");
      await focused("Kit");
      await keyboard.press("Escape");
      await keyboard.press("/");
      await keyboard.press("Control+A");
      await keyboard.press("Delete");
      await page.row("Biscuit").waitFor();
      await keyboard.press("ArrowDown");
      await focused(`Kit ${look}`);
      await keyboard.press("ArrowDown");
      await keyboard.press("ArrowUp");
      await keyboard.press("Enter");
      await page.panel.waitFor();
      await page.button("Delete animal…").focus();
      await keyboard.press("Enter");
      await page.getByRole("dialog").waitFor();
      await keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
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
  assert.equal(await page.locator(".panel input").count(), 0);
  await page.isAccessible();
  await page.keyboard.press("n");
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("hostile names are text, and ids keep every digit", async () => {
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
  await page.panel.getByLabel("Name").fill("Still exact");
  await page.button("Save changes").click();
  await page.row("Still exact").getByText("no. 9007199254740993").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("what others change appears, without losing what is typed", async () => {
  const { id } = await addAnimal("Nova");
  const page = await open();
  await page.live();
  await page.open("Nova");
  await page.panel.getByLabel("Name").fill("Nova the dog");
  await call("PATCH", `pets/${id}`, { status: "sold" });
  await page.status("Nova").filter({ hasText: "sold" }).waitFor();
  await page.panel.getByText("Marked as sold, without an order").waitFor();
  assert.equal(await page.panel.getByLabel("Name").inputValue(), "Nova the dog");
  assert.equal(await page.panel.locator("[name=status]").inputValue(), "sold");
  const counts = page.locator(".card b");
  const total = Number(await counts.first().innerText());
  await addAnimal("Newcomer");
  await page.row("Newcomer").waitFor();
  await counts.first().filter({ hasText: String(total + 1) }).waitFor();
  await page.button("Save changes").click();
  await page.row("Nova the dog").waitFor();
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
