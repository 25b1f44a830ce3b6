// The console: how it looks where that matters, on screen and on paper, and how it is reached by keyboard.

import assert from "node:assert/strict";
import { test } from "node:test";
import { artefacts, useConsole } from "./console.mjs";

const LONG = "Wolfeschlegelsteinhausenbergerdorff ".repeat(7).trim();
const WORD = "W".repeat(255);
const prepare = async (store) => {
  await store.call("PUT", "categories/1", { name: "Dogs" });
  await store.add("Biscuit", { breed: "Beagle", sex: "female", location: "Kennel 4", microchip: "985112004567890", price: { amount: 45000, currency: "USD" } });
  await store.add("Plain", { status: undefined });
};
const store = useConsole({ prepare });
const boxes = (locator) => locator.evaluateAll((all) => all.filter((element) => element.checkVisibility()).map((element) => {
  const { left, top, right, bottom } = element.getBoundingClientRect();
  return { name: element.textContent.trim(), left, top, right, bottom };
}));
const overlaps = (a, b) => a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5;

test("an animal has two lines, and counts have a dot", async () => {
  const page = await store.open();
  await page.live();
  const row = page.row("Biscuit");
  assert.equal(await row.locator(".line").evaluate(({ textContent }) => textContent.replace(" · Kennel 4", "")), "Beagle · Dogs · female · 985 112 004 567 890");
  await row.getByRole("cell", { name: "Kennel 4", exact: true }).waitFor();
  await row.getByRole("cell", { name: "$450.00", exact: true }).waitFor();
  await page.row("Plain").getByText("not for sale").waitFor();
  await page.getByRole("button", { name: "1 available" }).waitFor();
  await page.getByText("1 not for sale").waitFor();
  const dot = (name) => page.getByRole("button", { name }).evaluate((button) => getComputedStyle(button, "::before").backgroundColor);
  assert.equal(new Set(await Promise.all([/available$/, /pending$/, /sold$/].map(dot))).size, 3);
  await page.inspect("animals");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the header neither wraps nor overlaps, with a wide font as well", async () => {
  const page = await store.open({}, store.service.createKeyNamed("a key with quite a long name", "--role", "owner"));
  await page.live();
  for (const spacing of ["0", "0.1em"]) {
    await page.evaluate((spacing) => {
      const { style } = document.documentElement;
      style.setProperty("--font", "DejaVu Sans, Verdana, sans-serif");
      style.letterSpacing = spacing;
    }, spacing);
    for (const width of [1440, 1280, 1240, 1100, 1024, 961, 960, 900, 768, 761, 600, 390]) {
      await page.setViewportSize({ width, height: 800 });
      const all = await boxes(page.locator("header .brand, header nav a, header #live, header #key-name"));
      for (const [at, one] of all.entries()) {
        assert.ok(one.left >= 0 && one.right <= width + 0.5, `${width} px: ${one.name} is outside`);
        for (const other of all.slice(at + 1)) assert.ok(!overlaps(one, other), `${width} px: ${one.name} and ${other.name}`);
      }
      const links = await boxes(page.locator("header nav a"));
      assert.equal(links.length, 8);
      assert.equal(new Set(links.map(({ top }) => Math.round(top))).size, 1, `${width} px: wrapped`);
      assert.equal((await page.locator("header").boundingBox()).height, 56);
      await page.fits();
    }
  }
  await page.leave();
});

test("navigation and tabs stay where they are when one becomes bold", async () => {
  const page = await store.openScreen("orders");
  const places = async (locator) => (await boxes(locator)).map(({ left }) => left);
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 800 });
    await page.open("Orders");
    await page.button("Open").click();
    const [links, tabs] = [page.locator("nav a"), page.locator(".tabs button")];
    const before = [await places(links), await places(tabs)];
    await page.button("Completed").click();
    assert.deepEqual(await places(tabs), before[1]);
    await page.open("Categories");
    await page.getByRole("heading", { name: "Categories", level: 1 }).waitFor();
    assert.deepEqual(await places(links), before[0]);
  }
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("long names are cut, and available in full", async () => {
  await store.add(LONG);
  await store.order(WORD, { buyer: { name: WORD.slice(0, 200) } });
  const page = await store.open();
  await page.live();
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    for (const screen of ["Animals", "Orders", "Activity"]) {
      await page.open(screen);
      for (const name of screen === "Orders" ? [WORD] : [LONG, WORD]) {
        const link = page.getByRole("link", { name, exact: true }).first();
        await link.waitFor();
        assert.equal(await link.getAttribute("title"), name);
        const { height } = await link.boundingBox();
        assert.ok(height < 60, `${screen}: ${height} px`);
      }
      await page.fits();
    }
    await page.open("Animals");
    await page.getByRole("link", { name: WORD, exact: true }).click();
    const title = page.panel.getByRole("heading", { name: WORD, exact: true });
    await title.waitFor();
    assert.equal(await title.getAttribute("title"), WORD);
    const { height } = await title.boundingBox();
    assert.ok(height < 100, `${height} px`);
    // A click shows it all.
    await title.click();
    assert.ok((await title.boundingBox()).height > height);
    await page.fits();
    await page.button("Delete animal…").click();
    const question = page.getByRole("dialog").getByRole("heading");
    assert.ok((await question.boundingBox()).height < 100);
    await page.fits();
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    await page.panel.waitFor({ state: "detached" });
  }
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a list is printed as a list, with its filters and the time", async () => {
  for (let at = 0; at < 60; at++) await store.add(`Printed ${at}`);
  const page = await store.open({ width: 800 });
  await page.live();
  await page.evaluate(() => (location.hash = "#/animals?status=available&q=printed"));
  await page.getByText(/scroll for more$/).waitFor();
  // The text in it is replaced while the list is loaded.
  await page.locator(".more[role='status']").scrollIntoViewIfNeeded();
  await page.getByText("60 animals", { exact: true }).waitFor();
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.emulateMedia({ media: "print" });
  await page.getByRole("heading", { name: "Animals · available · “printed”" }).waitFor();
  assert.ok((await page.getByRole("heading", { level: 1 }).boundingBox()).height > 10);
  await page.getByText(/^Printed on \w+day,? \d+ \w+ \d{4}/).waitFor();
  assert.equal(await page.getByRole("row").count(), 61);
  for (const role of ["button", "textbox", "searchbox", "combobox", "navigation"]) assert.equal(await page.getByRole(role).count(), 0, role);
  await page.fits();
  await page.screenshot({ path: `${artefacts}/console-print.png`, fullPage: true });
  // The browser tells the page that it prints.
  await page.emulateMedia({ media: null });
  await page.evaluate(() => (document.querySelector(".printed").textContent = ""));
  await page.pdf({ path: `${artefacts}/console-print.pdf`, format: "A4" });
  assert.match(await page.locator(".printed").textContent(), /^Printed on/);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a long list is printed as a whole, or says that it is not", async () => {
  const { results } = await store.call("POST", "pets/batch", { changes: Array.from({ length: 230 }, (_, at) => ({ create: { name: `Long ${at}`, categoryId: 1 } })) });
  assert.equal(results.length, 230);
  const page = await store.open();
  await page.live();
  await page.evaluate(() => (location.hash = "#/animals?q=long"));
  await page.getByText("50 of 230 · scroll for more").waitFor();
  // From the menu of the browser: nothing can be loaded.
  await page.emulateMedia({ media: "print" });
  const foot = page.locator(".more .rows-shown");
  assert.deepEqual(await foot.evaluate((foot) => [getComputedStyle(foot, "::before").content, foot.innerText]), ['"Only the first "', "50 of 230"]);
  await page.emulateMedia({ media: null });
  // With the keyboard.
  const printed = page.evaluate(() => new Promise((resolve) => (window.print = () => resolve(document.querySelectorAll("tbody tr").length))));
  await page.keyboard.press("Control+p");
  assert.equal(await printed, 230);
  await page.getByText("230 animals", { exact: true }).waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("? shows the keys", async () => {
  const page = await store.open();
  await page.live();
  await page.keyboard.press("?");
  const keys = page.getByRole("dialog", { name: "Keys" });
  await keys.getByText("Move in a list").waitFor();
  await page.inspect("keys");
  await page.keyboard.press("Escape");
  await keys.waitFor({ state: "detached" });
  // Not while something is typed.
  await page.keyboard.press("/");
  await page.keyboard.type("?");
  assert.equal(await keys.count(), 0);
  // The search closes the menu.
  await page.waitForURL(/q=/);
  await page.locator("#key-name").click();
  await page.getByRole("button", { name: "Keys" }).click();
  await keys.waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a link skips to the content, and the console can be installed", async () => {
  const page = await store.open();
  await page.live();
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Tab");
  await page.focused("link", "Skip to content");
  await page.isAccessible();
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "screen");
  assert.ok(page.url().endsWith("#/animals"));
  await page.keyboard.press("Tab");
  await page.locator("main :focus").waitFor();

  const address = await page.locator("link[rel=manifest]").evaluate(({ href }) => href);
  const response = await fetch(address);
  assert.equal(response.headers.get("content-type"), "application/manifest+json");
  assert.match(response.headers.get("cache-control"), /immutable/);
  const manifest = await response.json();
  const { service } = store;
  assert.equal(new URL(manifest.start_url, address).href, `${service.address}/console`);
  assert.ok(new URL(manifest.start_url, address).href.startsWith(new URL(manifest.scope, address).href));
  assert.equal((await fetch(new URL(manifest.icons[0].src, address))).headers.get("content-type"), manifest.icons[0].type);
  const session = await page.context().newCDPSession(page);
  const { errors, url } = await session.send("Page.getAppManifest");
  assert.deepEqual({ errors, url }, { errors: [], url: address });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("messages cover nothing that can be pressed", async () => {
  for (const size of [{ width: 1280, height: 720 }, { width: 390, height: 844 }]) {
    const page = await store.open(size);
    await page.live();
    // On a phone, the rows of a list can take up all of it: they can be scrolled.
    const exceptRows = size.width < 400 ? ":not(tbody *)" : "*";
    const covered = async (except) => {
      const [toasts] = await boxes(page.locator("#toasts"));
      assert.ok(toasts.left >= 0 && toasts.top >= 0 && toasts.right <= size.width && toasts.bottom <= size.height);
      const controls = await boxes(page.locator("a[href], button, input, select").and(page.locator(":not(#toasts *)")).and(page.locator(except)));
      return controls.filter((control) => overlaps(control, toasts)).map(({ name }) => name);
    };
    // Messages are placed in the frame after the page has changed.
    const isFree = async (except = "*") => {
      const deadline = Date.now() + 60_000;
      let names;
      while ((names = await covered(except)).length && Date.now() < deadline) await page.waitForTimeout(100);
      assert.deepEqual(names, [], `${size.width} px`);
    };
    const { id } = await store.order("Toasted");
    await page.open("Orders");
    await page.row("Toasted").getByRole("button", { name: "Complete" }).click();
    await page.getByText("Toasted is sold.").waitFor();
    await isFree(exceptRows);
    await page.getByRole("navigation").getByRole("link", { name: "Animals" }).click();
    await page.row("Toasted").first().waitFor();
    await page.evaluate(() => (location.hash = "#/animals/4711"));
    await page.getByText("There is no animal 4711.").waitFor();
    await isFree(exceptRows);
    await page.evaluate((id) => (location.hash = `#/animals/${id}`), (await store.call("GET", `store/orders/${id}`)).petId);
    await page.button("Delete animal…").waitFor();
    await isFree(exceptRows);
    await page.screenshot({ path: `${artefacts}/console-toast-${size.width}.png` });
    assert.deepEqual(page.problems(), []);
    await page.leave();
  }
});

test("the account menu does not dim the page", async () => {
  const page = await store.open();
  await page.live();
  await page.locator("#key-name").click();
  await page.button("Sign out").waitFor();
  const dim = await page.evaluate(() => getComputedStyle(document.getElementById("account"), "::backdrop").backgroundColor);
  assert.equal(dim, "rgba(0, 0, 0, 0)");
  await page.isAccessible();
  await page.keyboard.press("Escape");
  await page.button("Sign out").waitFor({ state: "hidden" });
  await page.keyboard.press("n");
  await page.getByRole("dialog").waitFor();
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.querySelector("dialog"), "::backdrop").backgroundColor), dim);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
