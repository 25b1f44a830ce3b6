// The console in awkward moments: rivals, lost connections, crashes, limits, a large store.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { caller, launch, openConsole, startProxy } from "./console.mjs";
import { startService } from "./harness.mjs";
import { startPostgres } from "./postgres.mjs";

let browser, postgres;
const databases = {};

before(async () => {
  [browser, postgres] = await Promise.all([launch(), startPostgres()]);
  for (const [name, options] of [["SQLite", {}], ["PostgreSQL", { database: postgres.url }]]) {
    const service = await startService(options);
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
    const faster = (page) => page.getByText(/^Somebody was faster: Rival is reserved, order \d+\.$/);
    for (const page of pages) await page.button("Complete sale").waitFor();
    await Promise.any(pages.map((page) => faster(page).waitFor()));
    const told = await Promise.all(pages.map((page) => faster(page).count()));
    const loser = pages[told.indexOf(1)];
    assert.deepEqual(told.sort(), [0, 1]);
    await loser.locator("h2:focus").waitFor();
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
    await proxy.close();
    await page.getByText(/^No connection\. Showing data from .*; changes are disabled until it is back\.$/).waitFor();
    assert.ok(await page.button("Add animal").isDisabled());
    assert.ok(await page.button("Reserve").isDisabled());
    await page.isAccessible();
    await add(call, "While away");
    await proxy.reopen();
    await page.row("While away").waitFor();
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
    await page.getByText("Somebody was faster").waitFor({ state: "detached" });
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
    await page.keyboard.type("Only one");
    await page.locator("dialog [name=category]").selectOption("Another number…");
    await page.locator("dialog [name=number]").fill("5");
    proxy.dropResponses(true);
    await page.keyboard.press("Enter");
    await page.locator("dialog [aria-busy]").waitFor();
    await page.getByText(/^No connection/).waitFor();
    proxy.dropResponses(false);
    await page.panel.getByRole("heading", { name: "Only one" }).waitFor();
    assert.equal((await call("GET", "pets?name=only%20one")).length, 1);
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

test("a position that is gone loads everything again", async () => {
  const { proxy, key, call } = databases.SQLite;
  const page = await openConsole(browser, proxy.address, key);
  await page.live();
  const gone = { code: "cursor_expired", message: "the events after this position are no longer kept", status: 410 };
  let old;
  await page.route("**/events/stream", (route) => {
    const position = route.request().headers()["last-event-id"];
    old ??= position;
    return position === old ? route.fulfill({ status: 410, json: gone }) : route.continue();
  });
  await proxy.close();
  await call("POST", "pets", { name: "Not in the stream", categoryId: 1 });
  const loaded = page.waitForResponse((response) => response.url().includes("/v1/pets?") && response.ok());
  await proxy.reopen();
  await loaded;
  await page.row("Not in the stream").waitFor();
  assert.ok(old);
  await call("POST", "pets", { name: "In the next one", categoryId: 1 });
  await page.row("In the next one").waitFor();
  await page.leave();
});

test("over the rate limit, it waits and says so", async () => {
  const service = await startService({ args: ["--rate-limit", "5/3s"] });
  try {
    const page = await openConsole(browser, service.address, service.createKey());
    await page.getByText(/^Too many requests\. Trying again in \d s\.$/).waitFor();
    await page.button("Add the first animal").waitFor();
    await page.live();
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
    for (const shown of [100, 150, 200]) {
      await page.locator(".more").scrollIntoViewIfNeeded();
      await page.locator(`tbody tr:nth-child(${shown})`).waitFor();
    }
    const ids = await page.locator("tbody tr .number").allInnerTexts();
    assert.deepEqual(ids, ids.map((_, at) => String(100_000 - at)));
    await page.keyboard.press("/");
    await page.keyboard.type("b");
    await page.locator("tbody tr:first-child td:first-child", { hasText: /^b/i }).waitFor();
    assert.ok((await page.locator("tbody tr").count()) <= 100);
    await page.goto(`${service.address}/console#/animals/4711`);
    await page.reload();
    await page.panel.getByText("id 4711").waitFor();
    // Thousands of changes by others do not make the page grow.
    const call = caller(service.address, key);
    for (let round = 0; round < 10; round++) {
      await Promise.all(Array.from({ length: 50 }, (_, at) => call("POST", "pets", { name: `Flood ${round} ${at}`, categoryId: 1 })));
    }
    await page.getByText("of 100,500 · scroll for more").waitFor();
    assert.ok((await page.locator("tbody tr").count()) < 400);
    assert.deepEqual(page.problems(), []);
    await page.leave();
  } finally {
    await service.stop();
  }
});
