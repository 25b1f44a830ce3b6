// The console without a connection, and when it is back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openConsole, startProxy, useConsole } from "./console.mjs";

const prepare = async (store) => {
  await store.call("PUT", "categories/1", { name: "Dogs" });
  await store.add("Biscuit");
  await store.order("Booked");
};
const store = useConsole({ prepare });

// Browsers log what they could not load.
const LOST = /ERR_|Failed to (load|fetch)/;
const offline = (page) => page.getByText(/^No connection\. Showing data from/);

test("counts that could not be loaded appear when the connection is back", async () => {
  const page = await store.open();
  await page.live();
  await page.route("**/v1/store/inventory*", (route) => route.abort());
  await page.reload();
  await page.row("Biscuit").waitFor();
  await page.getByRole("button", { name: "– all" }).waitFor();
  await page.unrouteAll();
  await page.goOffline();
  await offline(page).waitFor();
  await page.goOnline();
  await page.getByRole("button", { name: "2 all" }).waitFor();
  await page.getByRole("button", { name: "1 pending" }).waitFor();
  assert.deepEqual(page.problems(LOST), []);
  await page.leave();
});

test("without a connection, screens show what was loaded before, and catch up", async () => {
  const proxy = await startProxy(store.service.address);
  try {
    const page = await openConsole(store.browser, proxy.address, store.key);
    await page.live();
    await page.open("Biscuit");
    await page.panel.getByText(/^Added by/).waitFor();
    for (const [screen, ready] of [["Orders", page.row("Booked")], ["Categories", page.getByRole("cell", { name: "Dogs", exact: true })], ["Activity", page.getByText("Booked: reserved")], ["People", page.getByRole("cell", { name: /^counter-2/ })], ["Animals", page.row("Biscuit")]]) {
      await page.open(screen);
      await ready.waitFor();
    }
    await proxy.close();
    await offline(page).waitFor();
    const changes = async (screen, content, add) => {
      await page.open(screen);
      await page.getByRole("heading", { name: screen, level: 1 }).waitFor();
      await content.waitFor();
      await offline(page).waitFor();
      assert.equal(await page.getByText("could not be loaded").count(), 0, screen);
      if (add) assert.ok(await page.button(add).isDisabled(), screen);
    };
    await changes("Orders", page.row("Booked"));
    await changes("Categories", page.getByRole("cell", { name: "Dogs", exact: true }), "Name a category");
    await changes("Activity", page.getByText("Booked: reserved"));
    await changes("People", page.getByRole("cell", { name: /^counter-2/ }), "Invite");
    await changes("Animals", page.row("Biscuit"), "Add animal");
    await page.getByRole("button", { name: "2 all" }).waitFor();
    await page.open("Biscuit");
    await page.panel.getByText(/^Added by/).waitFor();
    await page.isAccessible();
    // What has not been loaded before is loaded when the connection is back.
    await page.evaluate(() => (location.hash = "#/orders?status=all"));
    await page.getByText("The connection to the service was lost.").waitFor();
    // So is a screen.
    await page.evaluate(() => (location.hash = "#/webhooks"));
    await page.getByText("This part of the console was not opened before. It is loaded when the connection is back.").waitFor();
    assert.equal(await page.button("Reload").count(), 0);

    await store.order("Booked later");
    await proxy.reopen();
    await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
    await offline(page).waitFor({ state: "hidden" });
    await page.goBack();
    await page.row("Booked later").waitFor();
    await page.open("Animals");
    await page.row("Booked later").waitFor();
    await page.getByRole("button", { name: "3 all" }).waitFor();
    await page.getByRole("button", { name: "2 pending" }).waitFor();
    assert.deepEqual(page.problems(LOST), []);
    await page.leave();
  } finally {
    await proxy.close();
  }
});

test("the activity is painted again when the number of an undone batch arrives", async () => {
  const proxy = await startProxy(store.service.address);
  try {
    const creates = (size) => Array.from({ length: size }, (_, at) => ({ create: { name: `Batch ${at}`, categoryId: 1 } }));
    await store.call("POST", "pets/batch", { batchId: "offline", changes: creates(200) });
    for (let cursor; cursor !== null;) cursor = (await store.call("POST", "pets/batch/offline/undo", cursor ? { cursor } : {})).next ?? null;
    const page = await openConsole(store.browser, proxy.address, store.key);
    await page.live();
    // The batch and its undo are longer than a page: their sizes are known later.
    const entry = page.locator(".sheet.log > li").filter({ hasText: "200 animals" });
    await page.open("Import");
    await page.getByRole("heading", { name: "Import", level: 1 }).waitFor();
    const visit = (screen) => page.getByRole("navigation").getByRole("link", { name: screen, exact: true }).click();
    await visit("Activity");
    await entry.filter({ hasText: "imported" }).getByText("undone", { exact: true }).waitFor();
    await proxy.close();
    await offline(page).waitFor();
    for (const screen of ["Animals", "Orders", "Categories", "Activity"]) {
      await visit(screen);
      await page.getByRole("heading", { name: screen, level: 1 }).waitFor();
    }
    await proxy.reopen();
    await offline(page).waitFor({ state: "hidden" });
    await entry.filter({ hasText: "imported" }).getByText("undone", { exact: true }).waitFor();
    await entry.filter({ hasText: "deleted" }).getByRole("button", { name: "Undo…" }).waitFor();
    assert.deepEqual(page.problems(LOST), []);
    await page.leave();
  } finally {
    await proxy.close();
  }
});
