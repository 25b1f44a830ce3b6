// Receives events of a petstore service and saves each of them once, as a file in a folder.
//
// Usage: WEBHOOK_SECRET=whsec_... node webhook.js PORT FOLDER
//
// It needs the package standardwebhooks, and a proxy in front of it that terminates TLS.

import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";

const [port, folder] = process.argv.slice(2);
const webhook = new Webhook(process.env.WEBHOOK_SECRET ?? "");
const maxBytes = 1 << 20;

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > maxBytes) throw new Error("the body is too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

// The id is the same each time that the event is sent.
function save(id: string, body: Buffer) {
  const file = join(folder, `${id}.json`);
  if (existsSync(file)) return;
  // Renamed when it is complete and on disk.
  writeFileSync(`${file}.new`, body, { flush: true });
  renameSync(`${file}.new`, file);
}

async function receive(request: IncomingMessage): Promise<number> {
  if (request.method !== "POST") return 405;
  const body = await read(request); // Verify exactly these bytes, before parsing them.
  const headers = request.headers as Record<string, string>;
  try {
    webhook.verify(body, headers);
  } catch {
    return 401;
  }
  save(headers["webhook-id"], body);
  return 204; // Only now: whatever is not acknowledged is sent again.
}

mkdirSync(folder, { recursive: true });
const server = createServer((request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    (error) => {
      console.error(error);
      response.destroy();
    },
  );
});
server.keepAliveTimeout = 60_000;
server.listen(Number(port), "127.0.0.1", () => {
  console.log(`Listening on port ${(server.address() as AddressInfo).port}`);
});
