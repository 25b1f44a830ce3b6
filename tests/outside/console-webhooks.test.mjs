// The console: webhooks are edited, their secrets rotated, and events sent again.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startReceiver, useConsole } from "./console.mjs";

const receiver = await startReceiver();
const store = useConsole({ args: receiver.args });
after(() => receiver.close());

// Adds a webhook and opens it.
async function openWebhook(types) {
  const { id } = await store.call("POST", "webhooks", { url: receiver.url, types, description: "Mirror" });
  const page = await store.openScreen("webhooks");
  await page.evaluate((id) => (location.hash = `#/webhooks/${id}`), id);
  await page.panel.getByRole("heading", { name: receiver.url }).waitFor();
  // Everything is loaded, and stays where it is.
  await page.panel.getByText("None.").waitFor();
  return { id, page, dialog: page.getByRole("dialog") };
}

test("a webhook is edited", async () => {
  const { id, page, dialog } = await openWebhook(["pet.created", "key.created"]);
  await page.inspect("webhook-panel");
  const boxes = await page.panel.locator(".foot button").evaluateAll((buttons) => buttons.map((button) => button.getBoundingClientRect().toJSON()));
  for (const [at, a] of boxes.entries()) {
    for (const b of boxes.slice(at + 1)) assert.ok(a.right + 8 <= b.left || a.bottom + 8 <= b.top, "buttons of the panel touch");
  }
  await page.keyboard.press("e");
  await dialog.waitFor();
  assert.equal(await dialog.getByLabel("URL").inputValue(), receiver.url);
  assert.equal(await dialog.getByLabel("Description").inputValue(), "Mirror");
  await dialog.getByLabel("Description").fill("Stock mirror");
  await dialog.getByLabel("pet.deleted").check();
  await dialog.getByLabel("key.created").uncheck();
  await page.inspect("webhook-edit");
  await page.button("Save changes").click();
  await page.panel.getByText("Stock mirror").waitFor();
  await page.panel.getByText("pet.created, pet.deleted").waitFor();
  const { url, description, types } = await store.call("GET", `webhooks/${id}`);
  assert.deepEqual({ url, description, types }, { url: receiver.url, description: "Stock mirror", types: ["pet.created", "pet.deleted"] });
  // Again, from what it is now.
  await page.button("Edit…").click();
  assert.equal(await dialog.getByLabel("Description").inputValue(), "Stock mirror");
  await dialog.getByLabel("URL").fill("ftp://receiver.example/");
  await dialog.getByLabel("Description").fill("");
  await page.button("Save changes").click();
  await dialog.getByText(/./).and(page.locator(".problem")).first().waitFor();
  await dialog.getByLabel("URL").fill(`${receiver.url}/2`);
  await page.button("Save changes").click();
  await page.panel.getByRole("heading", { name: `${receiver.url}/2` }).waitFor();
  assert.equal((await store.call("GET", `webhooks/${id}`)).description, undefined);
  await store.call("DELETE", `webhooks/${id}`);
  assert.deepEqual(page.problems(/status of 40[04]/), []);
  await page.leave();
});

test("a secret is rotated, and shown once", async () => {
  const { id, page, dialog } = await openWebhook(["pet.created"]);
  await page.button("Rotate secret…").click();
  await page.getByRole("dialog", { name: "Rotate the secret?" }).getByRole("button", { name: "Rotate" }).click();
  const secret = await dialog.getByLabel("Secret").inputValue();
  assert.match(secret, /^whsec_/);
  await page.isAccessible();
  // A click beside it does not lose it.
  await page.mouse.click(5, 5);
  assert.ok(await dialog.isVisible());
  await dialog.getByRole("button", { name: "Done" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.ok(!(await page.content()).includes(secret));
  await store.call("DELETE", `webhooks/${id}`);
  assert.deepEqual(page.problems(/status of 404/), []);
  await page.leave();
});

test("events since a time are sent again", async () => {
  const { id, page, dialog } = await openWebhook(["category.updated"]);
  for (const name of ["Dogs", "Hounds", "Dogs"]) await store.call("PUT", "categories/1", { name });
  await store.add("Not of its types");
  const position = async () => (await store.call("GET", `webhooks/${id}`)).position;
  const [last] = await store.call("GET", "events?sort=desc&limit=1");
  while ((await position()) !== last.id) await new Promise((resolve) => setTimeout(resolve, 50));
  const replay = page.waitForRequest((request) => request.url().endsWith(`/webhooks/${id}/replay`));
  await page.button("Send again…").click();
  await dialog.getByLabel("Everything since").waitFor();
  await page.isAccessible();
  await dialog.getByRole("button", { name: "Send again" }).click();
  // The first event of all is the position: it cannot be sent again.
  const [first] = await store.call("GET", "events?limit=1");
  assert.deepEqual((await replay).postDataJSON(), { after: first.id });
  await page.getByText("3 events are sent again.").or(page.getByText("2 events are sent again.")).waitFor();

  // From now on: nothing is sent again.
  await page.button("Send again…").click();
  const later = new Date(Date.now() + 86_400_000).toISOString().slice(0, 16);
  await dialog.getByLabel("Everything since").fill(later);
  await dialog.getByRole("button", { name: "Send again" }).click();
  await page.getByText("0 events are sent again.").waitFor();
  await store.call("DELETE", `webhooks/${id}`);
  assert.deepEqual(page.problems(/status of 404/), []);
  await page.leave();
});
