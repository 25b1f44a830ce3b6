// The files of a release, served on a loopback port in place of the address in the README.

import { createReadStream, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const manifest = readFileSync(new URL("../../Cargo.toml", import.meta.url), "utf8");
export const version = manifest.match(/^version = "(.*)"/m)[1];
const latest = `${manifest.match(/^repository = "(.*)"/m)[1]}/releases/latest/download`;

// The first lines of the README: install it, start it.
export function quickStart(address) {
  const [install, serve] = readme.match(/```sh\n(.*)\n(.*)\n/).slice(1);
  if (!install.includes(`${latest}/install.sh`)) throw new Error(`the README does not install from ${latest}`);
  return { install: `export PETSTORE_RELEASE=${address}; ${install.replace(latest, address)}`, serve };
}

export async function serveFolder(folder) {
  const server = createServer(({ url }, response) => {
    const file = createReadStream(join(folder, new URL(url, "http://localhost").pathname));
    file.on("error", () => response.writeHead(404).end()).pipe(response);
  }).listen(0, "127.0.0.1").unref();
  await new Promise((listening) => server.once("listening", listening));
  return `http://127.0.0.1:${server.address().port}`;
}
