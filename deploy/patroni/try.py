#!/usr/bin/env python3
"""Failover test: loses the primary of a real Patroni cluster under load, and
checks that no acknowledged write is lost.

Runs three nodes of etcd, Patroni and PostgreSQL on free loopback ports in a
temporary directory, with the configuration files beside this script, two
replicas of petstore over TLS (verify-full), and a load generator that creates
animals. Then the primary's node fails:

    try.py kill    SIGKILL for its PostgreSQL, Patroni and etcd (the default)
    try.py freeze  SIGSTOP for them: it accepts connections and never responds

Needs etcd-server, postgresql, openssl and python3-venv from Debian; Patroni
comes from PyPI, in the versions of requirements.txt. Exits with 0 if every
acknowledged animal is stored exactly once, as seen by both replicas, a reader of
the event log at each replica got every animal once and in the same order, and
neither replica had to be restarted.
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


def report(text):
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", flush=True)


def wait_for(what, poll, timeout=120):
    started = time.monotonic()
    while not (value := poll()):
        if time.monotonic() - started > timeout:
            raise SystemExit(f"timed out waiting for {what}")
        time.sleep(0.2)
    return value


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def as_postgres(*command):
    """The command as the user postgres, if this one is root. It dies with this
    script (PR_SET_PDEATHSIG)."""
    prefix = ["setpriv", "--pdeathsig=KILL"]
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        prefix += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return prefix + [str(part) for part in command]


def settings(name):
    """The variables of an environment file beside this script."""
    lines = (HERE / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class Node:
    """A node of the cluster: its processes and their ports."""

    def __init__(self, number, directory, programs):
        self.name = f"db{number}"
        self.directory = directory / self.name
        self.programs = programs
        self.etcd, self.peer, self.rest, self.postgres = (free_port() for _ in range(4))
        self.processes = []

    def start(self, nodes, state="new"):
        self.directory.mkdir(exist_ok=True)
        if os.getuid() == 0:
            shutil.chown(self.directory, "postgres", "postgres")
        own = f"http://127.0.0.1:{self.etcd}"
        own_peer = f"http://127.0.0.1:{self.peer}"
        etcd = settings("etcd.env") | {
            "ETCD_NAME": self.name,
            "ETCD_DATA_DIR": f"{self.directory}/etcd",
            "ETCD_LISTEN_CLIENT_URLS": own,
            "ETCD_ADVERTISE_CLIENT_URLS": own,
            "ETCD_LISTEN_PEER_URLS": own_peer,
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": own_peer,
            "ETCD_INITIAL_CLUSTER": ",".join(
                f"{m.name}=http://127.0.0.1:{m.peer}" for m in nodes
            ),
            "ETCD_INITIAL_CLUSTER_STATE": state,
        }
        address = f"127.0.0.1:{self.postgres}"
        patroni = settings("node.env") | {
            "PATRONI_NAME": self.name,
            "PATRONI_ETCD3_HOSTS": ",".join(f"'127.0.0.1:{m.etcd}'" for m in nodes),
            "PATRONI_RESTAPI_LISTEN": f"127.0.0.1:{self.rest}",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": f"127.0.0.1:{self.rest}",
            "PATRONI_POSTGRESQL_LISTEN": address,
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": address,
            "PATRONI_POSTGRESQL_DATA_DIR": f"{self.directory}/data",
            "PATRONI_POSTGRESQL_BIN_DIR": str(self.programs["postgres"]),
            "PATRONI_POSTGRESQL_PGPASS": f"{self.directory}/pgpass",
        }
        self.processes = [
            self.spawn("etcd", etcd, self.programs["etcd"]),
            self.spawn("patroni", patroni, self.programs["patroni"], "../conf/patroni.yml"),
        ]

    def spawn(self, name, environment, *command):
        with open(self.directory / f"{name}.log", "a") as log:
            return subprocess.Popen(
                as_postgres(*command),
                cwd=self.directory,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"} | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def status(self):
        """The members of the cluster according to this Patroni; empty if unreachable."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.rest, timeout=2)
            connection.request("GET", "/cluster")
            return json.load(connection.getresponse())["members"]
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            return []

    def pids(self):
        """All processes of the node: those started here, and PostgreSQL, which
        Patroni has started, with its children."""
        found = [process.pid for process in self.processes if process.poll() is None]
        try:
            found.append(int((self.directory / "data/postmaster.pid").read_text().split()[0]))
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
        for process in self.pids():
            try:
                os.kill(process, which)
            except ProcessLookupError:
                pass
        if which == signal.SIGKILL:
            for process in self.processes:
                process.wait()
            self.processes = []


class Cluster:
    def __init__(self, directory, programs):
        self.nodes = [Node(n, directory, programs) for n in (1, 2, 3)]
        self.directory = directory
        self.programs = programs

    def start(self):
        for node in self.nodes:
            node.start(self.nodes)

    def healthy(self, count, lost=None):
        """The roles, once a primary and a synchronous standby exist and `count`
        members run or stream. The `lost` node must not be the leader; it is not
        queried, because it may not know yet."""
        statuses = (m.status() for m in self.nodes if m is not lost)
        members = next(filter(None, statuses), [])
        roles = {m["name"]: m["role"] for m in members if m["state"] in ("running", "streaming")}
        lost_leads = lost and roles.get(lost.name) == "leader"
        complete = len(roles) == count and {"leader", "sync_standby"} <= set(roles.values())
        return roles if complete and not lost_leads else None

    def node(self, name):
        return next(m for m in self.nodes if m.name == name)

    def psql(self, node, sql, database="postgres"):
        address = (
            f"host=127.0.0.1 port={node.postgres} user=postgres dbname={database} "
            f"sslmode=verify-full sslrootcert={self.directory}/conf/root.crt"
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
        """A connection URL with all hosts: petstore picks the primary."""
        hosts = ",".join(f"127.0.0.1:{m.postgres}" for m in self.nodes)
        return (
            f"postgres://petstore:a%2Fsecret@{hosts}/petstore"
            f"?sslmode=verify-full&sslrootcert={self.directory}/conf/root.crt"
        )


class Petstore:
    """A replica of petstore."""

    def __init__(self, binary, url, directory, number):
        self.log = directory / f"petstore-{number}.log"
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
        response = connection.getresponse()
        return response.status, json.load(response), response.headers

    def animals(self, key):
        found, path = [], "/v1/pets?limit=100"
        while path:
            status, page, headers = self.request(key, "GET", path)
            if status != 200:
                raise SystemExit(f"listing animals failed with {status}: {page}")
            found += [(animal["id"], animal["name"]) for animal in page]
            link = re.match(r"<(.*)>", headers.get("Link", ""))
            path = link and link[1]
        return found


class LoadGenerator:
    """Closed-loop clients that create animals, and the outcomes of their
    requests."""

    def __init__(self, replicas, key):
        self.replicas, self.key = replicas, key
        self.lock, self.stop = threading.Lock(), False
        self.acknowledged, self.unknown = {}, set()
        self.consecutive_acks, self.last, self.gap = 0, time.monotonic(), 0
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
                    self.consecutive_acks += 1
                    now = time.monotonic()
                    self.gap, self.last = max(self.gap, now - self.last), now
                else:
                    if status not in (0, 503):
                        report(f"unexpected status {status}: {body}")
                    self.unknown.add(name)
                    self.consecutive_acks = 0
            if status != 201:
                time.sleep(0.5)

    def wait_for_acks(self, count):
        """Waits until this many creates in a row are acknowledged."""
        with self.lock:
            self.consecutive_acks = 0
        wait_for(f"{count} creates in a row", lambda: self.consecutive_acks >= count)

    def finish(self):
        self.stop = True
        for thread in self.threads:
            thread.join()


class EventReader:
    """Follows the event log at a replica, and resumes after every failure."""

    def __init__(self, replica, key):
        self.replica, self.key = replica, key
        self.animals, self.failures, self.gone = [], 0, None
        self.last = None
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        path = "/v1/events?limit=1000&wait=1"
        while not self.gone and not (self.last and self.animals[-1:] == [self.last]):
            try:
                status, page, headers = self.replica.request(self.key, "GET", path)
            except OSError:
                status = 0
            if status == 200:
                self.animals += [(event["data"]["id"], event["data"]["name"]) for event in page]
                path = re.match(r"<(.*)>", headers["Link"])[1]
            elif status in (0, 503):
                self.failures += 1
                time.sleep(0.2)
            else:
                self.gone = page

    def finish(self, last):
        """Waits until the reader has got the last animal."""
        self.last = last
        self.thread.join(60)

    def find_violations(self, animals):
        if self.gone:
            return [f"the reader was told to start over: {self.gone}"]
        if len(self.animals) != len(set(self.animals)):
            return ["the reader got an event twice"]
        missing = set(animals) - set(self.animals)
        more = set(self.animals) - set(animals)
        return [f"the reader misses {len(missing)} and has {len(more)} more"] if missing or more else []


def find_violations(load, animals):
    """Lost, duplicated and unexpected animals."""
    stored = {}
    for number, name in animals:
        stored.setdefault(name, []).append(number)
    violations = [f"{n} is stored {len(ids)} times" for n, ids in stored.items() if len(ids) > 1]
    for name, number in load.acknowledged.items():
        if stored.get(name) != [number]:
            violations.append(f"{name} was acknowledged as {number}, found: {stored.get(name)}")
    known = load.acknowledged.keys() | load.unknown
    return violations + [f"{name} was never created" for name in stored if name not in known]


def certificates(conf):
    """Creates a certificate authority and a certificate for the loopback address."""
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


def prepare(directory, patroni):
    """Writes the configuration and locates the programs."""
    conf = directory / "conf"
    conf.mkdir()
    certificates(conf)
    text = (HERE / "patroni.yml").read_text()
    text = text.replace("/etc/patroni", str(conf)).replace("/run/postgresql", str(directory))
    (conf / "patroni.yml").write_text(text)
    if not patroni:
        report("installing Patroni")
        # Debian's Python: the user postgres may not be able to read another one.
        subprocess.run(["/usr/bin/python3", "-m", "venv", directory / "venv"], check=True)
        pip = [directory / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", HERE / "requirements.txt"], check=True)
        patroni = directory / "venv/bin/patroni"
    versions = pathlib.Path("/usr/lib/postgresql").glob("*/bin")
    newest = max(versions, key=lambda path: int(path.parent.name))
    return {"etcd": shutil.which("etcd"), "patroni": patroni, "postgres": newest}


def run(directory, arguments):
    cluster = Cluster(directory, prepare(directory, arguments.patroni))
    replicas, readers, load = [], [], None
    try:
        report("starting three nodes of etcd, Patroni and PostgreSQL")
        cluster.start()
        roles = wait_for("the cluster", lambda: cluster.healthy(3))
        report(f"cluster: {roles}")
        primary = cluster.node(next(n for n, role in roles.items() if role == "leader"))
        cluster.psql(primary, "CREATE ROLE petstore LOGIN PASSWORD 'a/secret'")
        cluster.psql(primary, "CREATE DATABASE petstore OWNER petstore")
        replicas = [Petstore(arguments.petstore, cluster.url(), directory, n) for n in (1, 2)]
        report(f"two replicas of petstore on {', '.join(r.address for r in replicas)}")
        environment = os.environ | {"PETSTORE_DATABASE": cluster.url()}
        made = subprocess.run(
            [arguments.petstore, "keys", "create", "try"],
            env=environment, capture_output=True, text=True, check=True,
        )
        key = made.stdout.strip()

        readers = [EventReader(replica, key) for replica in replicas]
        load = LoadGenerator(replicas, key)
        load.wait_for_acks(2000)
        names = cluster.psql(primary, "SHOW synchronous_standby_names")
        sessions = cluster.psql(
            primary, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'petstore'"
        )
        report(f"{len(load.acknowledged)} animals acknowledged, {len(load.unknown)} with an unknown outcome; "
            f"synchronous_standby_names = {names}; {sessions} connections")

        load.gap = 0
        if arguments.how == "kill":
            report(f"SIGKILL for everything on {primary.name}, the primary")
            primary.signal(signal.SIGKILL)
        else:
            report(f"SIGSTOP for everything on {primary.name}, the primary")
            primary.signal(signal.SIGSTOP)
        roles = wait_for("the failover", lambda: cluster.healthy(2, lost=primary))
        report(f"cluster: {roles}")
        load.wait_for_acks(2000)
        report(f"{len(load.acknowledged)} animals acknowledged, {len(load.unknown)} with an unknown outcome; "
            f"longest gap without an acknowledgement: {load.gap:.1f} s")

        report(f"{primary.name} rejoins")
        if arguments.how == "kill":
            primary.start(cluster.nodes, state="existing")
        else:
            primary.signal(signal.SIGCONT)
        roles = wait_for("the old primary to rejoin", lambda: cluster.healthy(3, lost=primary))
        report(f"cluster: {roles}")
        load.wait_for_acks(2000)
        load.finish()
        report(f"{len(load.acknowledged)} animals acknowledged, {len(load.unknown)} with an unknown outcome")

        violations = [f"{r.address} has exited" for r in replicas if r.process.poll() is not None]
        _, last, _ = replicas[0].request(key, "POST", "/v1/pets", {"name": "last", "categoryId": 1})
        load.acknowledged["last"] = last["id"]
        for replica, reader in zip(replicas, readers):
            animals = replica.animals(key)
            reader.finish((last["id"], "last"))
            found = find_violations(load, animals) + reader.find_violations(animals)
            report(f"{replica.address} has {len(animals)} animals, its reader got {len(reader.animals)} "
                f"events with {reader.failures} failures: {found[:5] or 'no problems found'}")
            violations += found
        if readers[0].animals != readers[1].animals:
            violations.append("the readers got different orders")
            report(violations[-1])
        return 1 if violations else 0
    finally:
        if load:
            load.finish()
        for reader in readers:
            reader.gone = reader.gone or "the test has ended"
        for replica in replicas:
            replica.process.terminate()
            replica.process.wait()
        for node in cluster.nodes:
            node.signal(signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description="Failover test: loses the primary under load.")
    parser.add_argument("how", nargs="?", choices=["kill", "freeze"], default="kill")
    parser.add_argument("--petstore", default=REPOSITORY / "target/release/petstore",
                        help="the binary (default: target/release/petstore)")
    parser.add_argument("--patroni", help="an installed Patroni, instead of installing one")
    parser.add_argument("--keep", action="store_true", help="keep the directory with its logs")
    arguments = parser.parse_args()
    # On SIGTERM run the cleanup below, so that nothing is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="petstore-patroni-"))
    directory.chmod(0o755)
    if os.getuid() == 0:
        shutil.chown(directory, "postgres", "postgres")
    code = 1
    try:
        code = run(directory, arguments)
    finally:
        if arguments.keep:
            report(f"the logs are in {directory}")
        else:
            shutil.rmtree(directory)
        report("passed" if code == 0 else "failed")
    return code


if __name__ == "__main__":
    sys.exit(main())
