"""Starts the programs of this repository: the service, the baselines and the simplest service."""

import re
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from peers import BODY, Command, Started, bearer, ready, spawn

ANIMALS = 1_000_000
# Enough for five rounds of two seconds; the default is four.
ORDERS = 500_000
# The year of sales: it is over, so that no report of it has a current day.
YEAR = 2025
# Their purge takes most of the eight seconds in which stalls are looked for.
OLD_EVENTS = 4_000_000
ROOT = Path(__file__).resolve().parent.parent
PATHS = {
    "list": "/v1/pets",
    "status": "/v1/pets?status=available",
    "get": "/v1/pets/{id}",
    "create": "/v1/pets",
}
# Sets every member that an animal can have.
DETAILS = """UPDATE pets SET breed = 'Labrador Retriever', sex = 'female', birth_date = '2026-05-21',
    color = 'white and tan', microchip = printf('%015d', id), price_amount = 111500,
    price_currency = 'USD', location = 'Kennel 12', acquired_on = '2026-10-12',
    description = 'Friendly and curious, used to being handled every day.',
    notes = 'Second vaccination is due next week.', source_name = 'Marlow Aviaries',
    source_address = '44 Chapel Road, Salisbury, MD', source_licence = '52-A-0260',
    metadata = '{"feed":"puppy-small","litter":"2026-04"}'"""

# The Cargo profile that everything is measured with: the packaged one.
PROFILE = "dist"


class Ours:
    """The programs of this repository, built with the `dist` profile."""

    def __init__(self, work: Path):
        self.work = work
        self.programs = self.build(PROFILE, "--workspace")

    def build(self, profile: str, *options: str) -> Path:
        """Builds the programs and returns the directory they are in."""
        build = ["cargo", "build", f"--profile={profile}", "--locked", "--quiet", *options]
        subprocess.run(build, check=True, cwd=ROOT)
        target = ["cargo", "metadata", "--format-version=1", "--no-deps"]
        found = subprocess.run(target, check=True, cwd=ROOT, capture_output=True, text=True)
        return Path(re.search('"target_directory":"(.+?)"', found.stdout)[1]) / profile

    def program(self, name: str, *arguments: object) -> str:
        command = [self.programs / name, *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def new_store(self, database: Path, name: str) -> str:
        """Creates a database, as the first start of the service does, and an API key in it."""
        database.unlink(missing_ok=True)
        serve = [self.programs / "petstore", "serve", "--port=0", f"--database=sqlite:{database}"]
        with subprocess.Popen(serve, stderr=subprocess.PIPE) as service:
            service.stderr.readline()  # It listens.
            service.terminate()
            service.communicate()
        return self.program("petstore", "keys", "create", name, f"--database=sqlite:{database}")

    def fill(self, animals: int, details: bool = False) -> Path:
        """A database with that many animals and events, created once and kept for a day.

        With details, the animals have every member.
        """
        kept = self.work / "stores" / f"{animals}{'-details' * details}.db"
        key = kept.with_suffix(".key")
        # The service purges events that are too old.
        if not key.exists() or key.stat().st_mtime < time.time() - 86400:
            kept.parent.mkdir(parents=True, exist_ok=True)
            secret = self.new_store(kept, "bench")
            self.program("raw-sqlite", kept, "fill", animals)
            if details:
                with sqlite3.connect(kept) as db:
                    db.execute(DETAILS)
                db.close()
            key.write_text(secret)
        return kept

    def store(self, animals: int, details: bool = False) -> tuple[Path, str]:
        """A copy of such a database, and its API key."""
        kept = self.fill(animals, details)
        key = kept.with_suffix(".key")
        folder = self.work / "data" / f"{animals}-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        shutil.copyfile(kept, folder / "pets.db")
        return folder / "pets.db", key.read_text()

    def service(self, animals: int, details: bool = False, under: Command = ()) -> Started:
        """The service, perhaps as an argument of another program."""
        store, key = self.store(animals, details)
        petstore = [*under, self.programs / "petstore"]
        return self.serve_from(f"sqlite:{store}", store.parent, key, animals, petstore)

    def service_with_profile(self, profile: str, animals: int) -> Started:
        """The service built with another Cargo profile."""
        store, key = self.store(animals)
        petstore = self.build(profile, "--bin=petstore") / "petstore"
        return self.serve_from(f"sqlite:{store}", store.parent, key, animals, [petstore])

    def service_on_one_core(self, animals: int) -> Started:
        """The service restricted to one core, where its runtime starts one worker."""
        store, key = self.store(animals)
        petstore = ["taskset", "--cpu-list", "0", self.programs / "petstore"]
        return self.serve_from(f"sqlite:{store}", store.parent, key, animals, petstore)

    def service_with_orders(self, orders: int = ORDERS) -> Started:
        """A million available animals, with open orders for the first of them."""
        store, key = self.store(ANIMALS)
        with sqlite3.connect(store) as db:
            db.executescript(f"UPDATE pets SET status = 'available'; {open_orders(orders)}")
        return self.serve(store, key, ANIMALS)

    def service_with_sales(self, sales: int) -> Started:
        """A thousand animals, and a year of sales, one in twenty of them returned a day later."""
        store, key = self.store(1000)
        with sqlite3.connect(store) as db:
            db.execute(year_of_sales(sales))
        db.close()
        return self.serve(store, key, 1000)

    def store_with_old_events(self) -> tuple[Path, str]:
        """A million animals, and events that are older than events are kept."""
        store, key = self.store(ANIMALS)
        with sqlite3.connect(store) as db:
            db.execute("UPDATE events SET at = 0")
            for first in range(ANIMALS, OLD_EVENTS, ANIMALS):
                db.execute(
                    f"""INSERT INTO events (sequence, at, type, resource_id, data)
                    SELECT {first} + sequence, 0, type, resource_id, data
                    FROM events WHERE sequence <= {ANIMALS}"""
                )
        db.close()
        return store, key

    def serve(
        self, store: Path, key: str, animals: int, certificate: Path | None = None
    ) -> Started:
        """Starts the service, over TLS if there is a folder with a certificate."""
        options = []
        if certificate:
            options = [f"--tls-cert={certificate}/cert.pem", f"--tls-key={certificate}/key.pem"]
        return self.serve_from(f"sqlite:{store}", store.parent, key, animals, options=options)

    def serve_from(
        self,
        database: str,
        folder: Path,
        key: str,
        animals: int,
        petstore: Command = (),
        options: Sequence[str] = (),
    ) -> Started:
        serve = [*(petstore or [self.programs / "petstore"]), "serve", "--listen=127.0.0.1:0"]
        serve += ["--failed-auth-limit=1000000/1s"]  # All invalid keys come from one address.
        process = spawn([*serve, *options, f"--database={database}"], folder, {})
        log = folder / "server.log"
        while not (url := re.search(r'"url":"([^"]+)"', log.read_text())):
            if process.poll() is not None:
                raise RuntimeError(f"The service did not start:\n{log.read_text()}")
            time.sleep(0.001)
        started = Started(
            process=process,
            base=url[1],
            headers=bearer(key),
            wrong_headers=bearer(self.unknown_key()),
            paths=PATHS,
            body=BODY,
            ids=range(1, animals + 1),
        )
        # Its certificate is not trusted here.
        is_plain = started.base.startswith("http://")
        return ready(started, folder, "listening", workers=1) if is_plain else started

    def unknown_key(self) -> str:
        """A well-formed key of another database."""
        return self.new_store(self.work / "other.db", "other")

    def simplest(self, animals: int) -> Started:
        store, key = self.store(animals)
        process = spawn([self.programs / "simplest", store, key], store.parent, {})
        base = "http://" + first_line(store.parent / "server.log")
        wrong = bearer("psk_wrong")
        paths = PATHS | {"walk": "/v1/pets?after={after}"}
        started = Started(process, base, bearer(key), wrong, paths, BODY, range(1, animals + 1))
        return ready(started, store.parent, ":", workers=1)

    def bare_hyper(
        self,
        like: Started,
        request: str,
        headers: dict[str, str],
        body: str,
        under: Command = (),
    ) -> Started:
        """hyper alone, sending the same response as another server."""
        folder = self.work / "data" / f"hyper-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        (folder / "response").write_bytes(exchange(like.base, request, headers, body))
        command = [*under, self.programs / "bare-hyper", folder / "response"]
        process = spawn(command, folder, {})
        return replace(like, process=process, base="http://" + first_line(folder / "server.log"))

    def raw(self, animals: int, action: str, count: int, *options: int) -> float:
        """CPU time of one statement in a loop, in microseconds."""
        store, _ = self.store(animals, details=action == "details")
        spent = float(self.program("raw-sqlite", store, action, count, *options))
        shutil.rmtree(store.parent)
        return spent



def open_orders(count: int) -> str:
    """SQL that opens an order for each of the first animals."""
    return f"""INSERT INTO orders (pet_id, status, created_at, updated_at)
        SELECT id, 'placed', 0, 0 FROM pets WHERE id <= {count} ORDER BY id;
        UPDATE pets SET status = 'pending' WHERE id <= {count};"""


def year_of_sales(count: int) -> str:
    """SQL that inserts sales of 20 categories, by five keys, evenly over the year."""
    start = int(datetime(YEAR, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    day = 86_400_000_000
    return f"""WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {count - 1}),
        sale AS (SELECT n, {start} + n * (365 * {day} / {count}) AS at, n % 20 = 7 AS returned FROM n)
        INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at, returned_at,
            price_amount, price_currency, completed_by, category_id)
        SELECT 10000 + n, iif(returned, 'returned', 'completed'), at, at + returned * {day}, at,
            iif(returned, at + {day}, NULL), 1000 + n % 900, 'EUR', 1 + n % 5, n / 5 % 20 FROM sale"""


def first_line(log: Path) -> str:
    """Waits for the first line a program prints: its address."""
    for _ in range(2000):
        if log.read_text().endswith("\n"):
            return log.read_text().strip()
        time.sleep(0.005)
    raise RuntimeError(f"{log.parent} did not start")


def exchange(base: str, request: str, headers: dict[str, str], body: str) -> bytes:
    """The raw bytes of a response."""
    host, port = base.removeprefix("http://").split(":")
    method, path, *own_body = request.split(" ", 2)
    body = own_body[0] if own_body else body if method == "POST" else ""
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in headers.items()]
    with socket.create_connection((host, int(port))) as client:
        client.sendall("\r\n".join([*head, "Connection: close", "", body]).encode())
        response = b"".join(iter(lambda: client.recv(1 << 16), b""))
    return response.replace(b"connection: close\r\n", b"")
