// A throwaway PostgreSQL server on a free loopback port.

import { execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const debian = existsSync("/usr/lib/postgresql") ? readdirSync("/usr/lib/postgresql").sort() : [];
const program = (name) => (debian.length ? join("/usr/lib/postgresql", debian.at(-1), "bin", name) : name);
// PostgreSQL refuses to run as root.
const owner = process.getuid() === 0 ? readFileSync("/etc/passwd", "utf8").match(/^postgres:[^:]*:(\d+):(\d+)/m).slice(1, 3).map(Number) : null;
const drop = owner ? [`--reuid=${owner[0]}`, `--regid=${owner[1]}`, "--clear-groups"] : [];

// With `isDurable`, each commit waits for the disk, as it does in production.
export async function startPostgres({ isDurable = false } = {}) {
  const dir = mkdtempSync(join(tmpdir(), "petstore-"));
  if (owner) chownSync(dir, ...owner);
  const data = join(dir, "data");
  const run = (name, ...args) => ["setpriv", ["--pdeathsig=KILL", ...drop, program(name), ...args]];
  const options = { cwd: "/", env: { ...process.env, LC_ALL: "C" }, stdio: "ignore" };
  execFileSync(...run("initdb", "--username=petstore", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--pgdata", data), options);
  const probe = createServer().listen(0, "127.0.0.1");
  await new Promise((listening) => probe.once("listening", listening));
  const { port } = probe.address();
  await new Promise((closed) => probe.close(closed));
  const settings = ["listen_addresses=127.0.0.1", `port=${port}`, `unix_socket_directories=${dir}`, ...(isDurable ? [] : ["fsync=off"])];
  const server = spawn(...run("postgres", "-D", data, ...settings.flatMap((setting) => ["-c", setting])), options);
  const ended = new Promise((resolve) => server.once("exit", resolve));
  const isReady = () => {
    try {
      execFileSync(program("pg_isready"), ["--quiet", "--host=127.0.0.1", `--port=${port}`], options);
      return true;
    } catch {
      return false;
    }
  };
  while (!isReady()) {
    if (server.exitCode !== null) throw new Error("PostgreSQL did not start");
    await sleep(50);
  }
  return {
    url: `postgres://petstore@127.0.0.1:${port}/postgres`,
    async stop() {
      server.kill("SIGQUIT");
      await ended;
      rmSync(dir, { recursive: true });
    },
  };
}
