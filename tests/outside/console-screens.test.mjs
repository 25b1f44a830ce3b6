// The other screens of the console: orders, categories, activity, webhooks.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { caller, launch, openScreen, startReceiver } from "./console.mjs";
import { startService } from "./harness.mjs";

let service, browser, key, call, receiver;

before(async () => {
  receiver = await startReceiver();
  service = await startService({ inMemory: true, args: ["--reserve-for", "20m", ...receiver.args] });
  browser = await launch();
  key = service.createKeyNamed("counter-2");
  call = caller(service.address, key);
});

after(async () => {
  await browser?.close();
  await service?.stop();
  receiver?.close();
});

const open = (screen, secret = key) => openScreen(browser, service.address, secret, screen);
const addAnimal = (name, more) => call("POST", "pets", { name, categoryId: 1, status: "available", ...more });
const order = async (name) => call("POST", "store/orders", { petId: (await addAnimal(name)).id });

test("screens without data say what to do", async () => {
  const page = await open("orders");
  for (const [screen, text] of Object.entries({ orders: "No open orders", categories: "No categories yet", activity: "Nothing has happened yet", webhooks: "No webhooks yet", import: "Import animals from a spreadsheet" })) {
    await page.open(screen[0].toUpperCase() + screen.slice(1));
    await page.getByRole("heading", { name: text }).waitFor();
    await page.isAccessible();
  }
  // After an update of the service, modules have other addresses.
  await page.reload();
  await page.route("**/screens/webhooks.js", (route) => route.fulfill({ status: 404 }));
  await page.open("Webhooks");
  await page.getByText("This part of the console could not be loaded").waitFor();
  await page.unrouteAll();
  await page.button("Reload").click();
  await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
  assert.deepEqual(page.problems(/status of 404/), []);
  await page.leave();
});

test("orders are completed, cancelled and returned, and follow what others do", async () => {
  await order("Biscuit");
  const page = await open("orders");
  await page.row("Biscuit").getByText(/^(19|20):\d\d left$/).waitFor();
  await page.row("Biscuit").getByText("by “counter-2”").waitFor();
  const moss = await order("Moss");
  await page.row("Moss").waitFor();
  assert.deepEqual(await page.getByRole("table").getByRole("link").allInnerTexts(), ["Moss", "Biscuit"]);
  await page.inspect("orders");

  // By keyboard.
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByText("Biscuit is sold.").waitFor();
  await page.row("Biscuit").waitFor({ state: "detached" });

  // Another person is faster.
  const page2 = await open("orders");
  await page.goOffline();
  await page.getByText("No connection.").waitFor();
  await page.isAccessible();
  assert.ok(await page.row("Moss").getByRole("button", { name: "Complete" }).isDisabled());
  await call("POST", `store/orders/${moss.id}/cancel`);
  await page2.row("Moss").waitFor({ state: "detached" });
  await page.goOnline();
  await page.row("Moss").waitFor({ state: "detached" });

  await page.button("Completed").click();
  await page.row("Biscuit").getByRole("button", { name: "Return" }).click();
  await page.getByText("Biscuit was returned, and is available again.").waitFor();
  await page.button("All").click();
  await page.status("Biscuit", "returned").waitFor();
  await page.status("Moss", "cancelled").waitFor();
  await call("DELETE", `pets/${moss.petId}`);
  await page.row("Moss").getByText(", deleted").waitFor();
  await page.open("Biscuit");
  await page.panel.getByRole("heading", { name: "Biscuit" }).waitFor();
  assert.deepEqual(page.problems(/ERR_INTERNET_DISCONNECTED/), []);
  await page.leave();
  await page2.leave();
});

test("an order that another person completes is shown as it is, and the focus stays near it", async () => {
  const [oldest, middle, newest] = [await order("Oldest"), await order("Middle"), await order("Newest")];
  const page = await open("orders");
  const focus = (name) => page.row(name).getByRole("button", { name: "Complete" }).focus();
  await focus("Middle");
  await call("POST", `store/orders/${middle.id}/complete`);
  await page.focused("link", "Oldest");
  await focus("Oldest");
  await call("POST", `store/orders/${oldest.id}/complete`);
  await page.focused("link", "Newest");
  await page.button("All").click();
  await focus("Newest");
  await call("POST", `store/orders/${newest.id}/complete`);
  // Not on “Return”, which would undo what another person has done.
  await page.focused("link", "Newest");
  await page.button("Open").click();
  const last = await order("Last");
  await focus("Last");
  await call("POST", `store/orders/${last.id}/cancel`);
  await page.focused("button", "Open");

  const { id } = await order("Contested");
  // The event does not arrive in time.
  await page.route("**/events/stream", (route) => route.abort());
  await page.row("Contested").waitFor();
  await page.route(`**/orders/${id}/complete`, async (route) => {
    await call("POST", `store/orders/${id}/cancel`);
    await route.continue();
  });
  await page.row("Contested").getByRole("button", { name: "Complete" }).click();
  await page.getByText(`Another person was faster: order ${id} is cancelled.`).waitFor();
  await page.leave();
});

test("orders are loaded page by page", async () => {
  await order("Oldest");
  const { id } = await order("Cancelled meanwhile");
  const unseen = await order("Not on the page");
  await Promise.all(Array.from({ length: 70 }, (_, at) => order(`Batch ${at}`)));
  const sold = await order("Sold before");
  await call("POST", `store/orders/${sold.id}/complete`);
  const newest = await order("Newest of all");
  const page = await open("activity");
  // The event arrives before the page, which does not show it yet.
  await page.route(/store\/orders\?.*cursor/, async (route) => {
    const response = await route.fetch();
    await call("POST", `store/orders/${id}/cancel`);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    await route.fulfill({ response });
  });
  await page.open("Orders");
  await page.row("Newest of all").waitFor();
  // Orders that are not on the page: one not yet, one not any more.
  await call("POST", `store/orders/${unseen.id}/complete`);
  await call("POST", `store/orders/${sold.id}/return`);
  await call("POST", `store/orders/${newest.id}/cancel`);
  await page.row("Newest of all").waitFor({ state: "detached" });
  await page.getByText("49 · scroll for more").waitFor();
  await page.getByText("scroll for more").scrollIntoViewIfNeeded();
  await page.row("Oldest").waitFor();
  await page.getByText(/^\d+ orders$/).waitFor();
  for (const name of ["Cancelled meanwhile", "Not on the page", "Sold before"]) assert.equal(await page.row(name).count(), 0);
  await page.leave();
});

test("categories are named, renamed and deleted, live and digit-exact", async () => {
  const page = await open("categories");
  const [dialog, number] = [page.getByRole("dialog"), "-9223372036854775808"];
  await page.keyboard.press("n");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.type("Dogs");
  await page.inspect("category");
  await page.keyboard.press("Enter");
  await page.getByRole("cell", { name: "Dogs", exact: true }).waitFor();
  // The lowest number that no animal has.
  const [{ id: dogs }] = await call("GET", "categories");
  assert.equal((await call("GET", `pets?categoryId=${dogs}`)).length, 0);

  await page.button("Name a category").click();
  await dialog.getByLabel("Name").fill("DOGS");
  await dialog.getByLabel("Number").fill(number);
  await page.button("Name it").click();
  await dialog.getByText(`Category ${dogs} is named “Dogs” already.`).waitFor();
  await dialog.getByLabel("Name").fill("<img src=x onerror=alert(1)>");
  await dialog.getByLabel("Number").fill("9223372036854775808");
  await page.button("Name it").click();
  await dialog.getByText("The number must be from -9223372036854775808 to 9223372036854775807.").waitFor();
  await dialog.getByLabel("Number").fill(String(dogs));
  await page.button("Name it").click();
  await dialog.getByText(`Category ${dogs} is named “Dogs” already. Rename it`).waitFor();
  await dialog.getByLabel("Number").fill(number);
  await page.button("Name it").click();
  await page.getByRole("cell", { name: number, exact: true }).waitFor();
  await page.inspect("categories");

  // Names that this page does not know yet.
  await page.route("**/categories/7", async (route) => {
    await call("PUT", "categories/8", { name: "Cats" });
    await route.continue();
  });
  await page.button("Name a category").click();
  await dialog.getByLabel("Name").fill("cats");
  await dialog.getByLabel("Number").fill("7");
  await page.button("Name it").click();
  await dialog.getByText(/already/).waitFor();
  await page.keyboard.press("Escape");
  await page.button("Discard").click();
  await page.getByRole("cell", { name: "Cats", exact: true }).waitFor();

  // Renamed by another person while the dialog is open.
  await page.button("Rename Cats").click();
  await call("PUT", "categories/8", { name: "Kittens" });
  await page.getByRole("cell", { name: "Kittens", exact: true, includeHidden: true }).waitFor();
  await dialog.getByLabel("Name").fill("Tomcats");
  await page.button("Rename").click();
  await dialog.getByText("Another person has renamed it to “Kittens”.").waitFor();
  await page.button("Rename").click();
  await page.getByRole("cell", { name: "Tomcats", exact: true }).waitFor();

  await page.button("Delete Tomcats").click();
  await page.getByText("Its animals stay, and show “no. 8” instead.").waitFor();
  await page.button("Delete").click();
  await page.getByRole("cell", { name: "Tomcats", exact: true }).waitFor({ state: "detached" });
  assert.deepEqual((await call("GET", "categories")).map(({ name }) => name), ["<img src=x onerror=alert(1)>", "Dogs"]);
  assert.deepEqual(page.problems(/status of 4(09|12)/), []);
  await page.leave();
});

test("activity says who has changed what", async () => {
  const old = await addAnimal("Old name");
  for (let n = 0; n < 60; n++) await call("PUT", "categories/2", { name: `Cats ${n}` });
  await call("PATCH", `pets/${old.id}`, { name: "New name" });
  const page = await open("activity");
  const text = (what) => page.getByRole("listitem").filter({ hasText: what });
  // What has changed is looked up, as the event before is not on this page.
  await text("New name: renamed from “Old name” by “counter-2”").waitFor();
  const { id } = await order("Juniper");
  await text(`Juniper: reserved by “counter-2”, order ${id}`).waitFor();
  await call("POST", `store/orders/${id}/cancel`);
  await text("Juniper: reservation cancelled by “counter-2”").waitFor();
  // The change of the animal is part of the order.
  assert.equal(await text("Juniper").count(), 3);
  await text("Category Cats 59: renamed from “Cats 58” by “counter-2”").waitFor();
  await page.inspect("activity");
  await page.getByText("Scroll for more").scrollIntoViewIfNeeded();
  await text("Cats 0: named by “counter-2”").waitFor();
  await text("Old name: added by “counter-2”").waitFor();

  await page.button("Animals").click();
  await text("Juniper: released by “counter-2”").waitFor();
  assert.equal(await text("Category").count(), 0);
  await page.button("Categories").click();
  await text("Category Cats 59").waitFor();
  await call("PATCH", `pets/${old.id}`, { name: "Newest name" });
  await call("PUT", "categories/2", { name: "Cats" });
  await text("Category Cats: renamed from “Cats 59”").waitFor();
  assert.equal(await text("Newest name").count(), 0);
  await page.button("All").click();
  await page.open("Newest name");
  await page.panel.getByRole("heading", { name: "Newest name" }).waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("webhooks are added, tested, disabled and deleted, and failed deliveries retried", async () => {
  const page = await open("webhooks");
  const { panel } = page;
  await page.keyboard.press("n");
  await page.getByRole("dialog").waitFor();
  await page.getByLabel("URL").fill(receiver.url);
  await page.getByLabel("category.deleted").uncheck();
  await page.inspect("webhook-new");
  await page.keyboard.press("Enter");
  const secret = await page.getByLabel("Secret").inputValue();
  assert.match(secret, /^whsec_/);
  await page.isAccessible();
  await page.keyboard.press("Escape");
  await panel.getByRole("heading", { name: receiver.url }).waitFor();
  await panel.getByText("no failures").waitFor();
  assert.ok(!(await page.content()).includes(secret));

  await page.button("Send a test").click();
  await panel.getByText(/Delivered: response 204, \d+ ms/).waitFor();
  receiver.status = 500;
  await page.button("Send a test").click();
  await panel.getByText("Not delivered: response 500").waitFor();
  await call("PUT", "categories/3", { name: "Rabbits" });
  await panel.getByText(/response 500, \d attempts?/).waitFor();
  await panel.getByText("Category Rabbits: named by “counter-2”").waitFor();
  await panel.getByText(/failing since/).waitFor();
  await page.inspect("webhook");
  receiver.status = 204;
  await page.button("Retry").click();
  await panel.getByText("None.").waitFor();

  await page.button("Disable").click();
  await page.status(receiver.url, "disabled").waitFor();
  // Closed before everything is loaded again.
  const release = await page.hold("**/v1/webhooks?*");
  await page.button("Enable").click();
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "detached" });
  await release();
  await page.status(receiver.url, "enabled").waitFor();
  await page.getByText("no failures").waitFor();
  assert.equal(await panel.count(), 0);
  await page.open(receiver.url);
  await page.button("Delete webhook…").click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
  // Its deliveries may have been asked for while it was deleted.
  assert.deepEqual(page.problems(/status of 404/), []);
  await page.leave();
});

test("scopes decide what is offered", async () => {
  const links = (page) => page.getByRole("navigation").getByRole("link").allInnerTexts();
  const reader = await open("orders", service.createKeyNamed("reader", "--scope", "pets:read", "--scope", "orders:read"));
  const { id } = await order("Zed");
  await call("PUT", "categories/1", { name: "Dogs" });
  assert.deepEqual(await links(reader), ["Animals", "Orders", "Categories", "Activity", "Reports"]);
  await reader.row("Zed").waitFor();
  await reader.open("Categories");
  await reader.getByText("read-only key").waitFor();
  await reader.getByRole("cell", { name: "Dogs", exact: true }).waitFor();
  assert.equal(await reader.getByRole("main").getByRole("button").count(), 0);
  await reader.leave();
  const till = await open("orders", service.createKeyNamed("till", "--scope", "orders:read", "--scope", "orders:write"));
  assert.deepEqual(await links(till), ["Orders", "Activity", "Reports"]);
  await till.getByText(/^Animal \d+$/).first().waitFor();
  await till.button("Complete").first().click();
  await till.getByText(/^Animal \d+ is sold.$/).waitFor();
  assert.equal((await call("GET", `store/orders/${id}`)).status, "completed");
  await till.open("Activity");
  await till.getByRole("group", { name: "Type" }).waitFor();
  assert.deepEqual(await till.getByRole("group", { name: "Type" }).getByRole("button").allInnerTexts(), ["All", "Orders"]);
  assert.deepEqual(till.problems(), []);
  await till.leave();
});
