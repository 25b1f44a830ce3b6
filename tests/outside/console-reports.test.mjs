// The console: reports of sales, and the register of animals.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { artefacts, caller, useConsole } from "./console.mjs";

const TIME_ZONE = "Europe/Berlin";
// The day on which these tests open the console.
const NOW = "2025-03-18T12:00:00+01:00";
const SOURCE = { name: "Happy Tails", address: "12 Long Lane, Springfield", licence: "33-A-0123" };
// With the times at which they were sold and returned.
const SALES = [
  { name: "Old", price: [100000, "USD"], sold: "2024-12-31T23:59:00+01:00" },
  { name: "Feb", price: [20000, "USD"], sold: "2025-02-28T23:59:00+01:00" },
  { name: "@First", price: [45000, "USD"], sold: "2025-03-01T00:01:00+01:00", breed: "Beagle", sex: "female", birthDate: "2025-01-02", color: "brown", microchip: "985112004567890", source: SOURCE, acquiredOn: "2025-02-20", buyer: { name: "Ada Buyer", address: "7 Elm Street", contact: "555 1234" }, reference: "R-17" },
  { name: "Kept", price: [30000, "USD"], sold: "2025-03-03T10:00:00+01:00", by: "Maria" },
  { name: "Back", reference: "#N/A", color: "-grey", breed: "'=x", categoryId: 2, price: [12000, "USD"], sold: "2025-03-03T11:00:00+01:00", returned: "2025-03-05T09:00:00+01:00", acquiredOn: "2025-03-02" },
  { name: "Small", categoryId: 3, price: [5000, "USD"], sold: "2025-03-05T12:00:00+01:00", by: "Maria" },
  { name: "Gift", reference: " R;=1 ", sold: "2025-03-10T12:00:00+01:00" },
  // The day on which summer time starts, which is the day before in New York.
  { name: "Euro", categoryId: 9, price: [9999, "EUR"], sold: "2025-03-31T00:30:00+02:00", by: "Maria", isDeleted: true, acquiredOn: "2025-03-30" },
];

async function prepare(store) {
  const { service, call } = store;
  for (const [id, name] of [[1, "Dogs"], [2, "Cats"], [3, "=Birds"]]) await call("PUT", `categories/${id}`, { name });
  const maria = caller(service.address, service.createKeyNamed("Maria"));
  const moves = [];
  for (const { name, price, sold, returned, by, isDeleted, buyer, reference, ...pet } of SALES) {
    const { id: petId } = await store.add(name, pet);
    const { id } = await call("POST", "store/orders", { petId, buyer, reference, price: price && { amount: price[0], currency: price[1] } });
    await (by ? maria : call)("POST", `store/orders/${id}/complete`);
    if (returned) await call("POST", `store/orders/${id}/return`);
    if (isDeleted) await call("DELETE", `pets/${petId}`);
    moves.push([id, Date.parse(sold) * 1000, returned ? Date.parse(returned) * 1000 : null]);
  }
  // The service takes the time from the clock.
  execFileSync("python3", ["-c", `import json, sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=60) as db:
    for id, sold, returned in json.loads(sys.argv[2]):
        db.execute("UPDATE orders SET completed_at = ?, returned_at = ? WHERE id = ?", (sold, returned, id))
    # Sales of animals that are not kept, from a year in which the shop sold more than a browser lists.
    db.executemany("INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at, returned_at) VALUES (?, ?, ?, ?, ?, ?)", [
        (10**9 + at, "returned" if at % 100 == 0 else "completed", *[1465000000000000 + at * 1000000] * 3, 1465000000000000 + at * 1000000 if at % 100 == 0 else None)
        for at in range(10050)])`, service.file, JSON.stringify(moves)]);
  await service.restart();
}
const store = useConsole({ prepare });

// Opens a report at the time of these tests.
async function openReport(hash, { key, ...look } = {}) {
  const page = await store.open({ timeZone: TIME_ZONE, ...look }, key);
  await page.live();
  await page.clock.setFixedTime(new Date(NOW));
  await visit(page, hash);
  return page;
}
const visit = async (page, hash) => {
  await page.evaluate((hash) => (location.hash = hash), hash);
  if (hash.startsWith("#/reports")) await page.locator(".report-head").waitFor();
};
const reported = (page, period) => page.getByRole("heading", { name: period, level: 2, exact: true }).waitFor();
const hashOf = (page) => new URL(page.url()).hash;
const sales = (by, from, to) => store.call("GET", `store/sales?by=${by}&from=${from}&to=${to}&timeZone=${TIME_ZONE}`);
const rows = (region) => region.getByRole("row").evaluateAll((all) => all.map(({ cells }) => [...cells].map(({ innerText }) => innerText.trim())));
const region = (page, name) => page.getByRole("region", { name, exact: true });
const total = (page, currency) => page.getByRole("group", { name: "Totals" }).locator(".total").filter({ hasText: currency }).innerText();
const bars = async (page) => {
  await page.locator(".plot svg").waitFor();
  return page.locator(".plot .bar").evaluateAll((all) => all.map(({ dataset }) => Number(dataset.value)));
};
const valueOf = (group, currency) => group?.totals.find((total) => total.currency === currency)?.amount ?? 0;

async function savedBy(page, name) {
  const [saved] = await Promise.all([page.waitForEvent("download"), page.button(name).click()]);
  return { name: saved.suggestedFilename(), lines: readFileSync(await saved.path(), "utf8").replace("\uFEFF", "").trimEnd().split("\r\n") };
}

// Shows the page as it is while it is printed.
async function asOnPaper(page) {
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.emulateMedia({ media: "print" });
}
async function endPaper(page) {
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await page.emulateMedia({ media: null });
}

async function pagesOf(page, name) {
  const pdf = await page.pdf({ path: `${artefacts}/${name}.pdf`, format: "A4" });
  return [...pdf.toString("latin1").matchAll(/\/MediaBox \[0 0 (\d+)[.\d]* (\d+)/g)].map(([, width, height]) => (Number(width) > Number(height) ? "landscape" : "portrait"));
}

test("the sales of a month: totals by currency, a bar for each day, categories and people", async () => {
  const page = await openReport("#/animals");
  await page.open("Reports");
  await reported(page, "March 2025");
  assert.equal(await page.title(), "Reports · sales · March 2025 · Petstore");
  assert.equal(await total(page, "USD"), "USD\n$800.00\n4 sold $920.00\n1 returned -$120.00");
  assert.equal(await total(page, "EUR"), "EUR\n€99.99\n1 sold €99.99");
  assert.equal(await total(page, "Without a price"), "Without a price\n1 animal\n1 sold");

  const byDay = await sales("day", "2025-03-01", "2025-03-31");
  const expected = Array.from({ length: 31 }, (_, at) => {
    const start = `2025-03-${String(at + 1).padStart(2, "0")}`;
    return valueOf(byDay.groups.find((group) => group.start === start), "USD");
  });
  assert.deepEqual(await bars(page), expected);
  assert.deepEqual([expected[0], expected[2], expected[4]], [45000, 42000, -7000]);
  const chart = region(page, "By day");
  assert.equal(await chart.getByRole("img").getAttribute("aria-label"),
    "Sales by day, March 2025: $800.00 in all, 4 sold, 1 returned. The most: $450.00, Saturday, 1 March 2025.");
  await chart.getByText("Figures of the chart").click();
  assert.deepEqual(await rows(chart), [["Day", "Sold", "Returned", "Sales", "Returns", "Total"],
    ["Saturday, 1 March 2025", "1", "0", "$450.00", "", "$450.00"],
    ["Monday, 3 March 2025", "2", "0", "$420.00", "", "$420.00"],
    ["Wednesday, 5 March 2025", "1", "1", "$50.00", "-$120.00", "-$70.00"]]);
  await chart.getByText("28 days without sales or returns.").waitFor();

  assert.deepEqual(await rows(region(page, "By category")), [["Category", "Sold", "Returned", "Total"],
    ["Dogs", "2", "0", "$750.00"], ["=Birds", "1", "0", "$50.00"], ["Cats", "1", "1", "$0.00"]]);
  assert.deepEqual(await rows(region(page, "By person")), [["Person", "Sold", "Returned", "Total"],
    ["counter-2", "2", "1", "$450.00"], ["Maria", "2", "0", "$350.00"]]);

  await page.getByRole("button", { name: /^EUR/ }).click();
  await page.waitForURL(/#\/reports\?currency=EUR$/);
  await region(page, "By category").getByText("Category 9").waitFor();
  assert.deepEqual(await bars(page), expected.map((_, at) => (at === 30 ? 9999 : 0)));
  await page.getByRole("button", { name: /^Without a price/ }).click();
  await page.waitForURL(/currency=none$/);
  await region(page, "By person").getByText("Maria").waitFor({ state: "detached" });
  assert.deepEqual(await bars(page), expected.map((_, at) => (at === 9 ? 1 : 0)));
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

const days = (month, count) => Array.from({ length: count }, (_, at) => `${month}-${String(at + 1).padStart(2, "0")}`);

test("bars are days, weeks or months, and gaps are filled", async () => {
  const page = await openReport("#/reports");
  for (const [query, name, by, to, starts] of [
    ["period=last-month", /^February 2025$/, "day", "2025-02-28", days("2025-02", 28)],
    ["by=week", /^March 2025$/, "week", "2025-03-31", ["2025-03-01", "2025-03-03", "2025-03-10", "2025-03-17", "2025-03-24", "2025-03-31"]],
    ["period=year", /^2025$/, "month", "2025-12-31", days("2025", 12).map((month) => `${month}-01`)],
    ["period=last-year", /^2024$/, "month", "2024-12-31", days("2024", 12).map((month) => `${month}-01`)],
    ["period=dates&from=2024-12-15&to=2025-03-04&by=month", /^15 December 2024 – 4 March 2025$/, "month", "2025-03-04", ["2024-12-15", "2025-01-01", "2025-02-01", "2025-03-01"]],
    // There is no room for so many days.
    ["period=dates&from=2025-02-24&to=2025-05-04&by=day", /^24 February – 4 May 2025$/, "week", "2025-05-04", ["2025-02-24", "2025-03-03", "2025-03-10", "2025-03-17", "2025-03-24", "2025-03-31", "2025-04-07", "2025-04-14", "2025-04-21", "2025-04-28"]],
  ]) {
    await visit(page, `#/reports?${query}`);
    await page.getByRole("heading", { name, level: 2 }).waitFor();
    const { groups } = await sales(by, starts[0], to);
    assert.deepEqual(await bars(page), starts.map((start) => valueOf(groups.find((group) => group.start === start), "USD")), query);
    await region(page, `By ${by}`).waitFor();
  }
  // One bar says nothing.
  await visit(page, "#/reports?period=dates&from=2025-03-03&to=2025-03-03");
  await reported(page, "3 March 2025");
  assert.equal(await total(page, "USD"), "USD\n$420.00\n2 sold $420.00");
  assert.equal(await page.getByRole("img").count(), 0);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("days are those of the browser's time zone", async () => {
  const page = await openReport("#/reports?currency=EUR", { timeZone: "America/New_York" });
  await reported(page, "March 2025");
  assert.equal((await bars(page)).indexOf(9999), 29);
  assert.equal(await total(page, "USD"), "USD\n$350.00\n3 sold $470.00\n1 returned -$120.00");
  await page.leave();
});

test("keys and the pointer show the figures of a bar, and labels never overlap", async () => {
  const page = await openReport("#/reports");
  await reported(page, "March 2025");
  const tip = page.locator(".tip");
  await page.locator(".plot").focus();
  await page.keyboard.press("Home");
  assert.equal(await tip.innerText(), "Saturday, 1 March 2025\n$450.00\n1 sold");
  for (let step = 0; step < 4; step++) await page.keyboard.press("ArrowRight");
  assert.equal(await tip.innerText(), "Wednesday, 5 March 2025\n-$70.00\n1 sold, 1 returned");
  await page.isAccessible();
  await page.screenshot({ path: `${artefacts}/console-reports-tip.png` });
  await page.keyboard.press("Escape");
  await tip.waitFor({ state: "hidden" });
  const { x, y, width, height } = await page.locator(".plot").boundingBox();
  await page.mouse.move(x + width - 4, y + height / 2);
  assert.match(await tip.innerText(), /^Monday, 31 March 2025\n\$0\.00/);
  await page.mouse.move(x + width / 2, y - 40);
  await tip.waitFor({ state: "hidden" });

  for (const query of ["", "?by=week", "?period=year", "?period=dates&from=2024-12-31&to=2025-03-02&by=day", "?period=dates&from=2022-01-01&to=2026-12-31"]) {
    await visit(page, `#/reports${query}`);
    await page.locator(".report > [aria-busy]").waitFor({ state: "detached" });
    for (const width of [1440, 900, 600, 390, 320]) {
      await page.setViewportSize({ width, height: 800 });
      await page.waitForFunction(() => {
        const [plot, svg] = [".plot", ".plot svg"].map((selector) => document.querySelector(selector));
        return svg.viewBox.baseVal.width === plot.clientWidth;
      });
      const labels = await page.locator(".plot .label").evaluateAll((all) => all.map((label) => label.getBoundingClientRect()).map(({ left, right }) => ({ left, right })));
      assert.ok(labels.length > 1, `${query}, ${width} px`);
      for (const [at, { left, right }] of labels.entries()) {
        assert.ok(right <= width && left >= (labels[at - 1]?.right ?? 0) + 4, `${query}, ${width} px, label ${at}`);
      }
      assert.ok((await page.locator(".plot .bar").count()) <= 62);
      await page.fits();
    }
  }
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the period, the bars and the currency are in the address, kept by a reload and by Back", async () => {
  const page = await openReport("#/reports");
  await reported(page, "March 2025");
  await page.button("This year").click();
  await page.waitForURL(/#\/reports\?period=year$/);
  await region(page, "By month").waitFor();
  await page.button("Week").click();
  await page.waitForURL(/#\/reports\?period=year&by=week$/);
  await region(page, "By week").waitFor();
  await page.getByRole("button", { name: /^EUR/ }).click();
  await page.waitForURL(/by=week&currency=EUR$/);
  await page.reload();
  await reported(page, "2025");
  await region(page, "By week").waitFor();
  for (const name of ["This year", "Week", "Sales"]) assert.equal(await page.button(name).getAttribute("aria-pressed"), "true");
  assert.equal(await page.getByRole("button", { name: /^EUR/ }).getAttribute("aria-pressed"), "true");
  // Another period has its own bars; the register shows the same period.
  await page.button("Last month").click();
  await page.waitForURL(/#\/reports\?period=last-month&currency=EUR$/);
  await reported(page, "February 2025");
  await page.button("Register").click();
  await page.waitForURL(/#\/reports\?view=register&period=last-month&currency=EUR$/);
  await region(page, "Sold").getByText("Feb", { exact: true }).waitFor();
  assert.equal(await page.title(), "Reports · register · February 2025 · Petstore");
  await page.goBack();
  await region(page, "By category").waitFor();
  await page.goBack();
  await reported(page, "2025");
  await region(page, "By week").waitFor();

  await page.button("Own dates").click();
  await page.getByLabel("First day").fill("2025-03-04");
  await page.getByLabel("Last day").fill("2025-03-03");
  await page.getByText("The first day is after the last day.").waitFor();
  await page.getByLabel("First day").fill("2000-03-04");
  await page.getByText("Choose at most five years.").waitFor();
  await page.getByLabel("First day").fill("2025-03-02");
  await page.waitForURL(/period=dates&from=2025-03-02&to=2025-03-03/);
  await page.getByRole("heading", { name: /^2\s?–\s?3 March 2025$/ }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  for (const odd of ["period=constructor&by=__proto__&currency=x&view=toString", "period=dates&from=2025-02-30&to=2025-03-01", "period=dates&from=2025-03-02&to=2025-03-01"]) {
    await visit(page, `#/reports?${odd}`);
    await reported(page, "March 2025");
  }
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("figures are saved as CSV, without formulas", async () => {
  const page = await openReport("#/reports?by=week");
  await region(page, "By week").waitFor();
  const heads = "currency,sold,returned,soldAmount,returnedAmount,amount";
  const byWeek = await savedBy(page, "Download CSV: sales by week");
  assert.equal(byWeek.name, "sales-by-week-2025-03-01-2025-03-31.csv");
  assert.deepEqual(byWeek.lines.slice(0, 8), [`week,${heads}`,
    "2025-03-01,EUR,0,0,0.00,0.00,0.00", "2025-03-01,USD,1,0,450.00,0.00,450.00", "2025-03-01,,0,0,,,",
    "2025-03-03,EUR,0,0,0.00,0.00,0.00", "2025-03-03,USD,3,1,470.00,120.00,350.00", "2025-03-03,,0,0,,,",
    "2025-03-10,EUR,0,0,0.00,0.00,0.00"]);
  assert.equal(byWeek.lines.length, 1 + 6 * 3);
  const byCategory = await savedBy(page, "Download CSV: sales by category");
  assert.deepEqual(byCategory.lines, [`categoryId,category,${heads}`, "1,Dogs,USD,2,0,750.00,0.00,750.00", "1,Dogs,,1,0,,,",
    "2,Cats,USD,1,1,120.00,120.00,0.00", "3,'=Birds,USD,1,0,50.00,0.00,50.00", "9,Category 9,EUR,1,0,99.99,0.00,99.99"]);
  const byPerson = await savedBy(page, "Download CSV: sales by person");
  assert.deepEqual(byPerson.lines.map((line) => line.replace(/^\d+/, "N")), [`keyId,person,${heads}`, "N,counter-2,USD,2,1,570.00,120.00,450.00", "N,counter-2,,1,0,,,",
    "N,Maria,EUR,1,0,99.99,0.00,99.99", "N,Maria,USD,2,0,350.00,0.00,350.00"]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the register lists what was acquired and sold, with returns and deletions", async () => {
  const page = await openReport("#/reports?view=register");
  await page.getByText(/^2 acquired, 6 sold, 1 of them returned, as of \d\d:\d\d$/).waitFor();
  const [acquired, sold] = [await rows(region(page, "Acquired")), await rows(region(page, "Sold"))];
  assert.deepEqual(acquired.map((cells) => [cells[0], cells[1].split(/\s/)[0]]), [["Date", "Animal"], ["2 Mar 2025", "Back"], ["30 Mar 2025", "Euro"]]);
  assert.equal(acquired[1][4], "Not sold");
  assert.match(acquired[2][1], /^Euro no\. \d+\s+Category 9\s+Deleted \d+ \w+ \d{4}$/);
  assert.deepEqual(sold.map(([date, animal]) => `${date} ${animal.split(/\s/)[0]}`), ["Date Animal", "1 Mar 2025 @First", "3 Mar 2025 Kept", "3 Mar 2025 Back", "5 Mar 2025 Small", "10 Mar 2025 Gift", "31 Mar 2025 Euro"]);
  const { id } = (await store.call("GET", "pets?q=First"))[0];
  const [, name, description, from, to, price] = sold[1];
  assert.deepEqual([name, description, from, price].map((cell) => cell.split(/\n+/)), [[`@First no. ${id}`, "Dogs, Beagle"],
    ["female, brown", "Born 2 Jan 2025", "985 112 004 567 890"], ["Happy Tails", "12 Long Lane, Springfield", "Licence 33-A-0123", "Acquired 20 Feb 2025"], ["$450.00"]]);
  assert.match(to, /^Ada Buyer\n+7 Elm Street\n+Order \d+, R-17$/);
  assert.match(sold[3][4], /Returned 5 Mar 2025$/);
  assert.equal(sold[5][5], "");
  // Also that of an animal that was deleted.
  assert.equal(await region(page, "Sold").getByRole("link", { name: "Euro" }).count(), 1);

  const saved = await savedBy(page, "Download CSV: sold");
  assert.equal(saved.name, "register-sold-2025-03-01-2025-03-31.csv");
  assert.ok(saved.lines.some((line) => line.startsWith(`sold,${id},'@First,1,Dogs,Beagle,female,2025-01-02,brown,985112004567890,2025-02-20,Happy Tails,`)));
  for (const cell of ["'#N/A", "'-grey", "''=x", "' R;'=1 "]) assert.ok(saved.lines.some((line) => line.includes(`,${cell},`)), cell);
  await page.getByText("Animals without a date of acquisition are not listed here. 3 animals sold in this period have none.").waitFor();
  const stray = await store.add("Stray");
  await store.add("Dated", { acquiredOn: "2017-01-01" });
  await page.reload();
  await page.getByText("Animals without a date of acquisition are not listed here. 1 animal in stock has none. 3 animals sold in this period have none.").waitFor();
  await store.call("DELETE", `pets/${stray.id}`);
  // As the command line writes it.
  const command = ["register", "--from", "2025-03-01", "--to", "2025-03-31", "--time-zone", TIME_ZONE, "--database", `sqlite:${store.service.file}`];
  const written = execFileSync(process.env.PETSTORE_BINARY, command, { stdio: "pipe" }).toString().replace("\uFEFF", "").trimEnd().split(/\r?\n/);
  const { lines } = await savedBy(page, "Download CSV: acquired");
  assert.deepEqual([...lines, ...saved.lines.slice(1)], written);

  await region(page, "Sold").getByRole("link", { name: "@First" }).click();
  await page.panel.getByRole("heading", { name: "@First" }).waitFor();
  await page.goBack();
  await region(page, "Sold").getByRole("link", { name: /^Order / }).first().click();
  await page.panel.getByText("Ada Buyer").first().waitFor();
  await visit(page, "#/reports?view=register&period=dates&from=2020-01-01&to=2020-01-31");
  await page.getByText("No animal was acquired in this period.").waitFor();
  await page.getByText("No animal was sold in this period.").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a long register is loaded page by page, and its table ends before the browser does", async () => {
  const changes = Array.from({ length: 1050 }, (_, at) => ({ create: { name: `Many ${at}`, categoryId: 1, acquiredOn: "2019-05-06" } }));
  for (let at = 0; at < changes.length; at += 100) await store.call("POST", "pets/batch", { changes: changes.slice(at, at + 100) });
  const page = await openReport("#/reports?view=register&period=dates&from=2019-05-01&to=2019-05-31");
  await page.getByText(/^1,050 acquired, 0 sold/).waitFor();
  assert.equal((await rows(region(page, "Acquired"))).length, 1001);
  const notice = page.getByText("The table has the first 1,000, paper has all 1,050, and the CSV file has all 1,050.");
  await notice.waitFor();
  assert.equal((await savedBy(page, "Download CSV: acquired")).lines.length, 1051);
  // The paper has all rows, and says so.
  await pagesOf(page, "console-register-long");
  assert.equal((await rows(region(page, "Acquired"))).length, 1001);
  await asOnPaper(page);
  assert.equal(await page.locator(".entries tbody tr").count(), 1050);
  await region(page, "Acquired").getByText("Rows 1 to 1,050 of 1,050").waitFor();
  assert.equal(await notice.count(), 0);
  await endPaper(page);
  await notice.waitFor();
  assert.equal((await rows(region(page, "Acquired"))).length, 1001);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a register that is not loaded as a whole says so everywhere", async () => {
  const page = await openReport("#/reports?view=register&period=dates&from=2016-01-01&to=2016-12-31");
  await page.getByText(/^0 acquired, more than 10,000 sold, at least 100 of them returned, as of/).waitFor();
  await region(page, "Sold").getByText("more than 10,000 animals", { exact: true }).waitFor();
  const command = /petstore register --from 2016-01-01 --to 2016-12-31 --time-zone Europe\/Berlin/;
  await page.getByText(/^The table has the first 1,000, paper has the first 2,000, and the CSV file has the first 10,000\. Choose a shorter period to print them all, or run/).getByText(command).waitFor();
  assert.equal((await savedBy(page, "Download CSV: sold")).lines.length, 10_001);
  await asOnPaper(page);
  await page.getByText(/^0 acquired, more than 10,000 sold/).waitFor();
  await page.getByText(/^This list is not complete: it ends after 2,000 of more than 10,000\. Choose a shorter period, or run/).getByText(command).waitFor();
  await region(page, "Sold").getByText("Rows 1 to 2,000 of more than 10,000").waitFor();
  await region(page, "Sold").getByText("more than 10,000 animals", { exact: true }).waitFor();
  assert.equal(await page.locator(".entries tbody tr").count(), 2000);
  await endPaper(page);
  assert.equal(await page.locator(".entries tbody tr").count(), 1000);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

// Lists are shown as on paper by rules that must not hide the content of a report.
test("every text of a report and of the register is on paper, and no other", async () => {
  const page = await openReport("#/reports");
  for (const [hash, ready, expected] of [
    ["#/reports", "By person", { "By category": ["Dogs", "Cats", "=Birds"], "By person": ["counter-2", "Maria"] }],
    ["#/reports?view=register", "Sold", { Acquired: ["Not sold", "No chip"], Sold: ["985 112 004 567 890", "No chip", "Not recorded", "Returned 5 Mar 2025", "Deleted ", "Ada Buyer", "@First", "Happy Tails", "Dogs, Beagle"] }],
  ]) {
    await visit(page, hash);
    await region(page, ready).waitFor();
    const names = Object.keys(expected);
    // Paper has wider columns and letters of one case, and no buttons.
    const textOf = async (name) => (await rows(region(page, name))).map((cells) => cells.join("|").replaceAll(/\s+/g, " "));
    const onScreen = await Promise.all(names.map(textOf));
    await asOnPaper(page);
    for (const [at, name] of names.entries()) {
      const texts = await textOf(name);
      assert.deepEqual(texts, onScreen[at], name);
      for (const text of expected[name]) assert.ok(texts.join("\n").includes(text), `${text} in ${texts.join("\n")}`);
    }
    const generated = await page.locator("main *").evaluateAll((all) => all.flatMap((element) => ["::before", "::after"].map((part) => getComputedStyle(element, part).content))
      .filter((content) => !["none", "normal", '""'].includes(content)));
    assert.deepEqual(generated.filter((content) => /first/i.test(content)), []);
    await page.screenshot({ path: `${artefacts}/console-${names.at(-1).replace(" ", "-")}-paper.png`, fullPage: true });
    await endPaper(page);
  }
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("reports and the register are printed as documents", async () => {
  const page = await openReport("#/reports");
  await region(page, "By category").waitFor();
  assert.deepEqual(await pagesOf(page, "console-report"), ["portrait"]);
  // As on paper: no controls, but the figures of the chart.
  const onPaper = async () => {
    await asOnPaper(page);
    for (const role of ["textbox", "navigation", "link"]) assert.equal(await page.getByRole(role).count(), 0, role);
    assert.equal(await page.locator(".btn:visible, .tabs:visible").count(), 0);
    await page.getByText(/^Printed on \w+day,? \d+ \w+ \d{4}/).waitFor();
    await page.fits();
  };
  await onPaper();
  await page.getByRole("heading", { name: "Sales, March 2025" }).waitFor();
  await region(page, "By day").getByText("Wednesday, 5 March 2025").waitFor();
  await page.emulateMedia({ media: null });

  const changes = Array.from({ length: 60 }, (_, at) => ({ create: { name: `Printed ${at}`, categoryId: 1, acquiredOn: "2018-05-06", source: SOURCE } }));
  await store.call("POST", "pets/batch", { changes });
  await visit(page, "#/reports?view=register&period=dates&from=2018-05-01&to=2018-05-31");
  await page.getByText(/^60 acquired, 0 sold/).waitFor();
  const pages = await pagesOf(page, "console-register");
  assert.ok(pages.length > 2 && pages.length < 12, `${pages.length} pages`);
  assert.deepEqual(new Set(pages), new Set(["landscape"]));
  // Other screens are printed upright.
  await page.open("Categories");
  await page.getByRole("cell", { name: "Dogs", exact: true }).waitFor();
  assert.deepEqual(await pagesOf(page, "console-categories"), ["portrait"]);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("reports follow sales and returns as they happen", async () => {
  const day = (offset) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
  const page = await store.open({ timeZone: "UTC" });
  await page.live();
  await visit(page, `#/reports?period=dates&from=${day(-2)}&to=${day(2)}`);
  await page.getByRole("heading", { name: "No sales yet" }).waitFor();
  await page.inspect("reports-empty");
  const { id } = await store.order("Live", { price: { amount: 1234, currency: "USD" } });
  await store.call("POST", `store/orders/${id}/complete`);
  await page.getByText("$12.34").first().waitFor();
  await visit(page, `#/reports?view=register&period=dates&from=${day(-2)}&to=${day(2)}`);
  await region(page, "Sold").getByRole("link", { name: "Live" }).waitFor();
  await store.call("POST", `store/orders/${id}/return`);
  await region(page, "Sold").getByText(/^Returned /).waitFor();
  await page.button("Sales").click();
  await page.getByText("1 returned -$12.34").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a report is read again only if its period has changed, and while its page is visible", async () => {
  const { id } = await store.order("Corrected", { price: { amount: 100, currency: "USD" } });
  await store.call("POST", `store/orders/${id}/complete`);
  const today = new Date().toISOString().slice(0, 10);
  const page = await store.open({ timeZone: "UTC" });
  await page.live();
  let reads = [];
  page.on("request", (request) => /store\/sales/.test(request.url()) && reads.push(new URL(request.url()).searchParams.get("by")));
  await visit(page, "#/reports?period=dates&from=2025-03-01&to=2025-03-31");
  await region(page, "By category").waitFor();
  assert.deepEqual(reads.splice(0).sort(), ["category", "day", "key"]);
  // What was read is shown in another currency, and with other bars.
  await page.getByRole("button", { name: /^EUR/ }).click();
  await page.waitForURL(/currency=EUR$/);
  await page.button("Week").click();
  await region(page, "By week").waitFor();
  await page.button("Day").click();
  await region(page, "By day").waitFor();
  assert.deepEqual(reads.splice(0), ["week"]);

  // A sale of today is not in March, and a correction of one in March is.
  await page.stopClock();
  const { id: other } = await store.order("Other", { price: { amount: 100, currency: "USD" } });
  await store.call("POST", `store/orders/${other}/complete`);
  await new Promise((resolve) => setTimeout(resolve, 500));
  await page.clock.runFor(3000);
  assert.deepEqual(reads, []);
  const euro = (await store.call("GET", "store/orders?limit=100")).find(({ price }) => price?.currency === "EUR");
  const correct = async (amount) => {
    await store.call("PATCH", `store/orders/${euro.id}`, { price: { amount, currency: "EUR" } });
    return async () => (await total(page, "EUR")).includes(`€${amount / 100}`);
  };
  await page.runUntil(await correct(7777));
  assert.deepEqual(reads.splice(0).sort(), ["category", "day", "key"]);
  // Nobody can see it.
  const hide = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await hide(true);
  const isShown = await correct(8888);
  await page.clock.runFor(20_000);
  assert.deepEqual(reads, []);
  await hide(false);
  await page.runUntil(isShown);
  assert.deepEqual(reads.splice(0).sort(), ["category", "day", "key"]);
  await page.runUntil(await correct(9999));
  assert.equal(euro.completedAt.slice(0, 10) < today, true);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a report that cannot be loaded says why, and is loaded when the connection is back", async () => {
  const page = await openReport("#/reports");
  await region(page, "By category").waitFor();
  const LOST = /ERR_|Failed to (load|fetch)/;
  await page.route(/\/v1\/store\/(sales|register)\?/, (route) => route.abort());
  for (const [hash, ready] of [["#/reports?period=last-month", "By category"], ["#/reports?view=register", "Sold"]]) {
    await page.evaluate((hash) => (location.hash = hash), hash);
    await page.getByText("The connection to the service was lost.").waitFor();
    await page.isAccessible();
    await page.unrouteAll();
    // The event stream may show first that the connection is back.
    await page.button("Try again").or(region(page, ready)).first().click();
    await region(page, ready).waitFor();
    await page.route(/\/v1\/store\/(sales|register)\?/, (route) => route.abort());
  }
  await page.unrouteAll();
  // What was shown before is shown without a connection, too.
  await visit(page, "#/reports?period=last-year");
  await reported(page, "2024");
  await page.goOffline();
  await page.getByText(/^No connection/).waitFor();
  await page.button("This month").click();
  await reported(page, "March 2025");
  await region(page, "By category").getByText("Dogs").waitFor();
  await page.button("Today").click();
  await page.getByText("The connection to the service was lost.").waitFor();
  await page.goOnline();
  await reported(page, "18 March 2025");
  assert.deepEqual(page.problems(LOST), []);
  await page.leave();
});

test("a key sees the reports that its scopes allow", async () => {
  const orders = await openReport("#/reports?view=register", { key: store.service.createKeyNamed("orders", "--scope", "orders:read") });
  await region(orders, "By category").getByText("Category 1").waitFor();
  assert.equal(await orders.button("Register").count(), 0);
  assert.deepEqual(orders.problems(), []);
  await orders.leave();
  const pets = await store.open({}, store.service.createKeyNamed("pets", "--scope", "pets:read"));
  await pets.live();
  assert.equal(await pets.getByRole("link", { name: "Reports" }).count(), 0);
  await pets.evaluate(() => (location.hash = "#/reports"));
  await pets.getByText("Your access does not include this page.").waitFor();
  await pets.leave();
});

test("reports look good on a desktop and on a phone, light and dark", async () => {
  const page = await openReport("#/reports");
  await region(page, "By category").waitFor();
  await page.getByText("Figures of the chart").click();
  await page.inspect("reports");
  await visit(page, "#/reports?period=year");
  await region(page, "By month").waitFor();
  await page.inspect("reports-year");
  await visit(page, "#/reports?view=register");
  await region(page, "Sold").getByText("Gift").waitFor();
  await page.inspect("register");
  await page.keyboard.press("?");
  await page.getByText("Show the figures of a chart, bar by bar").waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
