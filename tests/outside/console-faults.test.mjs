// The console in awkward moments: rivals, lost connections, crashes, limits, a large store.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { caller, launch, openConsole, startProxy, startReceiver } from "./console.mjs";
import { startService } from "./harness.mjs";
import { startPostgres } from "./postgres.mjs";

let browser, postgres, receiver;
const databases = {};

before(async () => {
  [browser, postgres, receiver] = await Promise.all([launch(), startPostgres(), startReceiver()]);
  for (const [name, database] of [["SQLite"], ["PostgreSQL", postgres.url]]) {
    const service = await startService({ database, args: receiver.args });
    const key = service.createKeyNamed("counter-2");
    databases[name] = { service, key, call: caller(service.address, key), proxy: await startProxy(service.address) };
  }
});

after(async () => {
  await browser?.close();
  for (const { service, proxy } of Object.values(databases)) {
    await proxy.close();
    await service.stop();
  }
  await postgres?.stop();
  receiver?.close();
});

// Browsers log what they could not load.
const LOST = /ERR_|Failed to (load|fetch)/;

for (const name of ["SQLite", "PostgreSQL"]) {
  const add = (call, name) => call("POST", "pets", { name, categoryId: 1, status: "available" });

  test(`${name}: two browsers sell the same animal, and one wins`, async () => {
    const { service, key, call } = databases[name];
    const { id } = await add(call, "Rival");
    const pages = await Promise.all([1, 2].map(() => openConsole(browser, service.address, key)));
    for (const page of pages) {
      await page.open("Rival");
      await page.button("Reserve").waitFor();
      // Both orders are on their way before one of them arrives.
      await page.route("**/v1/store/orders", async (route) => {
        if (route.request().method() === "POST") await both();
        await route.continue();
      });
    }
    let arrived = 0;
    let release;
    const released = new Promise((resolve) => (release = resolve));
    const both = () => (++arrived === 2 && release(), released);
    await Promise.all(pages.map((page) => page.button("Reserve").click()));
    const faster = (page) => page.getByText(/^Another person was faster: Rival is reserved, order \d+\.$/);
    for (const page of pages) await page.button("Complete sale").waitFor();
    await Promise.any(pages.map((page) => faster(page).waitFor()));
    const told = await Promise.all(pages.map((page) => faster(page).count()));
    const loser = pages[told.indexOf(1)];
    assert.deepEqual(told.sort(), [0, 1]);
    await loser.focused("heading", "Rival");
    assert.equal((await call("GET", `store/orders?petId=${id}`)).length, 1);
    for (const page of pages) {
      assert.deepEqual(page.problems(/status of 409/), []);
      await page.leave();
    }
  });

  test(`${name}: a cut stream is resumed, and nothing is missed`, async () => {
    const { proxy, key, call } = databases[name];
    await add(call, "Before");
    const page = await openConsole(browser, proxy.address, key);
    await page.live();
    await page.open("Before");
    await page.button("Reserve").waitFor();
    await page.stopClock();
    // Without jitter.
    await page.evaluate(() => (Math.random = () => 0));
    await proxy.close();
    // It is requested at once, and then at longer and longer intervals.
    const attempts = () => page.times("/v1/events/stream");
    await page.runUntil(async () => (await attempts()).length === 6);
    const intervals = (await attempts()).map((time, at, all) => time - all[at - 1]).slice(1);
    assert.ok(intervals[0] < 4 && intervals.at(-1) >= 5 && Math.max(...intervals) < 7, intervals.join());
    await page.getByText(/^No connection\. Showing data from \d\d seconds ago; changes are disabled until it is back\.$/).waitFor();
    assert.ok(await page.button("Add animal").isDisabled());
    assert.ok(await page.button("Reserve").isDisabled());
    await add(call, "While away");
    await proxy.reopen();
    await page.runUntil(() => page.row("While away").isVisible());
    await page.getByText(/^No connection/).waitFor({ state: "hidden" });
    assert.ok(await page.button("Reserve").isEnabled());
    assert.deepEqual(page.problems(LOST), []);
    await page.leave();
  });

  test(`${name}: a sale whose response is lost, while the service crashes, is made once`, async () => {
    const { service, proxy, key, call } = databases[name];
    const { id } = await add(call, "Once");
    const page = await openConsole(browser, proxy.address, key);
    await page.open("Once");
    await page.button("Reserve").click();
    await page.button("Complete sale").waitFor();
    proxy.dropResponses(true);
    await page.button("Complete sale").click();
    await page.getByText(/^No connection/).waitFor();
    assert.equal(await page.button("Complete sale").getAttribute("aria-busy"), "true");
    await service.restart();
    proxy.dropResponses(false);
    await page.button("Return").waitFor();
    await page.getByText("Another person was faster").waitFor({ state: "detached" });
    const orders = await call("GET", `store/orders?petId=${id}`);
    assert.deepEqual(orders.map(({ status }) => status), ["completed"]);
    const events = await call("GET", `events?subject=pets/${id}`);
    assert.equal(events.filter(({ data }) => data.status === "sold").length, 1);
    assert.deepEqual(page.problems(LOST), []);
    await page.leave();
  });

  test(`${name}: an added animal whose response is lost is added once`, async () => {
    const { proxy, key, call } = databases[name];
    const page = await openConsole(browser, proxy.address, key);
    await page.live();
    await page.keyboard.press("n");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type("Only one");
    await page.getByRole("dialog").getByRole("combobox", { name: "Category" }).selectOption("New category…");
    await page.getByRole("textbox", { name: "New category" }).fill("Ferrets");
    proxy.dropResponses(true);
    await page.keyboard.press("Enter");
    await page.getByText(/^No connection/).waitFor();
    assert.equal(await page.getByRole("dialog").getByRole("button", { name: "Add animal" }).getAttribute("aria-busy"), "true");
    proxy.dropResponses(false);
    await page.panel.getByRole("heading", { name: "Only one" }).waitFor();
    const [{ categoryId }, ...more] = await call("GET", "pets?name=only%20one");
    assert.deepEqual(more, []);
    const ferrets = (await call("GET", "categories")).filter(({ name }) => name === "Ferrets");
    assert.deepEqual(ferrets.map(({ id }) => id), [categoryId]);
    await page.leave();
  });
}

test("a hidden page closes the stream, and catches up when it is shown", async () => {
  const { service, key, call } = databases.SQLite;
  const page = await openConsole(browser, service.address, key);
  await page.live();
  const hide = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  const closed = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/events/stream"));
  await hide(true);
  await closed;
  await call("POST", "pets", { name: "Unseen", categoryId: 1 });
  assert.equal(await page.row("Unseen").count(), 0);
  await hide(false);
  await page.row("Unseen").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a busy service is asked again when it said, and a position that is gone loads everything again", async () => {
  const { proxy, key, call } = databases.SQLite;
  const { id } = await call("POST", "pets", { name: "Patience", categoryId: 1, status: "available" });
  const page = await openConsole(browser, proxy.address, key);
  await page.live();
  await page.open("Patience");
  await page.button("Reserve").waitFor();
  await page.stopClock();
  const refuse = (route, status, seconds) =>
    route.fulfill({ status, headers: seconds && { "Retry-After": String(seconds) }, json: { code: "unavailable", message: "not now", status } });

  // An order, after 503 and 429.
  const keys = [];
  await page.route("**/v1/store/orders", (route) => {
    const request = route.request();
    if (request.method() !== "POST") return route.continue();
    keys.push(request.headers()["idempotency-key"]);
    return keys.length > 2 ? route.continue() : refuse(route, ...[[503, 9], [429, 7]][keys.length - 1]);
  });
  await page.button("Reserve").click();
  await page.getByText("The service is busy. Trying again in 9 s.").waitFor();
  await page.runUntil(() => page.getByText("Too many requests. Trying again in 7 s.").isVisible());
  await page.runUntil(() => page.button("Complete sale").isVisible());
  const [first, second, third] = await page.times("/v1/store/orders");
  assert.ok(second - first >= 9 && third - second >= 7, [first, second, third].join());
  assert.equal(new Set(keys).size, 1);
  assert.equal((await call("GET", `store/orders?petId=${id}`)).length, 1);
  await page.getByText(/Trying again/).waitFor({ state: "hidden" });

  // The stream: after 503, its position is gone.
  let old, refused;
  await page.route("**/events/stream", async (route) => {
    const position = route.request().headers()["last-event-id"];
    old ??= position;
    if (position !== old) return route.continue();
    if (!refused) return (refused = true), refuse(route, 503, 15);
    await call("POST", "pets", { name: "Not in the stream", categoryId: 1 });
    return refuse(route, 410);
  });
  proxy.cut();
  await page.runUntil(() => page.row("Not in the stream").isVisible());
  const [busy, gone] = await page.times("/v1/events/stream");
  assert.ok(gone - busy >= 15, `${gone - busy}`);
  await page.runUntil(() => page.getByRole("status").getByText("live", { exact: true }).isVisible());
  await call("POST", "pets", { name: "In the next one", categoryId: 1 });
  await page.row("In the next one").waitFor();
  assert.deepEqual(page.problems(/status of (429|503|410)|ERR_/), []);
  await page.leave();
});

test("over the rate limit, it waits and says so; without the API reference, nothing links to it", async () => {
  const service = await startService({ args: ["--rate-limit", "2/2s", "--no-docs"] });
  try {
    const page = await openConsole(browser, service.address, service.createKey());
    await page.getByText(/^Too many requests\. Trying again in \d s\.$/).waitFor();
    await page.button("Add the first animal").waitFor();
    await page.live();
    await page.getByRole("button", { name: "test" }).click();
    await page.button("Sign out").waitFor();
    const reference = page.getByRole("link", { name: "API reference" });
    assert.equal(await reference.count(), 0);
    await page.button("Sign out").click();
    await page.getByLabel("API key").waitFor();
    assert.equal(await reference.count(), 0);
    await page.leave();
  } finally {
    await service.stop();
  }
});

test("100,000 animals: only what is shown is loaded", async () => {
  const service = await startService({ inMemory: true, seed: 100_000 });
  try {
    const key = service.createKey();
    const page = await openConsole(browser, service.address, key);
    await page.getByText("50 of 100,000 · scroll for more").waitFor();
    const rows = page.getByRole("table").getByRole("link");
    for (const shown of [100, 150, 200]) {
      await page.getByText(/scroll for more$/).scrollIntoViewIfNeeded();
      await rows.nth(shown - 1).waitFor();
    }
    const ids = await rows.evaluateAll((links) => links.map(({ hash }) => hash.split("/").at(-1)));
    assert.deepEqual(ids, ids.map((_, at) => String(100_000 - at)));
    // Changes of animals that are not on the page count, and nothing else.
    const call = caller(service.address, key);
    const [{ id: petId }] = await call("GET", "pets?status=available&limit=1");
    const { sold } = await call("GET", "store/inventory");
    const { id } = await call("POST", "store/orders", { petId });
    await call("POST", `store/orders/${id}/complete`);
    await page.getByRole("button", { name: new RegExp(`^${(sold + 1).toLocaleString("en")}\\s*sold$`) }).waitFor();
    assert.equal(await rows.count(), ids.length);
    await page.keyboard.press("/");
    await page.keyboard.type("b");
    // Of the name, or of the breed below it.
    const match = page.locator("a, .line").filter({ hasText: /\bb/i });
    await page.locator("tbody tr").filter({ hasNot: match }).first().waitFor({ state: "detached" });
    await rows.first().waitFor();
    assert.ok((await rows.count()) <= 100);
    await page.goto(`${service.address}/console#/animals/4711`);
    await page.reload();
    await page.panel.getByText("id 4711").waitFor();
    // Thousands of changes by others do not make the page grow.
    for (let round = 0; round < 10; round++) {
      await Promise.all(Array.from({ length: 50 }, (_, at) => call("POST", "pets", { name: `Flood ${round} ${at}`, categoryId: 1 })));
    }
    await page.getByText("of 100,500 · scroll for more").waitFor();
    assert.ok((await rows.count()) < 400);
    assert.deepEqual(page.problems(), []);
    await page.leave();
  } finally {
    await service.stop();
  }
});

test("PostgreSQL: each of the other screens", async () => {
  const { service, key, call } = databases.PostgreSQL;
  const { id: petId } = await call("POST", "pets", { name: "Tour", categoryId: 1, status: "available" });
  const { id } = await call("POST", "store/orders", { petId });
  const page = await openConsole(browser, service.address, key, { width: 390, height: 844 });
  await page.live();
  await page.open("Orders");
  await page.row("Tour").getByRole("button", { name: "Complete" }).click();
  await page.getByText("Tour is sold.").waitFor();

  await page.open("Categories");
  await page.getByRole("cell", { name: "Ferrets", exact: true }).waitFor();
  await page.keyboard.press("n");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.type("Dogs");
  await page.keyboard.press("Enter");
  await page.getByRole("cell", { name: "Dogs", exact: true }).waitFor();

  await page.open("Activity");
  const entry = (text) => page.getByRole("listitem").filter({ hasText: text }).waitFor();
  await entry(`Tour: sold by “counter-2”, order ${id}`);
  await entry("Category Dogs: named by “counter-2”");

  await page.open("Webhooks");
  await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
  await page.keyboard.press("n");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.type(receiver.url);
  await page.keyboard.press("Enter");
  await page.getByLabel("Secret").waitFor();
  await page.keyboard.press("Escape");
  await page.button("Send a test").click();
  await page.panel.getByText("Delivered: response 204").waitFor();
  await page.keyboard.press("Escape");

  await page.open("Import");
  await page.getByLabel("Cells").fill("Imported\tdogs\tsold\n");
  await page.button("Continue with these cells").click();
  await page.button("Check 1 row").click();
  await page.button("Add 1 animal").click();
  await page.getByRole("heading", { name: "1 animal was added" }).waitFor();
  await page.open("Show animals");
  await page.getByLabel("Search name").fill("imp");
  await page.getByText("1 animal", { exact: true }).waitFor();
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Export").click()]);
  const { id: dogs } = (await call("GET", "categories")).find(({ name }) => name === "Dogs");
  const { id: imported } = (await call("GET", "pets?name=Imported"))[0];
  const rows = ["id,name,categoryId,category,status", `${imported},Imported,${dogs},Dogs,sold`, ""];
  assert.equal(readFileSync(await saved.path(), "utf8"), `\uFEFF${rows.join("\r\n")}`);
  assert.deepEqual(page.problems(/blob:/), []);
  await page.leave();
});
