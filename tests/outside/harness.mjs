// Starts the real service on a new database, for third-party tools.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { withDelays } from "./delays.mjs";

const binary = process.env.PETSTORE_BINARY;
if (!binary) throw new Error("PETSTORE_BINARY must name the binary under test; `make test` sets it");

// With `seed`, the store has that many animals before the service starts. With `inMemory`,
// its files are in memory if possible: for tests that write a lot.
export async function startService({ wrapper = [], args: more = [], database: url, seed, inMemory } = {}) {
  const dir = mkdtempSync(join(inMemory && existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "petstore-"));
  const file = join(dir, "petstore.db");
  const database = ["--database", url ?? `sqlite:${file}`];
  if (seed) execFileSync(binary, ["seed", String(seed), ...database], { stdio: "pipe" });
  let service, ended;
  // Starts it and returns what it says when it listens.
  const start = async (address) => {
    const [program, ...args] = [...wrapper, binary, "serve", "--listen", address, ...database, ...more];
    // In its own process group, so that it is killed together with its wrapper.
    service = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"], detached: true });
    ended = new Promise((resolve) => service.once("exit", resolve));
    const lines = createInterface({ input: service.stderr });
    return JSON.parse(await new Promise((resolve) => lines.once("line", resolve)));
  };
  const kill = async () => {
    process.kill(-service.pid, "SIGKILL");
    await ended;
  };
  const listening = await start("127.0.0.1:0");
  const keys = (...args) => execFileSync(binary, ["keys", ...args, ...database], { stdio: "pipe" });
  return {
    address: await withDelays(listening.url),
    // The URL of the metrics, with --metrics-listen.
    metrics: listening.metrics_url,
    file,
    createKey: (...args) => keys("create", "test", ...args).toString().trim(),
    createKeyNamed: (name, ...args) => keys("create", name, ...args).toString().trim(),
    revokeKey: (id) => keys("revoke", String(id)),
    // Overwrites the database files under the running service.
    corrupt() {
      for (const path of [`${file}-wal`, file]) {
        writeFileSync(path, Buffer.alloc(statSync(path).size, 0xff), { flag: "r+" });
      }
    },
    // Kills it and starts it again at the same address.
    async restart() {
      await kill();
      await start(new URL(listening.url).host);
    },
    async stop() {
      await kill();
      rmSync(dir, { recursive: true });
    },
  };
}

// Runs `use` with a new service.
export async function withService(options, use) {
  const service = await startService(options);
  try {
    await use(service);
  } finally {
    await service.stop();
  }
}
