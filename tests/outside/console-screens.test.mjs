// The other screens of the console: orders, categories, activity, webhooks, import, export.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { artefacts, caller, launch, openConsole, startProxy } from "./console.mjs";
import { startService } from "./harness.mjs";

let service, browser, key, call, receiver, hook, proxy;
let receiverStatus = 204;

before(async () => {
  receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(receiverStatus).end();
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => receiver.once("listening", resolve));
  hook = `http://127.0.0.1:${receiver.address().port}/hook`;
  service = await startService({ inMemory: true, args: ["--reserve-for", "20m", "--webhook-allow-http", "--webhook-allow-net", "127.0.0.0/8"] });
  browser = await launch();
  key = service.createKeyNamed("counter-2");
  call = caller(service.address, key);
});

after(async () => {
  await browser?.close();
  await service?.stop();
  receiver?.close();
  receiver?.closeAllConnections();
  await proxy?.close();
});

async function open(screen, options, secret = key, address = service.address) {
  const page = await openConsole(browser, address, secret, options);
  await page.live();
  await page.evaluate((screen) => (location.hash = `#/${screen}`), screen);
  await page.locator(`nav a[aria-current][href="#/${screen}"]`).waitFor();
  return page;
}
const addAnimal = (name, more) => call("POST", "pets", { name, categoryId: 1, status: "available", ...more });
const order = async (name) => call("POST", "store/orders", { petId: (await addAnimal(name)).id });

// Looks at a screen on a desktop and on a phone, light and dark.
async function inspect(page, name) {
  for (const [device, size, colorScheme] of [["desktop", { width: 1440, height: 900 }, "light"], ["phone", { width: 390, height: 844 }, "dark"]]) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
    await page.isAccessible();
    await page.fits();
    await page.screenshot({ path: `${artefacts}/console-${name}-${device}.png` });
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
}

test("screens without data say what to do", async () => {
  const page = await open("orders");
  for (const [screen, text] of Object.entries({ orders: "No open orders", categories: "No categories yet", activity: "Nothing has happened yet", webhooks: "No webhooks yet", import: "Import animals from a spreadsheet" })) {
    await page.open(screen[0].toUpperCase() + screen.slice(1));
    await page.getByRole("heading", { name: text }).waitFor();
    await page.isAccessible();
  }
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("orders are completed, cancelled and returned, and follow what others do", async () => {
  await order("Biscuit");
  const page = await open("orders");
  await page.row("Biscuit").getByText(/^(19|20):\d\d left$/).waitFor();
  await page.row("Biscuit").getByText("by “counter-2”").waitFor();
  const moss = await order("Moss");
  await page.row("Moss").waitFor();
  assert.deepEqual(await page.locator("tbody a").allInnerTexts(), ["Moss", "Biscuit"]);
  await inspect(page, "orders");

  // By keyboard.
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByText("Biscuit is sold.").waitFor();
  await page.row("Biscuit").waitFor({ state: "detached" });

  // Somebody else is faster.
  const page2 = await open("orders");
  await page.context().setOffline(true);
  await page.getByText("No connection.").waitFor();
  assert.ok(await page.row("Moss").getByRole("button", { name: "Complete" }).isDisabled());
  await call("POST", `store/orders/${moss.id}/cancel`);
  await page2.row("Moss").waitFor({ state: "detached" });
  await page.context().setOffline(false);
  await page.row("Moss").waitFor({ state: "detached" });

  await page.button("Completed").click();
  await page.row("Biscuit").getByRole("button", { name: "Return" }).click();
  await page.getByText("Biscuit was returned, and is available again.").waitFor();
  await page.button("All").click();
  await page.status("Biscuit").filter({ hasText: "returned" }).waitFor();
  await page.status("Moss").filter({ hasText: "cancelled" }).waitFor();
  await call("DELETE", `pets/${moss.petId}`);
  await page.getByText(`Animal ${moss.petId}, deleted`).waitFor();
  await page.open("Biscuit");
  await page.panel.getByRole("heading", { name: "Biscuit" }).waitFor();
  assert.deepEqual(page.problems(/ERR_INTERNET_DISCONNECTED/), []);
  await page.leave();
  await page2.leave();
});

test("an order that somebody else has completed in the meantime is shown as it is", async () => {
  const { id } = await order("Contested");
  const page = await open("orders");
  // The event does not arrive in time.
  await page.route("**/events/stream", (route) => route.abort());
  await page.row("Contested").waitFor();
  await page.route(`**/orders/${id}/complete`, async (route) => {
    await call("POST", `store/orders/${id}/cancel`);
    await route.continue();
  });
  await page.row("Contested").getByRole("button", { name: "Complete" }).click();
  await page.getByText(`Somebody was faster: order ${id} is cancelled.`).waitFor();
  await page.leave();
});

test("orders are loaded page by page", async () => {
  await order("Oldest");
  const { id } = await order("Cancelled meanwhile");
  await Promise.all(Array.from({ length: 70 }, (_, at) => order(`Batch ${at}`)));
  const page = await open("activity");
  // The event arrives before the page, which does not show it yet.
  await page.route(/store\/orders\?.*cursor/, async (route) => {
    const response = await route.fetch();
    await call("POST", `store/orders/${id}/cancel`);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    await route.fulfill({ response });
  });
  await page.open("Orders");
  await page.getByText("scroll for more").scrollIntoViewIfNeeded();
  await page.row("Oldest").waitFor();
  await page.locator(".more", { hasText: /^\d+ orders$/ }).waitFor();
  assert.equal(await page.row("Cancelled meanwhile").count(), 0);
  await page.leave();
});

test("categories are named, renamed and deleted, live and digit-exact", async () => {
  const page = await open("categories");
  const [dialog, number] = [page.getByRole("dialog"), "-9223372036854775808"];
  await page.keyboard.press("n");
  await page.keyboard.type("Dogs");
  await inspect(page, "category");
  await page.keyboard.press("Enter");
  await page.getByRole("cell", { name: "Dogs", exact: true }).waitFor();

  await page.button("Name a category").click();
  await dialog.getByLabel("Name").fill("DOGS");
  await dialog.getByLabel("Number").fill(number);
  await page.button("Name it").click();
  await dialog.getByText("Category 1 is named “Dogs” already.").waitFor();
  await dialog.getByLabel("Name").fill("<img src=x onerror=alert(1)>");
  await dialog.getByLabel("Number").fill("9223372036854775808");
  await page.button("Name it").click();
  await dialog.getByText("The number must be from -9223372036854775808 to 9223372036854775807.").waitFor();
  await dialog.getByLabel("Number").fill("1");
  await page.button("Name it").click();
  await dialog.getByText("Category 1 is named “Dogs” already. Rename it").waitFor();
  await dialog.getByLabel("Number").fill(number);
  await page.button("Name it").click();
  await page.getByRole("cell", { name: number, exact: true }).waitFor();
  await inspect(page, "categories");

  // Names that this page does not know yet.
  await page.route("**/categories/7", async (route) => {
    await call("PUT", "categories/8", { name: "Cats" });
    await route.continue();
  });
  await page.button("Name a category").click();
  await dialog.getByLabel("Name").fill("cats");
  await dialog.getByLabel("Number").fill("7");
  await page.button("Name it").click();
  await dialog.getByText("Another category has this name already.").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("cell", { name: "Cats", exact: true }).waitFor();

  // Renamed by somebody else while the dialog is open.
  await page.button("Rename Cats").click();
  await call("PUT", "categories/8", { name: "Kittens" });
  await page.getByRole("cell", { name: "Kittens", exact: true, includeHidden: true }).waitFor();
  await dialog.getByLabel("Name").fill("Tomcats");
  await page.button("Rename").click();
  await dialog.getByText("Somebody has renamed it to “Kittens” meanwhile.").waitFor();
  await page.button("Rename").click();
  await page.getByRole("cell", { name: "Tomcats", exact: true }).waitFor();

  await page.button("Delete Tomcats").click();
  await page.getByText("Its animals stay, and show “no. 8” instead.").waitFor();
  await page.button("Delete").click();
  await page.getByRole("cell", { name: "Tomcats", exact: true }).waitFor({ state: "detached" });
  assert.deepEqual((await call("GET", "categories")).map(({ name }) => name), ["<img src=x onerror=alert(1)>", "Dogs"]);
  assert.deepEqual(page.problems(/status of 409/), []);
  await page.leave();
});

test("activity says who has changed what", async () => {
  const old = await addAnimal("Old name");
  for (let n = 0; n < 60; n++) await call("PUT", "categories/2", { name: `Cats ${n}` });
  await call("PATCH", `pets/${old.id}`, { name: "New name" });
  const page = await open("activity");
  const text = (what) => page.locator(".log li", { hasText: what });
  // What has changed is looked up, as the event before is not on this page.
  await text("New name: renamed from “Old name” by “counter-2”").waitFor();
  const { id } = await order("Juniper");
  await text(`Juniper: reserved by “counter-2”, order ${id}`).waitFor();
  await call("POST", `store/orders/${id}/cancel`);
  await text("Juniper: reservation cancelled by “counter-2”").waitFor();
  // The change of the animal is part of the order.
  assert.equal(await text("Juniper").count(), 3);
  await text("Category Cats 59: renamed from “Cats 58” by “counter-2”").waitFor();
  await inspect(page, "activity");
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
  await page.getByLabel("URL").fill(hook);
  await page.getByLabel("category.deleted").uncheck();
  await inspect(page, "webhook-new");
  await page.keyboard.press("Enter");
  const secret = await page.getByLabel("Secret").inputValue();
  assert.match(secret, /^whsec_/);
  await page.isAccessible();
  await page.keyboard.press("Escape");
  await panel.getByRole("heading", { name: hook }).waitFor();
  await panel.getByText("up to date").waitFor();
  assert.ok(!(await page.content()).includes(secret));

  await page.button("Send a test").click();
  await panel.getByText(/Delivered: response 204, \d+ ms/).waitFor();
  receiverStatus = 500;
  await page.button("Send a test").click();
  await panel.getByText("Not delivered: response 500").waitFor();
  await call("PUT", "categories/3", { name: "Rabbits" });
  await panel.getByText(/response 500, \d attempts?/).waitFor();
  await panel.getByText(/failing since/).waitFor();
  await inspect(page, "webhook");
  receiverStatus = 204;
  await page.button("Retry").click();
  await panel.getByText("None.").waitFor();

  await page.button("Disable").click();
  await page.status(hook).filter({ hasText: "disabled" }).waitFor();
  await page.button("Enable").click();
  await page.status(hook).filter({ hasText: "enabled" }).waitFor();
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "detached" });
  await page.open(hook);
  await page.button("Delete webhook…").click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("scopes decide what is offered", async () => {
  const links = (page) => page.locator("nav a:visible").allInnerTexts();
  const reader = await open("orders", {}, service.createKeyNamed("reader", "--scope", "pets:read", "--scope", "orders:read"));
  const { id } = await order("Zed");
  await call("PUT", "categories/1", { name: "Dogs" });
  assert.deepEqual(await links(reader), ["Animals", "Orders", "Categories", "Activity"]);
  await reader.row("Zed").waitFor();
  await reader.open("Categories");
  await reader.getByText("read-only key").waitFor();
  await reader.getByRole("cell", { name: "Dogs", exact: true }).waitFor();
  assert.equal(await reader.locator("[data-write]").count(), 0);
  await reader.leave();
  const till = await open("orders", {}, service.createKeyNamed("till", "--scope", "orders:read", "--scope", "orders:write"));
  assert.deepEqual(await links(till), ["Orders", "Activity"]);
  await till.getByText(/^Animal \d+$/).first().waitFor();
  await till.button("Complete").first().click();
  await till.getByText(/^Animal \d+ is sold.$/).waitFor();
  assert.equal((await call("GET", `store/orders/${id}`)).status, "completed");
  await till.open("Activity");
  assert.deepEqual(await till.locator(".tabs button").allInnerTexts(), ["All", "Orders"]);
  assert.deepEqual(till.problems(), []);
  await till.leave();
});

const csv = (name, text) => ({ name, mimeType: "text/csv", buffer: Buffer.from(text) });
const choose = (page, file) => page.locator("input[type=file]").setInputFiles(file);

test("a spreadsheet is checked before anything is added", async () => {
  await call("PUT", "categories/1", { name: "Dogs" });
  const page = await open("import");
  await inspect(page, "import");
  const text = "\uFEFFsep=;\r\nName;Category;Status;Notes\r\n\"Rex \"\"the\r\ndog\"\"\";Dogs;;\r\n\r\n'=1+1;dogs;SOLD;x\r\nMax;Dogz;available;\r\nLuna;7;lost;\r\n;;;\r\nTom;Dogs;;;too much\r\n";
  await choose(page, csv("animals.csv", text));
  const cells = () => page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.innerText)));
  await page.getByText("Max").waitFor();
  assert.deepEqual(await cells(), [
    ["3", "Rex \"the dog\"\nNo line breaks and control characters.", "Dogs", ""],
    ["6", "=1+1", "Dogs", "sold"],
    ["7", "Max", "Dogz\nNo category is named “Dogz”.", "available"],
    ["8", "Luna", "no. 7", "lost\nMust be available, pending, sold or empty."],
    ["10", "Tom\nMore cells than the 4 columns.", "Dogs", ""],
  ]);
  await inspect(page, "import-preview");
  await page.locator(".card", { hasText: "invalid" }).click();
  assert.equal((await cells()).length, 4);
  await page.button("Add it").click();
  await page.button("Import 2 animals").waitFor();

  // Another column.
  await page.locator(".fields select").last().selectOption("–");
  await page.button("Import 3 animals").click();
  await page.getByRole("heading", { name: "3 animals were added" }).waitFor();
  await page.getByText("2 rows were rejected.").waitFor();
  await inspect(page, "import-report");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Save the rejected rows").click()]);
  assert.equal(readFileSync(await saved.path(), "utf8"), "\uFEFFName,Category,Status,Notes,problem\r\n\"Rex \"\"the\r\ndog\"\"\",Dogs,,,No line breaks and control characters.\r\nTom,Dogs,,,too much,More cells than the 4 columns.\r\n");
  const [formula] = await call("GET", "pets?name=%3D1%2B1");
  assert.deepEqual([formula.name, formula.categoryId], ["=1+1", 1]);

  // The same file again: nothing is added twice.
  await page.button("Import another file").click();
  await choose(page, csv("animals.csv", text));
  await page.locator(".fields select").last().selectOption("–");
  await page.button("Import 3 animals").click();
  await page.getByRole("heading", { name: "0 animals were added" }).waitFor();
  await page.getByText("3 rows of this file had been added before").waitFor();

  // Cells without a header, in a key that takes any int64.
  await page.button("Import another file").click();
  await page.getByLabel("Cells").fill("Ärmel, Jr., III\t-9223372036854775808\tsold\nZed\t9223372036854775808\n");
  await page.getByText("No category is named “9223372036854775808”.").first().waitFor();
  await page.button("Import 1 animal").click();
  await page.getByRole("heading", { name: "1 animal was added" }).waitFor();
  const [pet] = await call("GET", "pets?name=%C3%84rmel,%20Jr&categoryId=-9223372036854775808");
  assert.equal(pet.status, "sold");

  // Not UTF-8, and not closed.
  await page.button("Import another file").click();
  await choose(page, { name: "old.csv", mimeType: "text/csv", buffer: Buffer.from("name,category\n\xc4rmel,Dogs\n", "latin1") });
  await page.getByText("Check names with accents.").waitFor();
  await page.getByRole("cell", { name: "Ärmel" }).waitFor();
  await page.button("Another file").click();
  const dataTransfer = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["name,category\nRex,Dogs\n\"Max,Dogs\n"], "broken.csv"));
    return transfer;
  });
  await page.dispatchEvent("#screen", "drop", { dataTransfer });
  await page.getByText("Line 3: a quote is not closed.").waitFor();

  // The service may have forgotten the idempotency keys of an old import.
  await page.evaluate(() => {
    const old = { key: 1, time: Date.now() - 21 * 3_600_000, name: "old.csv", text: "name,category\nRex,Dogs\n", pasted: false };
    sessionStorage.setItem("petstore-import", JSON.stringify(old));
  });
  await page.reload();
  await page.getByText("The import of old.csv was interrupted after 0 rows, and cannot be resumed after 20 hours.").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("5,000 rows are imported once, over a lost connection and a reload", async () => {
  await call("PUT", "categories/1", { name: "Dogs" });
  proxy = await startProxy(service.address);
  const page = await open("import", {}, key, proxy.address);
  page.setDefaultTimeout(120_000);
  const lines = Array.from({ length: 5000 }, (_, at) => (at % 2 ? `Bulk ${at},Dogs` : `,Dogs`));
  await choose(page, csv("bulk.csv", ["name,category", ...lines].join("\n")));
  // Thousands of requests are slow to follow for the test.
  page.removeAllListeners("request");
  await page.button("Import 2,500 animals").click();
  const done = (least) => page.waitForFunction((least) => document.querySelector("progress")?.value >= least, least);
  await done(300);
  await inspect(page, "import-progress");
  // Requests arrive, but not their responses.
  proxy.dropResponses(true);
  await page.getByText("No connection.").waitFor();
  proxy.dropResponses(false);
  await done(600);
  await page.button("Pause").click();
  await page.getByText("Paused.").waitFor();
  await page.button("Go on").click();
  await done(900);
  // The browser asks first.
  page.once("dialog", (dialog) => dialog.accept());
  await page.reload();
  await page.getByText("This import was interrupted.").waitFor();
  // What is done is not sent again.
  await page.evaluate(() => performance.setResourceTimingBufferSize(10_000));
  await page.getByRole("button", { name: /^Go on with 1,\d\d\d animals$/ }).click();
  await page.getByRole("heading", { name: "2,500 animals were added" }).waitFor();
  const sent = await page.evaluate(() => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/v1/pets")).length);
  assert.ok(sent > 500 && sent < 1700, `${sent} rows were sent after the reload`);
  await page.getByText("2,500 rows were rejected.").waitFor();
  assert.deepEqual((await page.locator("tbody .number").allInnerTexts()).slice(0, 3), ["2", "4", "6"]);
  let [found, cursor] = [[], ""];
  do {
    const response = await fetch(`${service.address}/v1/pets?name=Bulk&limit=100${cursor}`, { headers: { Authorization: `Bearer ${key}` } });
    found.push(...(await response.json()).map(({ name }) => name));
    cursor = response.headers.get("link")?.match(/&?cursor=([\w-]+)/)?.[1];
    cursor = cursor && `&cursor=${cursor}`;
  } while (cursor);
  assert.equal(found.length, 2500);
  assert.equal(new Set(found).size, 2500);
  assert.deepEqual(page.problems(/ERR_/), ["a dialog: "]);
  await page.leave();
});

test("what is shown is exported, without formulas", async () => {
  await call("PUT", "categories/1", { name: "Dogs" });
  await addAnimal("=HYPERLINK(\"x\");-1");
  const page = await open("animals");
  await page.getByLabel("Search by name").fill("=h");
  await page.getByText("1 animal", { exact: true }).waitFor();
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button("Export").click()]);
  assert.equal(saved.suggestedFilename(), "animals.csv");
  const lines = readFileSync(await saved.path(), "utf8").split("\r\n").map((line) => line.replace(/^\d+,/, ""));
  assert.deepEqual(lines, ["\uFEFFid,name,categoryId,category,status", "\"'=HYPERLINK(\"\"x\"\");'-1\",1,Dogs,available", ""]);
  assert.deepEqual(page.problems(/blob:/), []);
  await page.leave();
});
