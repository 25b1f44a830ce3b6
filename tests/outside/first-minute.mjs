// Measures the first minute of a newcomer: `make first-minute`, or node first-minute.mjs RELEASE_FILES.
//
// On a bare Debian with curl, it runs the quick start of the README on the files of a release, opens the link that the
// service prints, and adds an animal in the console. The times are no assertions: other programs may use the machine.

import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { artefacts, launch, openConsole } from "./console.mjs";
import { quickStart, serveFolder, version } from "./release-folder.mjs";

const folder = process.argv[2] && resolve(process.argv[2]);
const isRoot = process.getuid() === 0;
const NAME = "Biscuit";

// A mount namespace, so that nothing has to be unmounted, and a PID namespace, whose processes end with the first one.
// A user other than root is root in a user namespace, as mmdebstrap makes it.
const NAMESPACES = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", ...(isRoot ? [] : ["--map-root-user", "--map-auto"])];

const children = new Set();
// A folder for temporary files, and in it the bare Debian.
let work;
let debian;

class Failure extends Error {}

// Starts a program that ends with this one at the latest.
function start(program, ...args) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
  children.add(child);
  child.output = "";
  child.ended = new Promise((ended) => {
    child.once("error", (error) => ended((children.delete(child), (child.output += error.message), -1)));
    child.once("close", (code) => ended((children.delete(child), code)));
  });
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (child.output += data));
  return child;
}

async function run(step, program, ...args) {
  const child = start(program, ...args);
  child.stdin.end();
  if ((await child.ended) !== 0) throw new Failure(`${step} failed:\n${child.output}`);
  return child.output;
}

// The command that runs a line of the shell as the newcomer.
function asNewcomer(line) {
  const enter = 'mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && exec env -i HOME=/root TERM=xterm PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" sh -c "cd && $2"';
  return ["unshare", ...NAMESPACES, "sh", "-c", enter, "sh", debian, line];
}

const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;

// An archive of a bare Debian from the apt sources of this machine. Making it takes minutes, so it is kept.
async function bareDebian() {
  const archive = join(artefacts, "bare-debian.tar");
  if (existsSync(archive)) return archive;
  const listed = "/etc/apt/sources.list.d";
  const more = existsSync(listed) ? readdirSync(listed).map((name) => join(listed, name)) : [];
  const sources = ["/etc/apt/sources.list", ...more].filter((path) => /\.(list|sources)$/.test(path) && existsSync(path));
  if (!sources.length) throw new Failure("this machine has no apt sources to make a bare Debian from");
  console.log(`Making ${archive} ...`);
  const partial = join(dirname(archive), "bare-debian.new.tar");
  // In namespaces like the newcomer: if it is interrupted, no process and no file stays.
  await run("mmdebstrap", "unshare", ...NAMESPACES, "env", `TMPDIR=${work}`, "mmdebstrap", "--variant=minbase", "--include=curl", "--dpkgopt=force-unsafe-io", "", partial, ...sources);
  renameSync(partial, archive);
  return archive;
}

// Waits until the start screen has the link that signs in.
async function signInLink(service) {
  let hasEnded = false;
  service.ended.then(() => (hasEnded = true));
  for (;;) {
    const link = stripVTControlCharacters(service.output).match(/(http:\S+)\/console#key=(\S+)[^]*Ctrl-C/);
    if (link) return { address: link[1], key: link[2] };
    if (hasEnded) throw new Failure(`petstore serve ended before it printed a link:\n${service.output}`);
    await new Promise((waited) => setTimeout(waited, 10));
  }
}

async function measure() {
  work = mkdtempSync(join(tmpdir(), "petstore-first-minute-"));
  // apt downloads as a user of its own.
  chmodSync(work, 0o755);
  const archive = await bareDebian();
  debian = join(work, "debian");
  mkdirSync(debian);
  await run("unpacking Debian", "unshare", ...NAMESPACES, "tar", "-xf", archive, "-C", debian, "--exclude=./dev/*");
  const release = await serveFolder(folder);
  const { install, serve } = quickStart(release);
  const browser = await launch();

  const times = [];
  let last = performance.now();
  const record = (step) => {
    const now = performance.now();
    times.push([step, (now - last) / 1000]);
    last = now;
  };

  const [unshare, ...args] = asNewcomer(`${install} && ~/.local/bin/petstore --version`);
  const installed = await run("the installation", unshare, ...args);
  if (!installed.endsWith(`petstore ${version}\n`)) throw new Failure(`petstore ${version} was not installed:\n${installed}`);
  record("download, verify, install");

  const line = asNewcomer(`exec ${serve.replace(/ serve.*/, " serve --port 0")}`).map(quote).join(" ");
  const service = start("script", "--quiet", "--return", "--command", `exec ${line}`, "/dev/null");
  const { address, key } = await signInLink(service);
  record("start until listening");

  const page = await openConsole(browser, address, key);
  await page.live();
  await page.button("Add the first animal").waitFor();
  record("sign-in");

  await page.button("Add the first animal").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).pressSequentially(NAME);
  await dialog.getByLabel("New category").pressSequentially("Dogs");
  await dialog.getByRole("button", { name: "Add animal" }).click();
  await page.row(NAME).waitFor();
  record("first animal");

  await page.screenshot({ path: join(artefacts, "first-minute.png") });
  if (page.problems().length) throw new Failure(`the console reported problems:\n${page.problems().join("\n")}`);
  await browser.close();
  service.stdin.write("\x03");
  const code = await service.ended;
  if (code !== 0) throw new Failure(`petstore serve ended with ${code} after Ctrl-C:\n${service.output}`);
  return times;
}

// However this program ends.
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(join(artefacts, "bare-debian.new.tar"), { force: true });
  // The last processes of a namespace may end a moment after the first.
  if (work) execFileSync("unshare", [...NAMESPACES, "sh", "-c", 'rm -rf "$1" 2> /dev/null || { sleep 1; rm -rf "$1"; }', "sh", work]);
});
for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]]) process.on(signal, () => process.exit(code));

if (!folder || !existsSync(join(folder, "install.sh"))) {
  console.error("usage: node first-minute.mjs RELEASE_FILES, the folder that `make release` fills");
  process.exit(2);
}
mkdirSync(artefacts, { recursive: true });
try {
  const times = await measure();
  times.push(["total", times.reduce((sum, [, seconds]) => sum + seconds, 0)]);
  for (const [step, seconds] of times) console.log(`${step.padEnd(28)}${seconds.toFixed(2).padStart(7)} s`);
  console.log(`The load of this machine is ${loadavg()[0].toFixed(1)} on ${availableParallelism()} processors.`);
} catch (error) {
  console.error(error instanceof Failure ? `first-minute: ${error.message}` : error);
  process.exit(1);
}
process.exit(0);
