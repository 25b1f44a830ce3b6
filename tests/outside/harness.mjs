// Starts the real service over a fresh file, for tools that we did not write.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const binary = process.env.PETSTORE_BINARY;
if (!binary) throw new Error("PETSTORE_BINARY names the program under test; `make test` sets it");

export async function startService({ wrapper = [], args: more = [] } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "petstore-"));
  const file = join(folder, "petstore.db");
  const database = ["--database", `sqlite:${file}`];
  const [program, ...args] = [...wrapper, binary, "serve", "--listen", "127.0.0.1:0", ...database, ...more];
  // In a group of its own, so that it ends together with its wrapper.
  const service = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"], detached: true });
  const ended = new Promise((resolve) => service.once("exit", resolve));
  const lines = createInterface({ input: service.stderr });
  const first = await new Promise((resolve) => lines.once("line", resolve));
  const listening = JSON.parse(first);
  const keys = (...args) => execFileSync(binary, ["keys", ...args, ...database], { stdio: "pipe" });
  return {
    address: listening.url,
    // Where the metrics are, if they were asked for.
    metrics: listening.metrics_url,
    file,
    makeKey: (...args) => keys("create", "test", ...args).toString().trim(),
    // Makes the storage unreadable under the running service.
    spoil() {
      for (const spoilt of [`${file}-wal`, file]) {
        writeFileSync(spoilt, Buffer.alloc(statSync(spoilt).size, 0xff), { flag: "r+" });
      }
    },
    async stop() {
      process.kill(-service.pid, "SIGKILL");
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

// Runs `use` with a service of its own.
export async function withService(options, use) {
  const service = await startService(options);
  try {
    await use(service);
  } finally {
    await service.stop();
  }
}
