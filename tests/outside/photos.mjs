// Photos in tests: pictures, which are made here, and what the panel of an animal shows.

import assert from "node:assert/strict";
import { PNG } from "pngjs";
import { openConsole } from "./console.mjs";

// A picture in one colour with a frame, which tells pictures apart.
export function image(color, width = 240, height = 180, options) {
  const png = new PNG({ width, height });
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const isFrame = x < 8 || y < 8 || x >= width - 8 || y >= height - 8;
      png.data.set([...(isFrame ? [255, 255, 255] : color), 255], 4 * (y * width + x));
    }
  }
  return PNG.sync.write(png, options);
}

// A picture that compresses badly, so that it takes a while to send.
export function noise(width, height) {
  const png = new PNG({ width, height, colorType: 2 });
  let state = 1;
  for (let at = 0; at < png.data.length; at++) png.data[at] = at % 4 === 3 ? 255 : (state = (state * 1103515245 + 12345) & 0x7fffffff) >> 16;
  return PNG.sync.write(png, { colorType: 2, deflateLevel: 1 });
}

export const RED = [200, 40, 40];
export const GREEN = [40, 160, 60];
export const BLUE = [40, 60, 200];
export const YELLOW = [220, 190, 40];
export const COLORS = { red: RED, green: GREEN, blue: BLUE, yellow: YELLOW };

export const file = (name, buffer = image(COLORS[name.split(".")[0]]), mimeType = "image/png") => ({ name, mimeType, buffer });

// The name of the colour that an image of the page shows, from its pixels.
export const colorOf = (locator) => locator.evaluate(async (img, colors) => {
  await img.decode();
  const canvas = new OffscreenCanvas(1, 1);
  const drawing = canvas.getContext("2d");
  const { naturalWidth: width, naturalHeight: height } = img;
  drawing.drawImage(img, width * 0.4, height * 0.4, width * 0.2, height * 0.2, 0, 0, 1, 1);
  const [...pixel] = drawing.getImageData(0, 0, 1, 1).data;
  const distance = (color) => Math.hypot(...color.map((value, at) => value - pixel[at]));
  return Object.entries(colors).sort(([, a], [, b]) => distance(a) - distance(b))[0][0];
}, COLORS);

// Browsers log what they could not load.
export const LOST = /ERR_|Failed to (load|fetch)/;

// What tests do with a store of `useConsole`, once it has started.
export function photoTools(store) {
  const post = async (id, body) => {
    const response = await fetch(`${store.service.address}/v1/pets/${id}/photos`, { method: "POST", body, headers: { Authorization: `Bearer ${store.key}` } });
    assert.equal(response.status, 201, await response.clone().text());
    return response.json();
  };
  const tiles = (page) => page.locator(".tiles [data-photo] img[src]");
  return {
    post,
    tiles,
    // An animal with a photo in each of these colours.
    async addWith(name, ...colors) {
      const { id } = await store.add(name);
      const photos = [];
      for (const color of colors) photos.push((await post(id, image(COLORS[color]))).id);
      return { id, photos };
    },
    photosOf: async (id) => ((await store.call("GET", `pets?id=${id}`))[0].photos ?? []).map((photo) => photo.id),
    async openAnimal(id, look, secret = store.key, address = store.service.address) {
      const page = await openConsole(store.browser, address, secret, look);
      await page.live();
      await page.evaluate((id) => (location.hash = `#/animals/${id}`), id);
      await page.panel.getByRole("heading", { level: 2 }).waitFor();
      return page;
    },
    // Waits until the panel shows photos in these colours, and nothing is on its way.
    async shows(page, ...colors) {
      await page.waitForFunction((size) => document.querySelectorAll(".tiles li[data-photo]").length === size &&
        document.querySelectorAll(".tiles li[data-photo] img[src]").length === size && !document.querySelector(".uploading"), colors.length);
      assert.deepEqual(await Promise.all((await tiles(page).all()).map(colorOf)), colors);
    },
    async choose(page, files, name = "Add photos") {
      const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.button(name).click()]);
      await chooser.setFiles(files);
      return chooser;
    },
    // Returns whether the page has taken the files from the browser.
    drop: (page, target, files) => page.locator(target).evaluate((element, files) => {
      const transfer = new DataTransfer();
      for (const { name, mimeType, base64 } of files) {
        transfer.items.add(new File([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))], name, { type: mimeType }));
      }
      return ["dragover", "drop"].map((type) =>
        !element.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: transfer })));
    }, files.map(({ buffer, ...more }) => ({ ...more, base64: buffer.toString("base64") }))),
  };
}
