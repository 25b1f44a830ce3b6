// Adding photos in the console: choosing, dropping, progress, lost connections, files that are no photos.

import assert from "node:assert/strict";
import { test } from "node:test";
import { artefacts, startProxy, useConsole } from "./console.mjs";
import { BLUE, colorOf, file, image, LOST, noise, photoTools, RED } from "./photos.mjs";

const store = useConsole({
  async prepare({ call }) {
    await call("PUT", "categories/1", { name: "Dogs" });
  },
});
const { choose, drop, openAnimal, photosOf, shows, tiles } = photoTools(store);

for (const [device, look] of [["a desktop", { width: 1440, height: 900 }], ["a phone, dark", { width: 390, height: 844, dark: true, touch: true }]]) {
  test(`on ${device}, photos are chosen and dropped, and keep their order`, async () => {
    const { id } = await store.add(`Model on ${device}`);
    const page = await openAnimal(id, look);
    await page.isAccessible();
    await page.screenshot({ path: `${artefacts}/console-photos-first-${look.width}.png` });
    if (look.touch) {
      const camera = await choose(page, [file("red.png")], "Take a picture");
      assert.equal(await camera.element().getAttribute("capture"), "environment");
      await shows(page, "red");
      await choose(page, [file("green.png")], "Take a picture");
    } else {
      assert.equal(await page.button("Take a picture").count(), 0);
      await choose(page, [file("red.png"), file("green.png")]);
    }
    await shows(page, "red", "green");
    assert.deepEqual(await drop(page, ".panel", [file("blue.png"), file("yellow.png")]), [true, true]);
    await shows(page, "red", "green", "blue", "yellow");
    assert.equal((await photosOf(id)).length, 4);
    const front = page.getByRole("button", { name: `Photo 1 of 4 of Model on ${device}` }).first();
    await front.waitFor();
    assert.equal(await colorOf(page.locator(".cover .whole[src]")), "red");
    await page.locator(".history").getByText("Photo added").first().waitFor();
    await page.screenshot({ path: `${artefacts}/console-photos-several-${look.width}.png` });
    await page.isAccessible();
    await page.fits();
    // Beside the panel, a file is not opened instead of the page.
    assert.deepEqual(await drop(page, "header", [file("red.png")]), [true, true]);
    assert.equal(await page.locator(".uploading").count(), 0);
    await page.getByRole("link", { name: "Close" }).click();
    assert.equal(await colorOf(page.locator(`tr[data-key="${id}"] .photo img[src]`)), "red");
    await page.isAccessible();
    await page.fits();
    assert.deepEqual(page.problems(), []);
    await page.leave();
  });
}

test("an animal without photos has its initial in the list", async () => {
  const { id } = await store.add("Quiet");
  const page = await openAnimal(id);
  const place = page.locator(`tr[data-key="${id}"] .photo`);
  assert.equal(await place.locator("img").count(), 0);
  assert.equal(await place.evaluate((element) => getComputedStyle(element, "::before").content), '"Q"');
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a picture is shown before it has arrived, with its progress", async () => {
  const { id } = await store.add("Slow");
  const page = await openAnimal(id);
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  await network.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 40_000 });
  await choose(page, [file("large.png", noise(900, 500)), file("green.png")]);
  await page.getByRole("status").filter({ hasText: "Uploading 2 photos…" }).waitFor();
  const progress = page.getByRole("progressbar", { name: "Uploading large.png" });
  await page.locator(".uploading img[src^='blob:']").nth(1).waitFor();
  await page.locator(".cover img[src^='blob:']").waitFor();
  assert.deepEqual(await photosOf(id), []);
  await page.waitForFunction((bar) => bar.value > 0 && bar.value < 1, await progress.elementHandle());
  await page.inspect("photos-uploading");
  assert.deepEqual(await photosOf(id), []);
  await network.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await page.waitForFunction(() => document.querySelectorAll(".tiles [data-photo]").length === 2 && !document.querySelector(".uploading"));
  await page.locator(".sending").waitFor({ state: "hidden" });
  assert.equal(await colorOf(tiles(page).nth(1)), "green");
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("what waits can be cancelled, and uploads continue beside another animal", async () => {
  const [{ id: first }, { id: second }] = [await store.add("Leaving"), await store.add("Another")];
  const page = await openAnimal(first);
  const release = await page.hold(`**/v1/pets/${first}/photos`);
  await choose(page, [file("red.png"), file("green.png")]);
  await page.locator(".uploading").nth(1).waitFor();
  await page.evaluate((id) => (location.hash = `#/animals/${id}`), second);
  await page.panel.getByRole("heading", { name: "Another" }).waitFor();
  assert.equal(await page.locator(".uploading").count(), 0);
  await page.evaluate((id) => (location.hash = `#/animals/${id}`), first);
  await page.locator(".uploading img").nth(1).waitFor();
  await page.evaluate((id) => (location.hash = `#/animals/${id}`), second);
  await page.panel.getByRole("heading", { name: "Another" }).waitFor();
  await release();
  await page.locator(`tr[data-key="${first}"] .photo img[src]`).waitFor();
  await page.open("Leaving");
  await shows(page, "red", "green");

  await page.route(`**/v1/pets/${first}/photos`, () => {});
  await choose(page, [file("blue.png"), file("yellow.png")]);
  await page.locator(".uploading").nth(1).waitFor();
  await page.panel.getByRole("button", { name: "Cancel", exact: true }).click();
  await shows(page, "red", "green");
  assert.equal((await photosOf(first)).length, 2);
  assert.deepEqual(page.problems(LOST), []);
  await page.leave();
});

test("an upload whose response is lost is made once", async () => {
  const { id } = await store.add("Flaky");
  const proxy = await startProxy(store.service.address);
  const page = await openAnimal(id, {}, store.key, proxy.address);
  proxy.dropResponses(true);
  await choose(page, [file("red.png"), file("green.png")]);
  await page.getByText("The connection was lost. Uploading continues when it is back.").waitFor();
  await page.getByText(/^No connection/).waitFor();
  await page.inspect("photos-lost");
  // The first attempt has arrived.
  assert.equal((await photosOf(id)).length, 1);
  assert.equal(await page.locator(".tiles li.uploading").count(), 2);
  proxy.dropResponses(false);
  await shows(page, "red", "green");
  assert.equal((await photosOf(id)).length, 2);
  assert.equal((await store.call("GET", `events?subject=pets/${id}`)).length, 3);
  assert.deepEqual(page.problems(LOST), []);
  await page.leave();
  await proxy.close();
});

test("an upload that was given up is tried again as the same one", async () => {
  const { id } = await store.add("Given up");
  const page = await openAnimal(id);
  await page.clock.install();
  const keys = new Set();
  let isLost = true;
  await page.route(`**/v1/pets/${id}/photos`, async (route) => {
    keys.add(route.request().headers()["idempotency-key"]);
    // The photo is stored, and only the response is lost.
    if (isLost) await route.fetch().then(() => route.abort());
    else await route.continue();
  });
  await choose(page, [file("red.png")]);
  // The event of the photo arrives, but it is not shown beside its own upload.
  await page.locator(".history").getByText("Photo added").waitFor();
  assert.deepEqual([await page.locator(".uploading").count(), await page.locator(".tiles [data-photo]").count()], [1, 0]);
  const failure = page.locator(".failures li").filter({ hasText: "red.png The connection was lost" });
  while (!(await failure.isVisible())) await page.clock.runFor(1000);
  await failure.getByText("it is not made twice").waitFor();
  isLost = false;
  await failure.getByRole("button", { name: "Try again" }).click();
  await shows(page, "red");
  assert.equal(keys.size, 1);
  assert.equal((await photosOf(id)).length, 1);
  assert.deepEqual(page.problems(LOST), []);
  await page.leave();
});

test("files that are no photos are named with the reason, and the others are added", async () => {
  const { id } = await store.add("Careful");
  const page = await openAnimal(id);
  const broken = image(RED, 400, 300);
  await drop(page, ".panel", [
    file("invoice.pdf", Buffer.from("%PDF-1.7\n%âãÏÓ\n"), "application/pdf"),
    file("red.png"),
    file("half.png", broken.subarray(0, broken.length / 2)),
  ]);
  await page.locator(".failures li").nth(1).waitFor();
  await page.locator(".failures").getByText(/^invoice\.pdf .*(JPEG|PNG)/).waitFor();
  await page.locator(".failures").getByText(/^half\.png .+/).waitFor();
  await shows(page, "red");
  assert.equal(await page.locator(".failures").getByRole("button", { name: "Try again" }).count(), 0);
  await page.inspect("photos-failed");
  for (let left = 2; left > 0; left--) await page.locator(".failures").getByRole("button", { name: /^Dismiss / }).first().click();
  await page.locator(".failures:empty").waitFor({ state: "attached" });
  assert.equal((await photosOf(id)).length, 1);
  assert.deepEqual(page.problems(/status of 4(00|15)/), []);
  await page.leave();
});

test("pictures of other kinds, and those that are too large, are converted", async () => {
  const { id } = await store.add("Converted");
  const page = await openAnimal(id);
  const large = image(BLUE, 1640, 1640, { deflateLevel: 0 });
  assert.ok(large.length > 10 * 2 ** 20);
  const gif = Buffer.from("R0lGODlhAQABAPAAAMgoKP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==", "base64");
  await choose(page, [file("red.gif", gif, "image/gif"), file("large.png", large)]);
  await page.waitForFunction(() => document.querySelectorAll(".tiles [data-photo] img[src]").length === 2 && !document.querySelector(".uploading"));
  assert.equal(await page.locator(".failures li").count(), 0);
  assert.deepEqual([await colorOf(tiles(page).first()), await colorOf(tiles(page).nth(1))], ["red", "blue"]);
  assert.equal((await photosOf(id)).length, 2);
  assert.deepEqual(page.problems(), []);
  await page.leave();
});

test("a picture that the service refuses in its encoding is converted and sent again", async () => {
  const { id } = await store.add("Lossless");
  const page = await openAnimal(id);
  const requests = [];
  const isJpeg = (request) => request.postDataBuffer()?.subarray(0, 2).equals(Buffer.from([0xff, 0xd8]));
  await page.route(`**/v1/pets/${id}/photos`, (route) => {
    requests.push({ key: route.request().headers()["idempotency-key"], isJpeg: isJpeg(route.request()) });
    if (requests.length > 1) return route.continue();
    const error = { code: "image_too_large", message: "body: the image takes too much memory", status: 413 };
    return route.fulfill({ status: 413, contentType: "application/json", body: JSON.stringify(error) });
  });
  await choose(page, [file("red.png")]);
  await shows(page, "red");
  assert.deepEqual(requests.map((request) => request.isJpeg), [false, true]);
  assert.notEqual(requests[0].key, requests[1].key);
  assert.deepEqual(page.problems(/413/), []);
  await page.leave();
});
