// Takes the pictures of the console in the README: `make screenshots`.

import { caller, launch, openConsole } from "./console.mjs";
import { startService } from "./harness.mjs";

const CATEGORIES = ["Dogs", "Cats", "Rabbits", "Parrots", "Tortoises"];
const NAMES = ["Fig", "Wren", "Otis", "Bramble", "Hazel", "Clementine", "Zed", "Olive", "Pepper", "Momo", "Ärmel", "Moss", "Sir Reginald Featherbottom III", "Biscuit", "Juniper"];

const service = await startService({ args: ["--reserve-for", "20m"] });
const browser = await launch();
try {
  const [counter, shop] = ["counter-2", "web-shop"].map((name) => service.createKeyNamed(name));
  const [atCounter, inShop] = [counter, shop].map((key) => caller(service.address, key));
  for (const [at, name] of CATEGORIES.entries()) await atCounter("PUT", `categories/${at + 1}`, { name });
  for (const [at, name] of NAMES.entries()) {
    await (at % 3 ? atCounter : inShop)("POST", "pets", {
      name, categoryId: 1 + (at % 5), status: "available", birthDate: `202${5 - (at % 4)}-0${1 + (at % 9)}-14`, price: { amount: 4500 * (3 + at), currency: "USD" },
      ...(name === "Biscuit" && { breed: "Border Collie", sex: "female", color: "black and white", microchip: "985112004567890", location: "Kennel 4" }),
    });
  }
  for (const petId of [4, 7, 10]) {
    const { id } = await atCounter("POST", "store/orders", { petId });
    await atCounter("POST", `store/orders/${id}/complete`);
  }
  await atCounter("PATCH", "pets/14", { name: "Biscut" });
  await atCounter("PATCH", "pets/14", { name: "Biscuit" });
  for (const petId of [2, 14]) await inShop("POST", "store/orders", { petId });
  for (const [file, options] of [
    ["console.png", { width: 1200, height: 750 }],
    ["console-phone.png", { width: 390, height: 750, dark: true }],
  ]) {
    const page = await openConsole(browser, service.address, counter, options);
    await page.live();
    if (!options.dark) {
      await page.open("Biscuit");
      await page.panel.getByText("Reserved by “web-shop”").waitFor();
      await page.panel.getByText(/left$/).waitFor();
    }
    await page.row("Juniper").waitFor();
    await page.screenshot({ path: `../../docs/${file}` });
    await page.leave();
  }
} finally {
  await browser.close();
  await service.stop();
}
