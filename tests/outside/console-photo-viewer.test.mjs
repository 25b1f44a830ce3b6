// Photos in the console once they are there: the viewer, their order, deleting, other browsers, and loading only what is visible.

import assert from "node:assert/strict";
import { test } from "node:test";
import { useConsole } from "./console.mjs";
import { colorOf, COLORS, image, noise, photoTools } from "./photos.mjs";

const store = useConsole({
  async prepare({ call }) {
    await call("PUT", "categories/1", { name: "Dogs" });
  },
});
const { addWith, openAnimal, photosOf, post, shows, tiles } = photoTools(store);

// While the button of a message that offers to undo has the focus, the message stays, however long a test takes.
const keepOffered = (page) => page.locator("#toasts").getByRole("button", { name: "Undo" }).focus();
const viewer = (page) => page.getByRole("dialog", { name: /^Photos of / });
const inViewer = async (page, place, color) => {
  await viewer(page).getByRole("img", { name: place, exact: true }).and(page.locator("[src]")).waitFor();
  assert.equal(await colorOf(viewer(page).locator(".whole")), color);
};
const tile = (page, place) => page.locator(".tiles").getByRole("button", { name: place, exact: true });
const swipe = async (page, from, to) => {
  const session = await page.context().newCDPSession(page);
  const send = (type, x) => session.send("Input.dispatchTouchEvent", { type, touchPoints: type === "touchEnd" ? [] : [{ x, y: 400 }] });
  await send("touchStart", from);
  for (let step = 1; step <= 5; step++) await send("touchMove", from + ((to - from) * step) / 5);
  await send("touchEnd");
  await session.detach();
};

test("the viewer is moved by keys and buttons, and gives the focus back", async () => {
  const { id } = await addWith("Rex", "red", "green", "blue");
  const page = await openAnimal(id);
  await shows(page, "red", "green", "blue");
  await tile(page, "Photo 2 of 3 of Rex").click();
  await inViewer(page, "Photo 2 of 3 of Rex", "green");
  await page.focused("button", "Close");
  await page.inspect("photo-viewer");
  await page.keyboard.press("ArrowRight");
  await inViewer(page, "Photo 3 of 3 of Rex", "blue");
  assert.equal(await page.button("Next photo").count(), 0);
  await page.keyboard.press("ArrowRight");
  await inViewer(page, "Photo 3 of 3 of Rex", "blue");
  await page.keyboard.press("Home");
  await inViewer(page, "Photo 1 of 3 of Rex", "red");
  assert.equal(await page.button("Make it the cover").count(), 0);
  await page.button("Next photo").click();
  await inViewer(page, "Photo 2 of 3 of Rex", "green");
  await page.keyboard.press("End");
  await inViewer(page, "Photo 3 of 3 of Rex", "blue");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Escape");
  await viewer(page).waitFor({ state: "detached" });
  await page.locator(".tiles [data-photo]:nth-child(2) button:focus").waitFor();
  // The panel is open still.
  await page.panel.getByRole("heading", { name: "Rex" }).waitFor();
  await page.locator(".cover button").click();
  await inViewer(page, "Photo 1 of 3 of Rex", "red");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("the viewer is moved by swipes", async () => {
  const { id } = await addWith("Swift", "red", "green");
  const page = await openAnimal(id, { width: 390, height: 844 });
  await shows(page, "red", "green");
  await page.locator(".cover button").click();
  await inViewer(page, "Photo 1 of 2 of Swift", "red");
  await swipe(page, 300, 80);
  await inViewer(page, "Photo 2 of 2 of Swift", "green");
  // There is no other one.
  await swipe(page, 300, 80);
  await inViewer(page, "Photo 2 of 2 of Swift", "green");
  // A short way is no swipe.
  await swipe(page, 200, 230);
  await inViewer(page, "Photo 2 of 2 of Swift", "green");
  await swipe(page, 80, 300);
  await inViewer(page, "Photo 1 of 2 of Swift", "red");
  assert.equal(await page.locator(".frame").evaluate(({ style }) => style.translate), "");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("photos are put in another order with keys, the mouse and a button; the first is the cover", async () => {
  const { id, photos: [red, green, blue] } = await addWith("Sorted", "red", "green", "blue");
  const page = await openAnimal(id);
  await shows(page, "red", "green", "blue");
  const isSaved = async (...ids) => assert.deepEqual(await photosOf(id), ids);
  const coverShows = (photo) => page.waitForFunction((photo) => document.querySelector(`.cover img[data-picture*="photos/${photo}?size=full"][src]`), photo);
  await tile(page, "Photo 3 of 3 of Sorted").focus();
  const put = () => page.waitForResponse((response) => response.request().method() === "PUT" && response.ok());
  await Promise.all([put(), page.keyboard.press("Shift+ArrowLeft")]);
  await shows(page, "red", "blue", "green");
  await page.focused("button", "Photo 2 of 3 of Sorted");
  await Promise.all([put(), page.keyboard.press("Shift+ArrowLeft")]);
  await page.getByRole("status").filter({ hasText: "Photo 1 of 3 of Sorted, the cover." }).waitFor({ state: "attached" });
  await shows(page, "blue", "red", "green");
  await coverShows(blue);
  await isSaved(blue, red, green);
  assert.equal(await colorOf(page.locator(`tr[data-key="${id}"] .photo img[src]`)), "blue");
  await page.keyboard.press("ArrowRight");
  await page.focused("button", "Photo 2 of 3 of Sorted");

  const [from, to] = await Promise.all([1, 3].map((place) => tile(page, `Photo ${place} of 3 of Sorted`).boundingBox()));
  await page.mouse.move(from.x + 20, from.y + 20);
  await page.mouse.down();
  await page.mouse.move(to.x + 20, to.y + 24, { steps: 5 });
  await page.locator(".dragged").waitFor();
  await Promise.all([put(), page.mouse.up()]);
  await shows(page, "red", "green", "blue");
  await isSaved(red, green, blue);
  // The click that ended it has opened nothing.
  assert.equal(await viewer(page).count(), 0);
  await tile(page, "Photo 2 of 3 of Sorted").click();
  await Promise.all([put(), page.button("Make it the cover").click()]);
  await inViewer(page, "Photo 1 of 3 of Sorted", "green");
  await isSaved(green, red, blue);
  await page.keyboard.press("Escape");
  await shows(page, "green", "red", "blue");
  await page.locator(".history").getByText("Photos reordered").first().waitFor();
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a finger that rests on a photo moves it, and one that does not scrolls", async () => {
  const { id, photos: [red, green, blue] } = await addWith("Touched", "red", "green", "blue");
  const page = await openAnimal(id, { width: 390, height: 844 });
  await shows(page, "red", "green", "blue");
  const [from, to] = await Promise.all([3, 1].map((place) => tile(page, `Photo ${place} of 3 of Touched`).boundingBox()));
  const session = await page.context().newCDPSession(page);
  const touch = (type, box) => session.send("Input.dispatchTouchEvent", { type, touchPoints: box ? [{ x: box.x + 20, y: box.y + 20 }] : [] });
  // It moves at once.
  await touch("touchStart", from);
  await touch("touchMove", { x: from.x, y: from.y - 60 });
  await touch("touchEnd");
  assert.equal(await page.locator(".dragged").count(), 0);
  // It slides on for a moment.
  const scrolled = () => page.locator(".panel").evaluate((panel) => panel.scrollTop);
  let top;
  do {
    top = await scrolled();
    await page.waitForTimeout(300);
  } while (!top || top !== await scrolled());
  await page.locator(".panel").evaluate((panel) => panel.scrollTo(0, 0));
  assert.deepEqual(await tile(page, "Photo 3 of 3 of Touched").boundingBox(), from);

  await touch("touchStart", from);
  await page.locator(".dragged").waitFor();
  await touch("touchMove", to);
  await Promise.all([page.waitForResponse((response) => response.request().method() === "PUT" && response.ok()), touch("touchEnd")]);
  await shows(page, "blue", "red", "green");
  assert.deepEqual(await photosOf(id), [blue, red, green]);
  assert.equal(await viewer(page).count(), 0);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a new order keeps a photo that another browser has just added", async () => {
  const { id, photos: [red, green] } = await addWith("Shared", "red", "green");
  const page = await openAnimal(id);
  await shows(page, "red", "green");
  let blue;
  // It is added after the page has read the animal, before it writes the order.
  await page.route(`**/v1/pets/${id}/photos`, async (route) => {
    blue ??= (await post(id, image(COLORS.blue))).id;
    await route.continue();
  });
  await tile(page, "Photo 2 of 2 of Shared").focus();
  await Promise.all([page.waitForResponse((response) => response.request().method() === "PUT" && response.ok()), page.keyboard.press("Shift+ArrowLeft")]);
  await shows(page, "green", "red", "blue");
  assert.deepEqual(await photosOf(id), [green, red, blue]);
  assert.deepEqual(page.problems(/status of 412/), []);
  await page.leave();
});

test("a photo is deleted and brought back, in all browsers", async () => {
  const { id, photos } = await addWith("Undone", "red", "green", "blue");
  const [page, other] = await Promise.all([openAnimal(id), openAnimal(id, { width: 390, height: 844, dark: true })]);
  await Promise.all([page, other].map((one) => shows(one, "red", "green", "blue")));
  await tile(page, "Photo 2 of 3 of Undone").click();
  await page.button("Delete").click();
  await keepOffered(page);
  await inViewer(page, "Photo 2 of 2 of Undone", "blue");
  await shows(other, "red", "blue");
  await viewer(page).getByText("A photo of Undone was deleted.").waitFor();
  await page.inspect("photo-deleted");
  await page.button("Undo").click();
  await inViewer(page, "Photo 3 of 3 of Undone", "blue");
  await page.keyboard.press("Escape");
  for (const one of [page, other]) await shows(one, "red", "green", "blue");
  assert.deepEqual(await photosOf(id), photos);

  await tile(page, "Photo 1 of 3 of Undone").focus();
  await page.keyboard.press("Delete");
  await page.focused("button", "Photo 1 of 2 of Undone");
  await keepOffered(page);
  await shows(page, "green", "blue");
  await shows(other, "green", "blue");
  await page.locator("#toasts").getByRole("button", { name: "Undo" }).click();
  for (const one of [page, other]) await shows(one, "red", "green", "blue");
  assert.deepEqual(await photosOf(id), photos);
  for (const one of [page, other]) {
    assert.deepEqual(one.problems(), []);
    await one.leave();
  }
});

test("the last photo leaves the invitation to add one", async () => {
  const { id } = await addWith("Single", "red");
  const page = await openAnimal(id);
  await shows(page, "red");
  await page.locator(".cover button").click();
  await inViewer(page, "Photo 1 of 1 of Single", "red");
  await page.button("Delete").click();
  await viewer(page).waitFor({ state: "detached" });
  await keepOffered(page);
  await page.getByText("or drop them here").waitFor();
  assert.deepEqual(await photosOf(id), []);
  await page.inspect("photos-none");
  await page.locator("#toasts").getByRole("button", { name: "Undo" }).click();
  await shows(page, "red");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a photo that another browser adds is shown at once, in the panel, the list and the viewer", async () => {
  const { id } = await store.add("Watched");
  const page = await openAnimal(id);
  await page.getByText("or drop them here").waitFor();
  await post(id, image(COLORS.red));
  await shows(page, "red");
  await page.locator(`tr[data-key="${id}"] .photo img[src]`).waitFor();
  await page.locator(".cover button").click();
  await inViewer(page, "Photo 1 of 1 of Watched", "red");
  await post(id, image(COLORS.green));
  await page.button("Next photo").click();
  await inViewer(page, "Photo 2 of 2 of Watched", "green");
  await store.call("DELETE", `pets/${id}`);
  await viewer(page).waitFor({ state: "detached" });
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a key that can only read sees photos, and nothing that changes them", async () => {
  const reader = store.service.createKeyNamed("looker", "--scope", "pets:read");
  const [{ id }, { id: bare }] = [await addWith("Looked at", "red", "green"), await store.add("Without")];
  const page = await openAnimal(id, {}, reader);
  await shows(page, "red", "green");
  assert.equal(await page.button("Add photos").count(), 0);
  await tile(page, "Photo 2 of 2 of Looked at").focus();
  await page.keyboard.press("Shift+ArrowLeft");
  await page.keyboard.press("Delete");
  await tile(page, "Photo 2 of 2 of Looked at").click();
  await inViewer(page, "Photo 2 of 2 of Looked at", "green");
  for (const name of ["Delete", "Make it the cover"]) assert.equal(await page.button(name).count(), 0);
  await page.keyboard.press("Delete");
  await page.keyboard.press("Escape");
  await shows(page, "red", "green");
  await page.evaluate((id) => (location.hash = `#/animals/${id}`), bare);
  await page.panel.getByRole("heading", { name: "Without" }).waitFor();
  assert.equal(await page.locator(".photos:not([hidden])").count(), 0);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("only pictures that are visible are loaded, a few at a time, and once", async () => {
  const names = Array.from({ length: 40 }, (_, at) => `Row ${at}`);
  for (const name of names) await addWith(name, "yellow");
  const first = await store.open();
  await first.live();
  // A page that is signed in by the other one: its requests are counted from the first one on.
  const page = await first.context().newPage();
  /** The pictures that were requested, and the most at the same time. */
  const asked = [];
  let open = 0;
  let most = 0;
  const isPicture = (request) => /\/photos\/\d+\?/.test(request.url());
  page.on("request", (request) => isPicture(request) && (asked.push(request.url()), (most = Math.max(most, ++open))));
  for (const event of ["requestfinished", "requestfailed"]) page.on(event, (request) => isPicture(request) && open--);
  await page.goto(`${store.service.address}/console`);
  const loaded = () => page.waitForFunction(() => document.querySelector("tr .photo img") && [...document.querySelectorAll("tr .photo img")].every((img) => {
    const { top, bottom } = img.getBoundingClientRect();
    return bottom < 0 || top > innerHeight || img.src;
  }));
  await loaded();
  assert.ok(asked.length >= 10 && asked.length < 30, `${asked.length} of the pictures were loaded`);
  assert.ok(asked.every((url) => url.includes("size=thumb&digest=")));
  for (const name of ["Row 0", "Row 39"]) {
    await page.getByRole("link", { name, exact: true }).scrollIntoViewIfNeeded();
    await loaded();
  }
  assert.equal(new Set(asked).size, asked.length, "a picture was loaded twice");
  assert.ok(most <= 4, `${most} at the same time`);
  assert.deepEqual(first.problems(), []);
  await first.leave();
});

test("pictures are kept within bounds, and loaded again when they are wanted again", async () => {
  const { id } = await store.add("Heavy");
  // In full, each has more than 2 MB as a JPEG.
  const picture = noise(1600, 1200);
  for (let at = 0; at < 8; at++) await post(id, picture);
  const page = await openAnimal(id);
  await page.addInitScript(() => {
    const { createObjectURL, revokeObjectURL } = URL;
    window.kept = new Map();
    URL.createObjectURL = (blob) => {
      const url = createObjectURL.call(URL, blob);
      kept.set(url, blob.size);
      return url;
    };
    URL.revokeObjectURL = (url) => {
      kept.delete(url);
      revokeObjectURL.call(URL, url);
    };
  });
  await page.reload();
  await page.locator(".cover button").click();
  const shown = (place) => viewer(page).getByRole("img", { name: `Photo ${place} of 8 of Heavy` }).and(page.locator("[src]")).waitFor();
  const addressOfCover = () => page.locator(".cover .whole[src]").getAttribute("src");
  await shown(1);
  const cover = await addressOfCover();
  for (let place = 1; place <= 8; place++) {
    await shown(place);
    await page.keyboard.press("ArrowRight");
  }
  // What is shown beside it was not dropped.
  assert.equal(await addressOfCover(), cover);
  const sizes = await page.evaluate(() => [...kept.values()]);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(total > 8 * 2 ** 20 && total <= 16 * 2 ** 20, `${total} bytes are kept`);
  assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll("img[src^='blob:']")].filter(({ src }) => !kept.has(src)).length), 0);
  for (let place = 7; place > 1; place--) {
    await page.keyboard.press("ArrowLeft");
    await shown(place);
  }
  await viewer(page).locator(".whole").evaluate((img) => img.decode());
  assert.deepEqual(page.problems(), []);
  await page.leave();
});
