// The console: orders are opened, found and exported.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { useConsole } from "./console.mjs";

const store = useConsole({ prepare: ({ call }) => call("PUT", "categories/1", { name: "Dogs" }) });

const found = (page) => page.getByRole("table").getByRole("link").allInnerTexts();

test("an order is opened from its row, and by its address", async () => {
  const { id } = await store.order("Opened", { buyer: { name: "Ada Buyer", contact: "ada@example.org" }, price: { amount: 4500, currency: "USD" } });
  const page = await store.openScreen("orders");
  await page.row("Opened").getByText(`Order ${id} · Ada Buyer`).waitFor();
  await page.row("Opened").getByText("$45.00").click();
  await page.panel.getByRole("heading", { name: `Order ${id}` }).waitFor();
  await page.panel.getByText("ada@example.org").waitFor();
  await page.waitForURL(new RegExp(`#/orders/${id}$`));
  await page.inspect("order");
  await page.reload();
  await page.panel.getByText("ada@example.org").waitFor();
  await page.keyboard.press("Escape");
  await page.panel.waitFor({ state: "detached" });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("orders are found by number, animal, buyer and reference, whatever their status", async () => {
  const first = await store.order("Ümläut-Tiger", { buyer: { name: "Zoë Miller" } });
  const second = await store.order("Moss", { reference: "R-2026-77" });
  await store.call("POST", `store/orders/${second.id}/complete`);
  const third = await store.order("Fern");
  await store.call("POST", `store/orders/${third.id}/cancel`);
  const page = await store.openScreen("orders");
  await page.row("Ümläut-Tiger").waitFor();
  await page.keyboard.press("/");
  const search = page.getByRole("searchbox");
  const cases = [
    ["zoe mil", ["Ümläut-Tiger"]],
    ["r-2026", ["Moss"]],
    ["fern", ["Fern"]],
    ["tiger", ["Ümläut-Tiger"]],
  ];
  for (const [text, names] of cases) {
    await search.fill(text);
    await page.getByText(/^\d+ orders?$/).waitFor();
    await page.waitForFunction((names) => [...document.querySelectorAll("tbody a")].map(({ textContent }) => textContent).join() === names, names.join());
  }
  // By the number of the order, and by that of the animal.
  for (const [text, name] of [[String(second.id), "Moss"], [String(third.petId), "Fern"]]) {
    await search.fill(text);
    await page.row(name).waitFor();
    await page.waitForURL(new RegExp(`q=${text}$`));
    assert.ok((await found(page)).includes(name));
  }
  await search.fill("moss");
  await page.waitForURL(/q=moss$/);
  await page.row("Moss").waitFor();
  await page.row("Fern").waitFor({ state: "detached" });
  // A status narrows it down, and what is shown stays live.
  await page.button("Cancelled").click();
  await page.getByRole("heading", { name: "No order matches" }).waitFor();
  await page.button("Completed").click();
  await page.row("Moss").waitFor();
  await page.button("All").click();
  await page.status("Moss", "completed").waitFor();
  await store.call("POST", `store/orders/${second.id}/return`);
  await page.status("Moss", "returned").waitFor();
  await page.reload();
  await page.status("Moss", "returned").waitFor();
  assert.deepEqual(await found(page), ["Moss"]);
  await search.fill("nothing like that");
  await page.getByRole("heading", { name: "No order matches" }).waitFor();
  await page.isAccessible();
  await page.button("Show open orders").click();
  await page.row("Ümläut-Tiger").waitFor();
  assert.equal(await search.inputValue(), "");
  assert.equal(first.status, "placed");
  // A number that no order has is asked for.
  assert.deepEqual(page.problems(/status of 404/), []);
  await page.leave();
});

test("orders are exported as they are listed", async () => {
  const { id, petId, createdAt } = await store.order("=1+1", { buyer: { name: "+44 123", address: "Road 9" }, price: { amount: 4500, currency: "USD" } });
  const { updatedAt } = await store.call("POST", `store/orders/${id}/complete`);
  const page = await store.openScreen("orders");
  const save = async () => {
    const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Export").click()]);
    assert.equal(saved.suggestedFilename(), "orders.csv");
    return readFileSync(await saved.path(), "utf8");
  };
  await page.button("Completed").click();
  await page.row("=1+1").waitFor();
  const header = "\uFEFFid,status,petId,animal,price,currency,buyer.name,buyer.contact,buyer.address,reference,createdAt,updatedAt\r\n";
  const row = `${id},completed,${petId},'=1+1,45.00,USD,'+44 123,,Road 9,,${createdAt},${updatedAt}\r\n`;
  // The newest first.
  assert.ok((await save()).startsWith(header + row));
  await page.getByRole("searchbox").fill("44 road");
  await page.getByRole("heading", { name: "No order matches" }).waitFor();
  await page.getByRole("searchbox").fill("44 123");
  await page.getByText("1 order", { exact: true }).waitFor();
  assert.equal(await save(), header + row);
  assert.deepEqual(page.problems(/blob:|status of 404/), []);
  await page.leave();
});

test("a search that does not look through everything says so", async () => {
  const limits = /^There may be more: the newest 500 orders were searched, and the newest 100 of each of up to 20 animals\./;
  const { petId, id } = await store.order("Frequent");
  await store.call("POST", `store/orders/${id}/cancel`);
  const page = await store.openScreen("orders");
  const search = page.getByRole("searchbox");
  const find = async (text, foot) => {
    await search.fill(text);
    await page.locator(".more").getByText(foot).waitFor();
  };
  await find("frequent", "1 order");
  assert.equal(await page.getByText(limits).count(), 0);
  // More orders than are loaded of an animal.
  for (let at = 0; at < 100; at++) {
    const { id } = await store.call("POST", "store/orders", { petId });
    await store.call("POST", `store/orders/${id}/cancel`);
  }
  await find("nothing like that", "No order matches");
  await find("frequent", "100 orders");
  await page.getByText(limits).waitFor();
  // More animals than are looked through.
  const changes = Array.from({ length: 20 }, (_, at) => ({ create: { name: `Twin ${at}`, categoryId: 1, status: "available" } }));
  await store.order("Twin 20");
  await find("twin", "1 order");
  assert.equal(await page.getByText(limits).count(), 0);
  await store.call("POST", "pets/batch", { changes });
  await find("nothing like that", "No order matches");
  await find("twin", "No order matches");
  await page.getByText(limits).waitFor();

  // Nothing to look for, and too much.
  await find("🐶", "Type a letter or digit");
  assert.equal(await page.locator("tbody tr").count(), 0);
  await find("frequent a b c d e f g h", "No order matches");
  await page.getByText("Only the first 8 words were looked for.").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
