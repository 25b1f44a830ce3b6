// A proxy that delays what passes, by a random time of up to MAX_DELAY milliseconds: tests that
// depend on timing fail behind it. It has its own thread, as tests wait for other programs.

import { once } from "node:events";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const maxDelay = Number(process.env.MAX_DELAY ?? 0);

// Passes on what arrives, in order, and then the end.
async function forward(from, to) {
  try {
    for await (const data of from) {
      await sleep(Math.random() * maxDelay);
      if (!to.write(data)) await new Promise((drained) => to.once("drain", drained).once("close", drained));
    }
    to.end();
  } catch {
    to.destroy();
  }
}

// Returns the address at which a service is to be reached: its own, or that of a proxy.
export async function withDelays(address) {
  if (!maxDelay) return address;
  const { hostname, port } = new URL(address);
  const proxy = new Worker(new URL(import.meta.url), { workerData: { host: hostname, port } });
  const [ours] = await once(proxy, "message");
  proxy.unref();
  return address.replace(`:${port}`, `:${ours}`);
}

if (!isMainThread && workerData?.port) {
  const options = { noDelay: true, allowHalfOpen: true };
  const server = createServer(options, (client) => {
    const service = connect({ ...workerData, ...options });
    client.on("error", () => service.destroy());
    service.on("error", () => client.destroy());
    forward(client, service);
    forward(service, client);
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
}
