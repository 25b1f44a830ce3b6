#!/usr/bin/env python3
"""Loses the primary of a real cluster under load, and looks what became of the
animals.

Three machines of etcd, Patroni and PostgreSQL on free ports of the loopback
address, in a temporary folder, with the configuration files beside this
script; two replicas of petstore over TLS (verify-full); clients that create
animals all the time. Then the primary's machine is lost:

    try.py kill    SIGKILL for its PostgreSQL, Patroni and etcd (the default)
    try.py freeze  SIGSTOP for them: it takes connections and never answers

Needs etcd-server, postgresql, openssl and python3-venv from Debian; Patroni
comes from PyPI, in the versions of requirements.txt. Ends with 0 if every acknowledged animal is there
once, on both replicas, and neither had to be started again.
"""

import argparse
import http.client
import itertools
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
STARTED = time.monotonic()
CLIENTS = 16


def say(text):
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", flush=True)


def wait_for(what, ask, patience=120):
    began = time.monotonic()
    while not (answer := ask()):
        if time.monotonic() - began > patience:
            raise SystemExit(f"gave up waiting for {what}")
        time.sleep(0.2)
    return answer


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def as_postgres(*command):
    """A command as PostgreSQL's user, if this one is root. It does not outlive
    this script."""
    before = ["setpriv", "--pdeathsig=KILL"]
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        before += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return before + [str(part) for part in command]


def settings(name):
    """The variables of an environment file beside this script."""
    lines = (HERE / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class Machine:
    """One of the three: its processes, and where they listen."""

    def __init__(self, number, folder, programs):
        self.name = f"db{number}"
        self.folder = folder / self.name
        self.programs = programs
        self.etcd, self.peer, self.rest, self.postgres = (free_port() for _ in range(4))
        self.processes = []

    def start(self, machines, state="new"):
        self.folder.mkdir(exist_ok=True)
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        own = f"http://127.0.0.1:{self.etcd}"
        own_peer = f"http://127.0.0.1:{self.peer}"
        etcd = settings("etcd.env") | {
            "ETCD_NAME": self.name,
            "ETCD_DATA_DIR": f"{self.folder}/etcd",
            "ETCD_LISTEN_CLIENT_URLS": own,
            "ETCD_ADVERTISE_CLIENT_URLS": own,
            "ETCD_LISTEN_PEER_URLS": own_peer,
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": own_peer,
            "ETCD_INITIAL_CLUSTER": ",".join(
                f"{m.name}=http://127.0.0.1:{m.peer}" for m in machines
            ),
            "ETCD_INITIAL_CLUSTER_STATE": state,
        }
        address = f"127.0.0.1:{self.postgres}"
        patroni = settings("node.env") | {
            "PATRONI_NAME": self.name,
            "PATRONI_ETCD3_HOSTS": ",".join(f"'127.0.0.1:{m.etcd}'" for m in machines),
            "PATRONI_RESTAPI_LISTEN": f"127.0.0.1:{self.rest}",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": f"127.0.0.1:{self.rest}",
            "PATRONI_POSTGRESQL_LISTEN": address,
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": address,
            "PATRONI_POSTGRESQL_DATA_DIR": f"{self.folder}/data",
            "PATRONI_POSTGRESQL_BIN_DIR": str(self.programs["postgres"]),
            "PATRONI_POSTGRESQL_PGPASS": f"{self.folder}/pgpass",
        }
        self.processes = [
            self.spawn("etcd", etcd, self.programs["etcd"]),
            self.spawn("patroni", patroni, self.programs["patroni"], "../conf/patroni.yml"),
        ]

    def spawn(self, name, environment, *command):
        with open(self.folder / f"{name}.log", "a") as log:
            return subprocess.Popen(
                as_postgres(*command),
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"} | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def status(self):
        """What Patroni says of the cluster, or nothing."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.rest, timeout=2)
            connection.request("GET", "/cluster")
            return json.load(connection.getresponse())["members"]
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            return []

    def everything(self):
        """All processes of the machine: those started here, and PostgreSQL,
        which Patroni has started, with its children."""
        found = [process.pid for process in self.processes if process.poll() is None]
        try:
            found.append(int((self.folder / "data/postmaster.pid").read_text().split()[0]))
        except (FileNotFoundError, IndexError):
            pass
        parents = {}
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                parent = re.search(r"^PPid:\s+(\d+)", status.read_text(), re.M)
            except OSError:
                continue
            parents.setdefault(int(parent[1]), []).append(int(status.parent.name))
        for process in found:
            found += [child for child in parents.get(process, []) if child not in found]
        return found

    def signal(self, which):
        for process in self.everything():
            try:
                os.kill(process, which)
            except ProcessLookupError:
                pass
        if which == signal.SIGKILL:
            for process in self.processes:
                process.wait()
            self.processes = []


class Cluster:
    def __init__(self, folder, programs):
        self.machines = [Machine(n, folder, programs) for n in (1, 2, 3)]
        self.folder = folder
        self.programs = programs

    def start(self):
        for machine in self.machines:
            machine.start(self.machines)

    def healthy(self, count, lost=None):
        """The roles, once there is a primary, a synchronous standby, and as
        many members as asked for that run or stream. What was lost does not
        lead, and is not asked: it may not know yet."""
        told = (m.status() for m in self.machines if m is not lost)
        members = next(filter(None, told), [])
        roles = {m["name"]: m["role"] for m in members if m["state"] in ("running", "streaming")}
        led = lost and roles.get(lost.name) == "leader"
        whole = len(roles) == count and {"leader", "sync_standby"} <= set(roles.values())
        return roles if whole and not led else None

    def named(self, name):
        return next(m for m in self.machines if m.name == name)

    def psql(self, machine, sql, database="postgres"):
        address = (
            f"host=127.0.0.1 port={machine.postgres} user=postgres dbname={database} "
            f"sslmode=verify-full sslrootcert={self.folder}/conf/root.crt"
        )
        command = [self.programs["postgres"] / "psql", "-X", "-q", "-A", "-t"]
        done = subprocess.run(
            [*command, "-v", "ON_ERROR_STOP=1", "-d", address, "-c", sql],
            env={"PATH": os.environ["PATH"], "PGPASSWORD": "change-me-1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{sql}: {done.stderr}")
        return done.stdout.strip()

    def url(self):
        """All of them: petstore takes the one that writes."""
        hosts = ",".join(f"127.0.0.1:{m.postgres}" for m in self.machines)
        return (
            f"postgres://petstore:a%2Fsecret@{hosts}/petstore"
            f"?sslmode=verify-full&sslrootcert={self.folder}/conf/root.crt"
        )


class Petstore:
    """A replica of the service."""

    def __init__(self, binary, url, folder, number):
        self.log = folder / f"petstore-{number}.log"
        environment = os.environ | {"PETSTORE_DATABASE": url}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [binary, "serve", "--listen", "127.0.0.1:0"], env=environment, stderr=log
            )
        url = wait_for("petstore", lambda: re.search(r'"url":"http://([^"]+)"', self.log.read_text()))
        self.address = url[1]

    def request(self, key, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(method, path, body and json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.load(answer), answer.headers

    def animals(self, key):
        found, path = [], "/v1/pets?limit=100"
        while path:
            status, page, headers = self.request(key, "GET", path)
            if status != 200:
                raise SystemExit(f"a list was answered {status}: {page}")
            found += [(animal["id"], animal["name"]) for animal in page]
            link = re.match(r"<(.*)>", headers.get("Link", ""))
            path = link and link[1]
        return found


class Load:
    """Clients that create animals, each its next one when the last was
    answered, and what they were told."""

    def __init__(self, replicas, key):
        self.replicas, self.key = replicas, key
        self.lock, self.stop = threading.Lock(), False
        self.acknowledged, self.unsure = {}, set()
        self.in_a_row, self.last, self.gap = 0, time.monotonic(), 0
        self.threads = [threading.Thread(target=self.client, args=(n,)) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def client(self, number):
        replica = self.replicas[number % len(self.replicas)]
        for count in itertools.count():
            if self.stop:
                return
            name = f"{number}-{count}"
            try:
                status, body, _ = replica.request(
                    self.key, "POST", "/v1/pets", {"name": name, "categoryId": 1}
                )
            except OSError as error:
                status, body = 0, error
            with self.lock:
                if status == 201:
                    self.acknowledged[name] = body["id"]
                    self.in_a_row += 1
                    now = time.monotonic()
                    self.gap, self.last = max(self.gap, now - self.last), now
                else:
                    if status not in (0, 503):
                        say(f"answered {status}: {body}")
                    self.unsure.add(name)
                    self.in_a_row = 0
            if status != 201:
                time.sleep(0.5)

    def until_in_a_row(self, count):
        with self.lock:
            self.in_a_row = 0
        wait_for(f"{count} creates in a row", lambda: self.in_a_row >= count)

    def finish(self):
        self.stop = True
        for thread in self.threads:
            thread.join()


def judge(load, animals):
    """What is wrong with the animals that are there."""
    stored = {}
    for number, name in animals:
        stored.setdefault(name, []).append(number)
    wrong = [f"{n} is there {len(ids)} times" for n, ids in stored.items() if len(ids) > 1]
    for name, number in load.acknowledged.items():
        if stored.get(name) != [number]:
            wrong.append(f"{name} was acknowledged as {number}, found: {stored.get(name)}")
    known = load.acknowledged.keys() | load.unsure
    return wrong + [f"nobody created {name}" for name in stored if name not in known]


def certificates(conf):
    """An authority, and a certificate for the loopback address."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=conf, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-subj", "/CN=try", "-keyout", "root.key", "-out", "root.crt")
    openssl("req", *key, "-subj", "/CN=db", "-keyout", "server.key", "-out", "server.csr")
    (conf / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    signing = ["-CA", "root.crt", "-CAkey", "root.key", "-CAcreateserial", "-extfile", "names"]
    openssl("x509", "-req", "-in", "server.csr", *signing, "-out", "server.crt")
    for name in ("server.key", "server.crt"):
        (conf / name).chmod(0o600)
        if os.getuid() == 0:
            shutil.chown(conf / name, "postgres", "postgres")


def prepare(folder, patroni):
    """Makes the configuration and finds the programs."""
    conf = folder / "conf"
    conf.mkdir()
    certificates(conf)
    text = (HERE / "patroni.yml").read_text()
    text = text.replace("/etc/patroni", str(conf)).replace("/run/postgresql", str(folder))
    (conf / "patroni.yml").write_text(text)
    if not patroni:
        say("installs Patroni into the folder")
        # Debian's Python: another one may lie where PostgreSQL's user cannot read.
        subprocess.run(["/usr/bin/python3", "-m", "venv", folder / "venv"], check=True)
        pip = [folder / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", HERE / "requirements.txt"], check=True)
        patroni = folder / "venv/bin/patroni"
    versions = pathlib.Path("/usr/lib/postgresql").glob("*/bin")
    newest = max(versions, key=lambda path: int(path.parent.name))
    return {"etcd": shutil.which("etcd"), "patroni": patroni, "postgres": newest}


def run(folder, arguments):
    cluster = Cluster(folder, prepare(folder, arguments.patroni))
    replicas, load = [], None
    try:
        say("starts three machines of etcd, Patroni and PostgreSQL")
        cluster.start()
        roles = wait_for("the cluster", lambda: cluster.healthy(3))
        say(f"cluster: {roles}")
        primary = cluster.named(next(n for n, role in roles.items() if role == "leader"))
        cluster.psql(primary, "CREATE ROLE petstore LOGIN PASSWORD 'a/secret'")
        cluster.psql(primary, "CREATE DATABASE petstore OWNER petstore")
        environment = os.environ | {"PETSTORE_DATABASE": cluster.url()}
        made = subprocess.run(
            [arguments.petstore, "keys", "create", "try"],
            env=environment, capture_output=True, text=True, check=True,
        )
        key = made.stdout.strip()
        replicas = [Petstore(arguments.petstore, cluster.url(), folder, n) for n in (1, 2)]
        say(f"two replicas of petstore on {', '.join(r.address for r in replicas)}")

        load = Load(replicas, key)
        load.until_in_a_row(2000)
        names = cluster.psql(primary, "SHOW synchronous_standby_names")
        sessions = cluster.psql(
            primary, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'petstore'"
        )
        say(f"{len(load.acknowledged)} animals acknowledged, {len(load.unsure)} not; "
            f"synchronous_standby_names = {names}; {sessions} connections")

        load.gap = 0
        if arguments.how == "kill":
            say(f"SIGKILL for everything on {primary.name}, the primary")
            primary.signal(signal.SIGKILL)
        else:
            say(f"SIGSTOP for everything on {primary.name}, the primary")
            primary.signal(signal.SIGSTOP)
        roles = wait_for("the failover", lambda: cluster.healthy(2, lost=primary))
        say(f"cluster: {roles}")
        load.until_in_a_row(2000)
        say(f"{len(load.acknowledged)} animals acknowledged, {len(load.unsure)} not; "
            f"{load.gap:.1f} s without an acknowledged one")

        say(f"{primary.name} comes back")
        if arguments.how == "kill":
            primary.start(cluster.machines, state="existing")
        else:
            primary.signal(signal.SIGCONT)
        roles = wait_for("the old primary", lambda: cluster.healthy(3, lost=primary))
        say(f"cluster: {roles}")
        load.until_in_a_row(2000)
        load.finish()
        say(f"{len(load.acknowledged)} animals acknowledged, {len(load.unsure)} not")

        wrong = [f"{r.address} has ended" for r in replicas if r.process.poll() is not None]
        for replica in replicas:
            animals = replica.animals(key)
            found = judge(load, animals)
            say(f"{replica.address} has {len(animals)} animals: {found[:5] or 'all is well'}")
            wrong += found
        return 1 if wrong else 0
    finally:
        if load:
            load.finish()
        for replica in replicas:
            replica.process.terminate()
            replica.process.wait()
        for machine in cluster.machines:
            machine.signal(signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description="Loses the primary under load.")
    parser.add_argument("how", nargs="?", choices=["kill", "freeze"], default="kill")
    parser.add_argument("--petstore", default=REPOSITORY / "target/release/petstore",
                        help="the program (default: target/release/petstore)")
    parser.add_argument("--patroni", help="an installed Patroni instead of a fresh one")
    parser.add_argument("--keep", action="store_true", help="leave the folder with its logs")
    arguments = parser.parse_args()
    # Ends in the same way as at the end, so that nothing is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="petstore-patroni-"))
    folder.chmod(0o755)
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    code = 1
    try:
        code = run(folder, arguments)
    finally:
        if arguments.keep:
            say(f"the logs are in {folder}")
        else:
            shutil.rmtree(folder)
        say("it holds" if code == 0 else "it does not hold")
    return code


if __name__ == "__main__":
    sys.exit(main())
