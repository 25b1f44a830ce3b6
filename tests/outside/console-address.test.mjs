// The console: what the address says, and what it keeps.

import assert from "node:assert/strict";
import { test } from "node:test";
import { useConsole } from "./console.mjs";

const prepare = async (store) => {
  for (const [id, name] of [[1, "Dogs"], [2, "Cats"]]) await store.call("PUT", `categories/${id}`, { name });
  await store.add("Biscuit");
  await store.add("Bramble", { categoryId: 2 });
  await store.add("Zed", { status: "sold" });
  await store.order("Booked");
};
const store = useConsole({ prepare });

const hashOf = (page) => new URL(page.url()).hash;

test("filters and search are in the address, kept by a reload and by Back", async () => {
  const page = await store.open();
  await page.live();
  await page.getByRole("button", { name: /available$/ }).click();
  await page.row("Zed").waitFor({ state: "detached" });
  await page.getByLabel("Category").selectOption("Dogs");
  await page.row("Bramble").waitFor({ state: "detached" });
  await page.getByLabel("Search name").fill("b");
  await page.waitForURL(/q=b$/);
  // Further typing makes no further entry of the history.
  await page.getByLabel("Search name").fill("bis");
  await page.waitForURL(/#\/animals\?status=available&categoryId=1&q=bis$/);
  await page.getByText("1 animal", { exact: true }).waitFor();
  assert.equal(await page.title(), "Animals · available · Dogs · “bis” · Petstore");

  const filtered = async () => {
    await page.row("Biscuit").waitFor();
    await page.row("Zed").waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("Search name").inputValue(), "bis");
    assert.equal(await page.getByRole("region", { name: "List" }).getByLabel("Category").inputValue(), "1");
    assert.equal(await page.getByRole("button", { name: /available$/ }).getAttribute("aria-pressed"), "true");
  };
  await page.reload();
  await filtered();
  // Also with an animal beside the list, and without it again.
  await page.open("Biscuit");
  await page.panel.getByRole("heading", { name: "Biscuit" }).waitFor();
  assert.match(hashOf(page), /^#\/animals\/\d+\?status=available&categoryId=1&q=bis$/);
  await page.reload();
  await page.panel.getByRole("heading", { name: "Biscuit" }).waitFor();
  await filtered();
  await page.getByRole("link", { name: "Close" }).click();
  await page.panel.waitFor({ state: "detached" });
  await filtered();

  await page.open("Orders");
  await page.row("Booked").waitFor();
  await page.goBack();
  await filtered();
  for (const [address, gone, shown] of [[/\/\d+\?.*q=bis$/, "Zed", "Biscuit"], [/animals\?.*q=bis$/, "Zed", "Biscuit"], [/categoryId=1$/, "Bramble", "Biscuit"], [/#\/animals\?status=available$/, "Zed", "Bramble"]]) {
    await page.goBack();
    await page.waitForURL(address);
    await page.row(shown).waitFor();
    await page.row(gone).waitFor({ state: "detached" });
  }
  assert.equal(await page.getByLabel("Search name").inputValue(), "");
  assert.equal(await page.getByRole("region", { name: "List" }).getByLabel("Category").inputValue(), "");
  // The link of the screen shows everything.
  await page.open("Animals");
  await page.row("Zed").waitFor();
  assert.equal(hashOf(page), "#/animals");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("counts and changes of others follow the category and the search", async () => {
  const page = await store.open();
  await page.live();
  const counts = async (...texts) => {
    for (const text of texts) await page.getByRole("button", { name: text, exact: true }).waitFor();
  };
  await counts("4 all", "2 available", "1 pending", "1 sold");
  await page.getByLabel("Category").selectOption("Cats");
  await counts("1 all", "1 available", "0 pending", "0 sold");
  await page.getByLabel("Category").selectOption("All categories");
  await counts("4 all");
  await page.getByLabel("Search name").fill("z");
  await counts("1 all", "0 available", "1 sold");
  // What others add counts if the search finds it, by any word of the name or breed, and is listed.
  await store.add("Crazed");
  await store.add("Lady Żaba");
  await store.add("Tinker", { breed: "Polish Zwergschnauzer" });
  await page.row("Tinker").waitFor();
  assert.deepEqual(await page.getByRole("table").getByRole("link").allInnerTexts(), ["Tinker", "Lady Żaba", "Zed"]);
  await counts("3 all", "2 available", "1 sold");
  await page.getByRole("button", { name: "1 sold" }).click();
  await page.row("Tinker").waitFor({ state: "detached" });
  await counts("3 all", "2 available", "1 sold");
  // Signs without a letter find nothing.
  await page.getByRole("button", { name: "3 all" }).click();
  await page.getByLabel("Search name").fill("*");
  await page.getByRole("heading", { name: "Type a letter or digit" }).waitFor();
  await counts("– all");
  await page.getByRole("button", { name: "Show all animals" }).click();
  await counts("7 all");
  await page.row("Crazed").waitFor();

  // While it is counted, the numbers are not those of other filters.
  const release = await page.hold("**/v1/store/inventory?q=crazed");
  await page.getByLabel("Search name").fill("crazed");
  await page.getByText("1 animal", { exact: true }).waitFor();
  await counts("– all", "– sold");
  await release();
  await counts("1 all");

  await page.route("**/v1/store/inventory?*", (route) => route.fulfill({ json: { available: 640, pending: 20, sold: 340, total: 1000, atLeast: true } }));
  await page.getByLabel("Search name").fill("zed");
  await counts("1,000+ all", "640+ available");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a list with filters that few animals meet is not searched without end", async () => {
  const page = await store.open();
  await page.live();
  let [requests, held] = [0, Promise.resolve()];
  // The service examines as many animals as are worth a page, and says where it stopped.
  await page.route("**/v1/pets?*categoryId=9*", async (route) => {
    const at = requests++;
    if (at === 18) await held;
    const next = at < 30 ? { link: `</v1/pets?limit=50&sort=desc&categoryId=9&after=${at}>; rel="next"` } : {};
    return route.fulfill({ headers: next, json: at % 10 === 3 ? [{ id: 5000 - at, name: `Rare ${at}`, categoryId: 9 }] : [] });
  });
  await page.evaluate(() => (location.hash = "#/animals?categoryId=9"));
  await page.getByText("1 match so far. The rest of the list was not searched.").waitFor();
  await page.inspect("sparse");
  assert.equal(requests, 8);
  await page.button("Look further").click();
  await page.getByText("2 matches so far.").waitFor();
  assert.equal(requests, 16);
  let release;
  held = new Promise((resolve) => (release = resolve));
  await page.button("Look further").click();
  await page.getByText("Searching… 2 matches so far").waitFor();
  release();
  await page.getByText("3 matches so far.").waitFor();
  await page.button("Look further").click();
  await page.getByText("3 animals", { exact: true }).waitFor();
  assert.equal(requests, 31);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("filters of orders and of the activity are in the address", async () => {
  const page = await store.openScreen("orders");
  await page.button("All").click();
  await page.waitForURL(/#\/orders\?status=all$/);
  await page.row("Booked").waitFor();
  await page.reload();
  await page.row("Booked").waitFor();
  assert.equal(await page.button("All").getAttribute("aria-pressed"), "true");
  await page.goBack();
  await page.waitForURL(/#\/orders$/);
  assert.equal(await page.button("Open").getAttribute("aria-pressed"), "true");

  await page.open("Activity");
  await page.button("Categories").click();
  await page.waitForURL(/#\/activity\?types=categories$/);
  await page.getByText("Category Dogs").waitFor();
  await page.reload();
  await page.getByText("Category Dogs").waitFor();
  await page.getByText("Biscuit").waitFor({ state: "detached" });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("odd addresses show the list, or that there is no such page", async () => {
  const page = await store.open();
  await page.live();
  const visit = (hash) => page.evaluate((hash) => (location.hash = hash), hash);
  for (const hash of ["#/constructor", "#/__proto__", "#/toString/1", "#/pets/abc", "#//", "#/animals//", "#animals", "#/%E0%A4%A", "#/hasOwnProperty?x=1"]) {
    await visit("#/categories");
    await page.getByRole("heading", { name: "Categories", level: 1 }).waitFor();
    await visit(hash);
    if (hash === "#/animals//") await page.row("Biscuit").waitFor();
    else await page.getByRole("heading", { name: "Page not found", level: 2 }).waitFor();
    assert.equal(await page.getByRole("navigation").getByRole("link").count() > 3, true, hash);
  }
  await page.reload();
  await page.getByRole("heading", { name: "Page not found", level: 2 }).waitFor();
  await page.inspect("not-found");
  await page.getByRole("link", { name: "Show animals" }).click();
  await page.row("Biscuit").waitFor();
  for (const [hash, text] of [["#/animals/abc", "There is no animal abc."], ["#/animals/99999999999999999999", "There is no animal 99999999999999999999."], ["#/animals/4711", "There is no animal 4711."], ["#/animals/-1", "There is no animal -1."]]) {
    await visit(hash);
    await page.getByText(text).first().waitFor();
    await page.row("Biscuit").waitFor();
    await page.waitForURL(/#\/animals$/);
  }
  await visit("#/animals?status=constructor&categoryId=x&q=&__proto__=1");
  await page.row("Zed").waitFor();
  await visit("#/orders/4711");
  await page.panel.getByText("There is no such order").waitFor();
  await visit("#/orders/x?status=toString");
  await page.getByText("There is no order x.").waitFor();
  await page.row("Booked").waitFor();
  assert.deepEqual(page.problems(/status of 404/), []);
  await page.leave();
});

test("a page that the key does not allow says so", async () => {
  const page = await store.open({}, store.service.createKeyNamed("reader", "--scope", "pets:read"));
  await page.row("Biscuit").waitFor();
  await page.evaluate(() => (location.hash = "#/people"));
  await page.getByText("Your access does not include this page.").waitFor();
  await page.isAccessible();
  await page.getByRole("link", { name: "Show animals" }).click();
  await page.row("Biscuit").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
