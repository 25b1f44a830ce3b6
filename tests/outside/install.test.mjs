// install.sh, as the README says to run it, on a release of the program under test.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { quickStart, serveFolder, version } from "./release-folder.mjs";

const root = new URL("../..", import.meta.url).pathname;
const work = mkdtempSync(join(tmpdir(), "petstore-install-"));
const release = join(work, "release");
const home = join(work, "home");
const machine = execFileSync("uname", ["-m"], { encoding: "utf8" }).trim();
const name = `petstore-${version}-${machine}-linux`;
let address;

const run = (script, ...args) =>
  execFileSync(join(root, "deploy", script), args, { cwd: root, env: { ...process.env, SOURCE_DATE_EPOCH: "1", GZIP_LEVEL: "1" } });

before(async () => {
  mkdirSync(release);
  run("package-tree", process.env.PETSTORE_BINARY, join(work, "tree"));
  run("archive", join(work, "tree"), name, release);
  run("finish-release", release);
  address = await serveFolder(release);
});
after(() => rmSync(work, { recursive: true }));
beforeEach(() => rmSync(home, { recursive: true, force: true }));

// Runs the line of the README, with these programs only if `tools` is given.
async function install({ at = address, tools, ...more } = {}) {
  mkdirSync(home, { recursive: true });
  const env = { PATH: process.env.PATH, HOME: home, ...more };
  let command = quickStart(at).install;
  if (tools) {
    env.PATH = join(work, `tools-${Object.keys(tools)}`);
    mkdirSync(env.PATH);
    for (const [tool, program] of Object.entries(tools)) symlinkSync(program, join(env.PATH, tool));
    command = `export PETSTORE_RELEASE=${at}; /bin/sh ${join(release, "install.sh")}`;
  }
  return new Promise((resolve) => {
    execFile("/bin/sh", ["-c", command], { env, cwd: home }, (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }));
  });
}

const which = (...tools) => Object.fromEntries(tools.map((tool) => [tool, execFileSync("sh", ["-c", `command -v ${tool}`], { encoding: "utf8" }).trim()]));
const TOOLS = ["cat", "cp", "cut", "gzip", "mkdir", "mktemp", "mv", "rm", "sed", "tar", "uname"];

// The message, and that nothing was installed.
async function assertFails(expected, options) {
  const { code, stdout, stderr } = await install(options);
  assert.equal(code, 1, `${stdout}\n${stderr}`);
  const message = stderr.split("\n").find((line) => line.startsWith("petstore was not installed: "));
  assert.match(message ?? stderr, expected);
  assert.deepEqual(readdirSync(home), []);
}

// Serves a copy of the release that `change` has changed.
async function serveChanged(label, change) {
  const folder = join(work, label);
  cpSync(release, folder, { recursive: true });
  change(folder);
  return serveFolder(folder);
}

test("the line of the README installs the program, its manual and its completions", async () => {
  const { code, stdout, stderr } = await install();
  assert.deepEqual([code, stderr], [0, ""], stdout);
  // What it prints works as printed.
  const commands = stdout.split("\n").filter((line) => line.startsWith("    ")).join("\n");
  const { serve } = quickStart(address);
  assert.match(commands, /^ +export PATH="\S+\/bin:\$PATH"\n +petstore serve$/);
  const shell = (command) => execFileSync("/bin/sh", ["-c", command], { env: { PATH: "/usr/bin:/bin", HOME: home }, encoding: "utf8" });
  assert.equal(shell(commands.replace("serve", "--version")), `petstore ${version}\n`);
  assert.equal(shell(serve.replace(/ serve.*/, " --version")), `petstore ${version}\n`);
  for (const file of ["share/man/man1/petstore-serve.1", "share/bash-completion/completions/petstore", "share/zsh/site-functions/_petstore", "share/fish/vendor_completions.d/petstore.fish"]) {
    assert.ok(existsSync(join(home, ".local", file)), file);
  }
  // Again, in place of a program that runs.
  const installed = join(home, ".local/bin/petstore");
  writeFileSync(installed, "an older one");
  assert.equal((await install({ PATH: `${home}/.local/bin:${process.env.PATH}` })).code, 0);
  assert.deepEqual(readFileSync(installed), readFileSync(process.env.PETSTORE_BINARY));
});

test("PREFIX is where it is installed", async () => {
  const { code, stderr } = await install({ PREFIX: "a folder" });
  assert.deepEqual([code, stderr], [0, ""]);
  assert.deepEqual(readdirSync(home), ["a folder"]);
  assert.deepEqual(readdirSync(join(home, "a folder")), ["bin", "share"]);
});

test("wget and openssl are enough", async () => {
  const { code, stderr } = await install({ tools: which(...TOOLS, "wget", "openssl") });
  assert.deepEqual([code, stderr], [0, ""]);
});

test("what is missing is named", async () => {
  await assertFails(/: install curl or wget first\.$/, { tools: which(...TOOLS) });
  await assertFails(/: install sha256sum or openssl first, to verify the download\.$/, { tools: which(...TOOLS, "curl") });
  await assertFails(/: install tar first\.$/, { tools: which(...TOOLS.filter((tool) => tool !== "tar"), "curl", "sha256sum") });
  await assertFails(/: set HOME, or PREFIX to the folder to install it into\.$/, { HOME: "" });
});

test("another machine or system is refused", async () => {
  const uname = (system, processor) => {
    const file = join(work, `uname-${processor}`);
    writeFileSync(file, `#!/bin/sh\ncase $1 in -s) echo ${system} ;; -m) echo ${processor} ;; esac\n`, { mode: 0o755 });
    return { ...which(...TOOLS, "curl", "sha256sum"), uname: file, [processor]: file };
  };
  await assertFails(/: there is no release for riscv64, only for x86_64 and aarch64\. /, { tools: uname("Linux", "riscv64") });
  await assertFails(/: it runs on Linux, and this is Darwin\. /, { tools: uname("Darwin", "arm64") });
});

test("a download that fails or was changed is not installed", async () => {
  await assertFails(/: cannot download http:\S+\/SHA256SUMS\. /, { at: `${address}/none`, tools: which(...TOOLS, "curl", "sha256sum") });
  const archive = `${name}.tar.gz`;
  const missing = await serveChanged("missing", (folder) => rmSync(join(folder, archive)));
  await assertFails(new RegExp(`: cannot download ${missing}/${archive}\\. `), { at: missing });
  const short = await serveChanged("short", (folder) => truncateSync(join(folder, archive), 100_000));
  await assertFails(/: \S+\.tar\.gz has a wrong checksum: .* Its SHA-256 is [0-9a-f]{64} instead of [0-9a-f]{64}\.$/, { at: short });
  const unlisted = await serveChanged("unlisted", (folder) => writeFileSync(join(folder, "SHA256SUMS"), ""));
  await assertFails(/SHA256SUMS has no checksum of /, { at: unlisted });
});

test("a program that does not run here is not installed", async () => {
  const broken = await serveChanged("broken", (folder) => {
    const tree = join(work, "broken-tree");
    cpSync(join(work, "tree"), tree, { recursive: true });
    // Without the loader of glibc, as on Alpine Linux.
    const program = readFileSync(join(tree, "bin/petstore"));
    program.write("/none", program.indexOf("/lib"));
    writeFileSync(join(tree, "bin/petstore"), program);
    run("archive", tree, name, folder);
    const sums = execFileSync("sha256sum", [`${name}.tar.gz`], { cwd: folder });
    writeFileSync(join(folder, "SHA256SUMS"), sums);
  });
  await assertFails(/: it does not run on this machine, but needs glibc 2\.17 or newer: .*not found/, { at: broken });
});

test("a folder that cannot be written to is named", async () => {
  writeFileSync(join(work, "file"), "");
  await assertFails(/: cannot write to \S+\/file\/prefix\. Set PREFIX to another folder\.$/, { PREFIX: join(work, "file/prefix") });
});

test("an installer that arrived incomplete does nothing", async () => {
  const script = readFileSync(join(release, "install.sh"), "utf8");
  execFileSync("/bin/sh", ["-n", join(release, "install.sh")]);
  const end = script.lastIndexOf("\nmain\n");
  mkdirSync(home);
  // Cut off in the middle of a function, it is a syntax error.
  execFileSync("/bin/sh", ["-c", script.slice(0, end)], { env: { PATH: process.env.PATH, HOME: home } });
  assert.deepEqual(readdirSync(home), []);
});

test("the context of the container image has what is copied", () => {
  const list = execFileSync("tar", ["-tzf", join(release, `petstore-${version}-container.tar.gz`)], { encoding: "utf8" }).split("\n");
  const architecture = { x86_64: "amd64", aarch64: "arm64" }[machine];
  const copied = readFileSync(join(root, "deploy/Containerfile"), "utf8").matchAll(/^COPY (\S+) /gm);
  const sources = [...copied].map(([, source]) => source.replace("$TARGETARCH", architecture));
  assert.equal(sources.length, 2);
  for (const source of ["Containerfile", ...sources]) assert.ok(list.includes(`petstore-${version}-container/${source}`), `${source} in ${list}`);
});
