#!/usr/bin/env python3
"""Benchmarks the service against the limits of the machine and against its peers.

Every scenario runs the same load against each contender in turn, in interleaved
rounds, so that noise on the machine affects all of them. The main figure is the
server's CPU time per request, as a ratio within a round; the report shows the
median over the rounds.
"""

import argparse
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count, cycle, islice
from pathlib import Path
from threading import Event

import history as long_history
import instructions
import photos
from history import History
from load import Load, Measured, Paced, measure, memory, open_loop, processor_time
from ours import ORDERS, PROFILE, ROOT, YEAR, Ours
from peers import PEERS, Ids, Peer, Started
from postgres import Postgres
from report import Result, write

WORK = ROOT / "target/bench"
ANIMALS = 1000
PEER_ROUNDS = 3
PEER_NAMES = {peer.name for peer in PEERS}
SIZES = {"1 thousand": 1000, "1 million": 1_000_000, "10 million": 10_000_000}
SALES = {"1 thousand": 1000, "1 million": 1_000_000}
# Lists per second, and as many creates, beside which stalls are looked for.
STALLS_RATE = 2000
# Seconds between two keys that are created during the load.
KEY_PAUSE = 0.1
# Seconds between two certificates.
CERTIFICATE_PAUSE = 1.0


@dataclass
class Contender:
    name: str
    server: Started
    load: Load
    # CPU per request to add to the limit, in microseconds.
    besides: Callable[[], float] = lambda: 0.0
    # Measures it, instead of running the load.
    measure: Callable[[int], Measured] | None = None


@dataclass
class Scenario:
    name: str
    title: str
    # Starts the contenders. The first one is the baseline.
    contenders: Callable[["Bench"], list[Contender]]


@dataclass
class Bench:
    ours: Ours
    servers: dict[str, Started] = field(default_factory=dict)
    postgres: Postgres | None = None
    histories: dict[str, History] = field(default_factory=dict)
    # Their servers.
    clusters: list[Postgres] = field(default_factory=list)

    def server(self, name: str, start: Callable[[], Started]) -> Started:
        """A running server, started on first use."""
        if name not in self.servers:
            self.servers[name] = start()
        return self.servers[name]

    def service(self, animals: int = ANIMALS) -> Started:
        return self.server(f"petstore {animals}", lambda: self.ours.service(animals))

    def rivals(self) -> dict[str, Started]:
        """The simplest service and the peers, each with its own database."""
        found = {"simplest": self.server("simplest", lambda: self.ours.simplest(ANIMALS))}
        return found | {peer.name: self.peer(peer) for peer in PEERS}

    def peer(self, peer: Peer) -> Started:
        peer.install(WORK / "peers")
        folder = WORK / "data" / peer.name
        return self.server(peer.name, lambda: peer.start(WORK / "peers", folder, ANIMALS))

    def beside_fastify(
        self, start: Callable[["Bench", str, Started], Contender]
    ) -> list[Contender]:
        """The service and the fastest peer."""
        fastify = self.peer(next(peer for peer in PEERS if peer.name == "fastify"))
        return [start(self, "petstore", self.service()), start(self, "fastify", fastify)]

    def limit(self, like: Started, load: Load) -> Started:
        headers = load.headers or {}
        return self.ours.bare_hyper(like, load.requests[0], headers, load.body)

    def beside_all(
        self, ask: Callable[[Started], Load], besides: Callable[[], float] = lambda: 0.0
    ) -> list[Contender]:
        """The limit, the service, and every rival."""
        us = self.service()
        rivals = [Contender(name, server, ask(server)) for name, server in self.rivals().items()]
        return [*self.beside_limit(us, ask(us), besides), *rivals]

    def beside_limit(
        self, us: Started, load: Load, besides: Callable[[], float] = lambda: 0.0
    ) -> list[Contender]:
        limit = Contender("limit", self.limit(us, load), load, besides)
        return [limit, Contender("petstore", us, load)]

    def profiles(self, ask: Callable[[Started], Load]) -> list[Contender]:
        """The service as packaged, and as `cargo build --release` makes it."""
        def start() -> Started:
            return self.ours.service_with_profile("release", ANIMALS)

        servers = {PROFILE: self.service(), "release": self.server("release profile", start)}
        return [Contender(name, server, ask(server)) for name, server in servers.items()]

    def cores(self, ask: Callable[[Started], Load]) -> list[Contender]:
        """The service on one core and on all of them, with the client on any."""
        def start() -> Started:
            return self.ours.service_on_one_core(ANIMALS)

        servers = {"1 core": self.server("petstore on one core", start)}
        servers[f"{os.cpu_count()} cores"] = self.service()
        return [Contender(name, server, ask(server)) for name, server in servers.items()]

    def sizes(self, ask: Callable[[Started], Load]) -> list[Contender]:
        """The service with databases of increasing size."""
        servers = {name: self.service(animals) for name, animals in SIZES.items()}
        return [Contender(name, server, ask(server)) for name, server in servers.items()]

    def sales(self, ask: Callable[[Started], Load]) -> list[Contender]:
        """The service with a year of increasing numbers of sales."""
        return [
            Contender(
                name,
                server := self.server(
                    f"petstore with {sales} sales", lambda: self.ours.service_with_sales(sales)
                ),
                ask(server),
            )
            for name, sales in SALES.items()
        ]

    def history(self, database: str, name: str) -> History:
        """A service with a long history, started on first use."""
        known = f"{database} {name}"
        if known not in self.histories:
            size = long_history.SIZES[name]
            if database == "sqlite":
                started = long_history.on_sqlite(self.ours, size)
            else:
                started, cluster = long_history.on_postgres(self.ours, WORK, size)
                self.clusters.append(cluster)
            self.histories[known] = started
            self.servers[f"history {known}"] = started.server
        return self.histories[known]

    def histories_of(
        self, database: str, measured: Callable[[History], Callable[[int], Measured]]
    ) -> list["Contender"]:
        """Services with increasingly long histories."""
        started = {name: self.history(database, name) for name in long_history.SIZES}
        return [
            Contender(name, it.server, page(it.server), measure=measured(it))
            for name, it in started.items()
        ]

    def service_on_postgres(self) -> tuple[Started, Postgres]:
        if not self.postgres:
            self.postgres = Postgres(self.ours, WORK)
        postgres = self.postgres
        us = self.server("petstore on PostgreSQL", lambda: postgres.serve(self.ours))
        return us, postgres

    def on_postgres(self, script: str, ask: Callable[[Started], Load]) -> list[Contender]:
        """pgbench and bare hyper, then the service on PostgreSQL."""
        us, postgres = self.service_on_postgres()
        load = ask(us)

        def pgbench(seconds: int) -> Measured:
            before = processor_time(postgres.process.pid)
            rate, latency = postgres.pgbench(script, load.connections, seconds)
            spent = processor_time(postgres.process.pid) - before
            cpu, used = spent / (rate * seconds) * 1e6, memory(postgres.process.pid)
            return Measured(rate, cpu, latency, latency, 0, 0, used)

        def both(seconds: int) -> Measured:
            before = processor_time(postgres.process.pid)
            measured = measure(us.process.pid, us.base, load, seconds)
            spent = processor_time(postgres.process.pid) - before
            measured.cpu += spent / (measured.requests * seconds) * 1e6
            return measured

        return [
            Contender("pgbench", us, load, measure=pgbench),
            Contender("bare hyper", self.limit(us, load), load),
            Contender("petstore", us, load, measure=both),
        ]

    def open_loop(
        self,
        server: Started,
        loads: list[Paced],
        seconds: int,
        events: str | None = None,
        certificate: Path | None = None,
    ) -> list[Measured]:
        program = self.ours.programs / "open-loop"
        return open_loop(program, server.base, server.headers, loads, seconds, events, certificate)

    def creating(self, connections: int) -> list[Contender]:
        """The limit, the service and every rival, creating animals.

        A create costs more in a larger store, so the service has a new one in each round,
        as the limit has. Those of the rivals grow, but slowly.
        """
        ask = create(connections)
        limit, ours, *rivals = self.beside_all(ask, lambda: self.raw_insert(connections))

        def in_new_store(seconds: int) -> Measured:
            us = self.ours.service(ANIMALS)
            try:
                return measure(us.process.pid, us.base, ask(us), seconds)
            finally:
                us.stop()

        return [limit, replace(ours, measure=in_new_store), *rivals]

    def raw_insert(self, connections: int) -> float:
        """CPU of an insert in µs, with as many per commit as there are connections to share it.

        There are about as many inserts as the service executes in a round.
        """
        return self.ours.raw(ANIMALS, "insert", min(6_000 * connections, 60_000), connections)

    def raw_details(self) -> float:
        return self.ours.raw(SIZES["1 million"], "details", 20_000)

    def raw_page(self) -> float:
        return self.ours.raw(SIZES["10 million"], "page", 50_000)

    def raw_get(self) -> float:
        return self.ours.raw(SIZES["10 million"], "get", 50_000)


# Workloads.


def page(server: Started) -> Load:
    return Load([f"GET {server.paths['list']}"], headers=server.headers)


def events(server: Started) -> Load:
    return Load(["GET /v1/events?sort=desc"], headers=server.headers)


def history(server: Started) -> Load:
    """The history of each of a thousand random animals."""
    ids = random.Random(3).choices(server.ids, k=1000)
    requests = [f"GET /v1/events?subject=pets/{id}&sort=desc&limit=50" for id in ids]
    return Load(requests, headers=server.headers)


def month(server: Started) -> Load:
    """The report of a month by day, which is kept after the first request."""
    path = f"/v1/store/sales?by=day&from={YEAR}-06-01&to={YEAR}-06-30&timeZone=Europe/Berlin"
    return Load([f"GET {path}"], headers=server.headers)


def no_match(server: Started) -> Load:
    """A page whose filter matches nothing: it examines up to 10,000 events."""
    return Load(["GET /v1/events?types=category.deleted&limit=1000"], headers=server.headers)


def loaded(ask: Callable[[Started], Load]) -> Callable[[History], Callable[[int], Measured]]:
    """A load on a service with a long history. The CPU of its database counts."""

    def start(it: History) -> Callable[[int], Measured]:
        load = ask(it.server)

        def both(seconds: int) -> Measured:
            before = it.spent()
            measured = measure(it.server.process.pid, it.server.base, load, seconds)
            measured.cpu = (it.spent() - before) / (measured.requests * seconds) * 1e6
            return measured

        return both

    return start


def by_status(server: Started) -> Load:
    return Load([f"GET {server.paths['status']}"], headers=server.headers)


def get(server: Started) -> Load:
    """The same thousand random animals in turn."""
    return gets(server, random.Random(1).choices(server.ids, k=1000))


def get_once(server: Started) -> Load:
    """Random animals, none twice in a round."""
    return gets(server, random.Random(2).sample(server.ids, 300_000))


def gets(server: Started, ids: Ids) -> Load:
    requests = [f"GET {server.paths['get'].format(id=id)}" for id in ids]
    return Load(requests, headers=server.headers)


def walk(server: Started) -> Load:
    """Every page of a small database."""
    if "walk" not in server.paths:
        return our_walk(server, ANIMALS)
    ids = server.ids
    afters = [0 if isinstance(ids[0], int) else "", *ids[19:-1:20]]
    path = server.paths["walk"]
    requests = [f"GET {path.format(after=a, page=n)}" for n, a in enumerate(afters, 1)]
    return Load(requests, headers=server.headers)


def our_walk(server: Started, pages: int) -> Load:
    """The pages of the service, following the Link header."""
    host = server.base.removeprefix("http://")
    client, path, requests = http.client.HTTPConnection(host), server.paths["list"], []
    while path and len(requests) < pages:
        requests.append(f"GET {path}")
        client.request("GET", path, headers=server.headers)
        response = client.getresponse()
        response.read()
        link = response.headers.get("Link")
        path = re.match("<(.+?)>", link)[1] if link else None
    return Load(requests, headers=server.headers)


def not_modified(server: Started) -> Load:
    host = server.base.removeprefix("http://")
    client = http.client.HTTPConnection(host)
    client.request("GET", server.paths["list"], headers=server.headers)
    tag = client.getresponse().headers["ETag"]
    return Load([f"GET {server.paths['list']}"], headers=server.headers | {"If-None-Match": tag})


def create(connections: int) -> Callable[[Started], Load]:
    """Animals with different names and categories: indexes are hit at random."""

    def ask(server: Started) -> Load:
        chosen = random.Random(3)
        names = ["".join(chosen.choices("abdefgilmnoprstu", k=6)) for _ in range(5000)]
        bodies = (
            server.body.replace("Biscuit", name).replace(": 3", f": {chosen.randrange(20)}")
            for name in names
        )
        requests = [f"POST {server.paths['create']} {body}" for body in bodies]
        return Load(requests, connections, server.headers, server.body)

    return ask


def mix(server: Started) -> Load:
    """19 list requests per create."""
    requests = [f"GET {server.paths['list']}"] * 19 + [f"POST {server.paths['create']}"]
    return Load(requests, headers=server.headers, body=server.body)


def wrong_key(server: Started) -> Load:
    return Load([f"GET {server.paths['list']}"], headers=server.wrong_headers)


def codings(bench: Bench) -> list[Contender]:
    """A page of 100 animals, plain and compressed."""
    us = bench.service()

    def load(headers: dict[str, str]) -> Load:
        return Load([f"GET {us.paths['list']}?limit=100"], headers=us.headers | headers)

    compressed = [Contender(name, us, load({"Accept-Encoding": name})) for name in ("zstd", "gzip")]
    return [Contender("plain", us, load({})), *compressed]


def over_http2(server: Started) -> Load:
    return Load([f"GET {server.paths['list']}"], headers=server.headers, http2=True)


def fresh(us: Started, request: str, numbers: Iterator[int]) -> Callable[[int], Measured]:
    """Numbers the requests on from round to round, none twice."""

    def ask(seconds: int) -> Measured:
        requests = [request.replace("#", str(n)) for n in islice(numbers, 50_000 * seconds)]
        load = Load(requests, headers=us.headers)
        return measure(us.process.pid, us.base, load, seconds)

    return ask


def sales(us: Started, orders: int) -> list[Contender]:
    """Creates pets, places orders for existing pets, completes existing orders."""
    load = create(64)(us)
    place = fresh(us, 'POST /v1/store/orders {"petId":#}', count(orders + 1))
    complete = fresh(us, "POST /v1/store/orders/#/complete", count(1))
    return [
        Contender("create", us, load),
        Contender("place", us, load, measure=place),
        Contender("complete", us, load, measure=complete),
    ]


def sqlite_sales(bench: Bench) -> list[Contender]:
    return sales(bench.server("petstore with orders", bench.ours.service_with_orders), ORDERS)


def postgres_sales(bench: Bench) -> list[Contender]:
    us, postgres = bench.service_on_postgres()
    postgres.open_orders(ORDERS)
    return sales(us, ORDERS)


def place_and_cancel(us: Started) -> Callable[[int], Measured]:
    """Orders for random animals, over one connection, so that the numbers of orders are known."""
    client = http.client.HTTPConnection(us.base.removeprefix("http://"))

    def call(method: str, path: str) -> list[dict]:
        client.request(method, path, headers=us.headers)
        return json.load(client.getresponse())

    def ask(seconds: int) -> Measured:
        last = next(iter(call("GET", "/v1/store/orders?sort=desc&limit=1")), None)
        if last and last["status"] == "placed":
            call("POST", f"/v1/store/orders/{last['id']}/cancel")
        first = last["id"] + 1 if last else 1
        chosen = random.Random(first)
        animals = []
        for _ in range(20):
            ids = ",".join(str(chosen.choice(us.ids)) for _ in range(100))
            found = call("GET", f"/v1/pets?status=available&limit=100&id={ids}")
            animals += [animal["id"] for animal in found]
        # wrk asks for one request that it never sends.
        requests = ["GET /healthz"]
        for order, animal in zip(range(first, first + 20_000 * seconds), cycle(animals)):
            requests.append(f'POST /v1/store/orders {{"petId":{animal}}}')
            requests.append(f"POST /v1/store/orders/{order}/cancel")
        load = Load(requests, connections=1, headers=us.headers)
        return measure(us.process.pid, us.base, load, seconds)

    return ask


def growing_orders(bench: Bench) -> list[Contender]:
    return [
        replace(contender, measure=place_and_cancel(contender.server))
        for contender in bench.sizes(page)
    ]


def half_load(
    bench: Bench,
    name: str,
    server: Started,
    request: str,
    closed: Callable[[int], Measured],
    numbers: Iterator[int],
    events: str | None = None,
) -> Contender:
    """Latency at half of the throughput over 64 connections, which is measured first, once."""
    rate = 0.0

    def ask(seconds: int) -> Measured:
        nonlocal rate
        rate = rate or closed(seconds).requests / 2
        first, *_ = islice(numbers, int(rate * seconds) + 1)
        load = Paced(rate, request, first)
        return bench.open_loop(server, [load], seconds, events)[-1]

    return Contender(name, server, page(server), measure=ask)


def paced_list(bench: Bench, name: str, server: Started) -> Contender:
    def closed(seconds: int) -> Measured:
        return measure(server.process.pid, server.base, page(server), seconds)

    return half_load(bench, name, server, page(server).requests[0], closed, count())


def paced_create(
    bench: Bench, name: str, server: Started, events: str | None = None
) -> Contender:
    def closed(seconds: int) -> Measured:
        return measure(server.process.pid, server.base, create(64)(server), seconds)

    return half_load(bench, name, server, numbered_create(server), closed, count(), events)


def numbered_create(server: Started) -> str:
    """Names in random order, each with the number of its request."""
    return f"POST {server.paths['create']} {server.body.replace('Biscuit', '@-#')}"


def paced_orders(bench: Bench) -> list[Contender]:
    us = bench.server("petstore without orders", lambda: bench.ours.service_with_orders(0))
    request, numbers = 'POST /v1/store/orders {"petId":#}', count(1)
    return [half_load(bench, "petstore", us, request, fresh(us, request, numbers), numbers)]


def event_delivery(bench: Bench) -> list[Contender]:
    path = "/v1/events/stream?types=pet.created"
    return [paced_create(bench, "petstore", bench.service(), path)]


def overload(bench: Bench) -> list[Contender]:
    us = bench.service()
    return [Contender(f"{n} connections", us, create(n)(us)) for n in (64, 512, 4000)]


def large_walk(bench: Bench) -> list[Contender]:
    """More pages than a round requests, so that none is requested twice."""
    us = bench.service(SIZES["10 million"])
    return bench.beside_limit(us, our_walk(us, 150_000), bench.raw_page)


def walk_with_details(bench: Bench) -> list[Contender]:
    """Pages of animals with and without the optional members, none twice."""
    def start() -> Started:
        return bench.ours.service(SIZES["1 million"], details=True)

    us = bench.server("petstore with details", start)
    without = bench.service(SIZES["1 million"])
    limit, ours = bench.beside_limit(us, our_walk(us, 49_000), bench.raw_details)
    ours.name = "all members"
    return [Contender("few members", without, our_walk(without, 49_000)), ours, limit]


def large_get(bench: Bench) -> list[Contender]:
    us = bench.service(SIZES["10 million"])
    return bench.beside_limit(us, get_once(us), bench.raw_get)


def pages(kind: str) -> Callable[[Bench], list[Contender]]:
    """Pages at random positions, read by the store without a cache, by database size."""

    def start(bench: Bench) -> list[Contender]:
        def reading(animals: int) -> Callable[[int], Measured]:
            store, _ = bench.ours.store(animals)

            def read(seconds: int) -> Measured:
                cpu = float(bench.ours.program("pages", store, kind, 10_000 * seconds))
                return Measured(1e6 / cpu, cpu, 0, 0, 0, 0, 0)

            return read

        us = bench.service()
        return [
            Contender(name, us, page(us), measure=reading(animals))
            for name, animals in SIZES.items()
        ]

    return start


def histories(database: str, prefix: str, title: str) -> list[Scenario]:
    """The scenarios of a long history, on a database."""
    measured = {
        "history-newest": ("newest 50 events of an animal", loaded(long_history.newest)),
        "history-feed": ("feed of an animal from the start, 100 events", loaded(long_history.feed)),
        "history-stream": ("stream of an animal from the start, 100 events", long_history.stream),
        "report-warm": ("report of a month, days kept", loaded(long_history.month)),
        "report-cold": ("report of a month, days scanned", long_history.cold_month),
    }
    return [
        Scenario(
            prefix + name,
            f"{title}{what}, by number of events",
            lambda bench, ask=ask: bench.histories_of(database, ask),
        )
        for name, (what, ask) in measured.items()
    ]


SCENARIOS = [
    Scenario("list", "List, default page (cached)", lambda b: b.beside_all(page)),
    Scenario("status", "List by status", lambda b: b.beside_all(by_status)),
    Scenario(
        "walk", "Paginate through all 1,000 animals", lambda b: b.beside_all(walk)
    ),
    Scenario("get", "Get, the same 1,000 animals in turn (cached)", lambda b: b.beside_all(get)),
    Scenario(
        "304",
        "List with If-None-Match (304)",
        lambda b: b.beside_limit(b.service(), not_modified(b.service())),
    ),
    Scenario("compressed", "List of 100 animals, compressed (cached)", codings),
    Scenario("wrong-key", "Invalid API key (401)", lambda b: b.beside_all(wrong_key)),
    Scenario(
        "http2",
        "List over HTTP/2, 16 connections with 4 streams each",
        lambda b: b.beside_limit(b.service(), over_http2(b.service())),
    ),
    Scenario(
        "mix",
        "95 % list, 5 % create",
        lambda b: b.beside_all(mix, lambda: b.raw_insert(64) / 20),
    ),
    Scenario("create-1", "Create, 1 connection", lambda b: b.creating(1)),
    Scenario("create-64", "Create, 64 connections", lambda b: b.creating(64)),
    Scenario("create-512", "Create, 512 connections", lambda b: b.creating(512)),
    Scenario("cores-list", "List, default page (cached), by cores", lambda b: b.cores(page)),
    Scenario("cores-create", "Create, 64 connections, by cores", lambda b: b.cores(create(64))),
    Scenario(
        "latency-list",
        "Latency of lists at half of the maximum rate",
        lambda b: b.beside_fastify(paced_list),
    ),
    Scenario(
        "latency-create",
        "Latency of creates at half of the maximum rate",
        lambda b: b.beside_fastify(paced_create),
    ),
    Scenario("latency-order", "Latency of orders at half of the maximum rate", paced_orders),
    Scenario(
        "latency-events",
        "From a create to its event on a stream, creates at half of the maximum rate",
        event_delivery,
    ),
    Scenario("profile-list", "List, default page (cached), by Cargo profile", lambda b: b.profiles(page)),
    Scenario("profile-create", "Create, 64 connections, by Cargo profile", lambda b: b.profiles(create(64))),
    Scenario("overload", "Create, by number of connections", overload),
    Scenario("orders", "Orders and creates, 64 connections", sqlite_sales),
    Scenario("walk-large", "Paginate through 10 million animals, no page twice (uncached)", large_walk),
    Scenario(
        "walk-details",
        "Paginate through animals with all members, no page twice (uncached)",
        walk_with_details,
    ),
    Scenario("get-large", "Get from 10 million animals, none twice (uncached)", large_get),
    Scenario("growth-list", "List, by database size", lambda b: b.sizes(page)),
    Scenario("growth-status", "List by status, by database size", lambda b: b.sizes(by_status)),
    Scenario("growth-get", "Get, by database size", lambda b: b.sizes(get)),
    Scenario("growth-events", "Newest page of events, by database size", lambda b: b.sizes(events)),
    Scenario("growth-history", "History of an animal, by database size", lambda b: b.sizes(history)),
    Scenario(
        "growth-report",
        "Report of a month by day, by number of sales in the year",
        lambda b: b.sales(month),
    ),
    Scenario(
        "growth-no-match",
        "Page of events without a match, by database size",
        lambda b: b.sizes(no_match),
    ),
    Scenario("growth-all-pages", "Page at any depth, by database size", pages("all")),
    Scenario("growth-category-pages", "Page of a category, by database size", pages("category")),
    Scenario(
        "growth-category-status-pages",
        "Page of a category and status, by database size",
        pages("category-status"),
    ),
    Scenario("growth-name-pages", "Page of a search by name, by database size", pages("name")),
    Scenario(
        "growth-name-status-pages",
        "Page of a search by name and status, by database size",
        pages("name-status"),
    ),
    Scenario(
        "growth-search-letter-pages",
        "Page of a search for a letter, by database size",
        pages("search-letter"),
    ),
    Scenario(
        "growth-search-syllable-pages",
        "Page of a search for a syllable, by database size",
        pages("search-syllable"),
    ),
    Scenario(
        "growth-search-syllable-status-pages",
        "Page of a search for a syllable and a status, by database size",
        pages("search-syllable-status"),
    ),
    Scenario(
        "growth-search-name-pages",
        "Search for a whole name, by database size",
        pages("search-name"),
    ),
    Scenario("growth-create", "Create, by database size", lambda b: b.sizes(create(64))),
    Scenario("growth-orders", "Place and cancel an order, by database size", growing_orders),
    *histories("sqlite", "", "SQLite: "),
    Scenario(
        "pg-list",
        "PostgreSQL: list, default page (cached)",
        lambda b: b.on_postgres("list", page),
    ),
    Scenario(
        "pg-get-cached",
        "PostgreSQL: get, the same 1,000 animals in turn (cached)",
        lambda b: b.on_postgres("get", get),
    ),
    Scenario(
        "pg-walk",
        "PostgreSQL: paginate, uncached",
        lambda b: b.on_postgres("walk", lambda us: our_walk(us, 40_000)),
    ),
    Scenario("pg-get", "PostgreSQL: get, uncached", lambda b: b.on_postgres("get", get_once)),
    Scenario(
        "pg-create",
        "PostgreSQL: create, 64 connections",
        lambda b: b.on_postgres("create", create(64)),
    ),
    Scenario("pg-orders", "PostgreSQL: orders and creates, 64 connections", postgres_sales),
    *histories("postgres", "pg-", "PostgreSQL: "),
]


# The loads whose instructions are counted.
COUNTED = {
    "list": page,
    "get": get,
    "not modified": not_modified,
    "invalid key": wrong_key,
    "pages in turn": walk,
    "create": create(1),
}


def main() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    names += ["photos", "stalls", "start", "instructions"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", help=f"some of: {', '.join(names)}; default: all")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=2, help="duration of a round")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    # Photos take some 80 GB of disk and an hour, so they are measured only by name.
    chosen = options.scenarios or [name for name in names if name != "photos"]

    began = time.monotonic()
    shutil.rmtree(WORK / "data", ignore_errors=True)
    progress("building the programs")
    bench = Bench(Ours(WORK))
    if not options.scenarios:
        for peer in PEERS:
            progress(f"installing {peer.name}")
            peer.install(WORK / "peers")
        for animals in SIZES.values():
            progress(f"creating a database with {animals:,} animals")
            bench.ours.fill(animals)
        # Flush dirty pages, so that writeback does not disturb the first scenario.
        os.sync()
    results = []
    try:
        for scenario in SCENARIOS:
            if scenario.name in chosen:
                where = f"{chosen.index(scenario.name) + 1}/{len(chosen)} {scenario.name}"
                results.append(run(bench, scenario, options.rounds, options.seconds, where))
        if "photos" in chosen:
            progress("photos")
            request = numbered_create(bench.service())
            results.append(photos.uploads(bench, options.rounds * options.seconds, request))
            results.append(photos.stores(bench, options.rounds, options.seconds, our_walk))
        if "stalls" in chosen:
            results.append(stalls(bench, options.rounds * options.seconds))
        if "start" in chosen:
            progress("start")
            results.append(starts(bench, options.rounds))
        if "instructions" in chosen:
            results.append(instructions.compare(bench.ours, COUNTED, options.rounds, progress))
    finally:
        for server in bench.servers.values():
            server.stop()
        for cluster in [bench.postgres, *bench.clusters]:
            if cluster:
                cluster.stop()
        progress("")
    measured = {name for result in results for name in result.figures}
    versions = {p.name: f"{p.version}; {p.commits}" for p in PEERS if p.name in measured}
    whole = not options.scenarios
    write(results, versions, time.monotonic() - began, options, ROOT / "bench" if whole else None)


def run(bench: Bench, scenario: Scenario, rounds: int, seconds: int, where: str) -> Result:
    progress(f"{where}: starting the servers")
    contenders = scenario.contenders(bench)
    figures: dict[str, list[Measured]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders:
            # The peers differ so much that fewer rounds suffice.
            if number >= PEER_ROUNDS and contender.name in PEER_NAMES:
                continue
            progress(f"{where}: round {number + 1} of {rounds}, {contender.name}")
            server = contender.server
            if contender.measure:
                measured = contender.measure(seconds)
            else:
                measured = measure(server.process.pid, server.base, contender.load, seconds)
                measured.cpu += contender.besides()
            figures[contender.name].append(measured)
    for contender in contenders:
        # The limit sends the response of this scenario only.
        if contender.server not in bench.servers.values():
            contender.server.stop()
    return Result(scenario.name, scenario.title, figures)


def stalls(bench: Bench, seconds: int) -> Result:
    """Latency of lists and creates at a moderate rate, beside work that might block them."""
    animals = SIZES["1 million"]
    store, key = bench.ours.store(animals)
    us = bench.server("petstore with stalls", lambda: bench.ours.serve(store, key, animals))
    database, copies = f"--database=sqlite:{store}", count(1)

    def backup() -> None:
        # Deleting one would stall the disk by itself.
        copy = store.with_name(f"backup-{next(copies)}.db")
        bench.ours.program("petstore", "backup", copy, database)

    def create_key() -> None:
        bench.ours.program("petstore", "keys", "create", "stalls", database)

    @contextmanager
    def purging() -> Iterator[Started]:
        """Another service, which begins to purge its old events when it starts."""
        old, key = bench.ours.store_with_old_events()
        os.sync()
        server = bench.ours.serve(old, key, animals)
        try:
            yield server
        finally:
            server.stop()

    certificates = [new_certificate(WORK / f"certificate-{n}") for n in range(2)]
    served = shutil.copytree(certificates[0], WORK / "certificate", dirs_exist_ok=True)
    renewals = cycle(certificates)

    def renew() -> None:
        shutil.copytree(next(renewals), served, dirs_exist_ok=True)

    @contextmanager
    def renewing() -> Iterator[Started]:
        """Another service, over TLS, which looks for a new certificate every five seconds."""
        copy, key = bench.ours.store(animals)
        os.sync()
        server = bench.ours.serve(copy, key, animals, served)
        try:
            with repeating(server, renew, CERTIFICATE_PAUSE):
                yield server
        finally:
            server.stop()

    beside = {
        "nothing": lambda: nullcontext(us),
        "backups": lambda: repeating(us, backup, 0),
        "new keys": lambda: repeating(us, create_key, KEY_PAUSE),
        "a purge of events": purging,
        "new certificates, over TLS": renewing,
    }
    loads = {"list": page(us).requests[0], "create": numbered_create(us)}
    paced = [Paced(STALLS_RATE, request) for request in loads.values()]
    figures = {}
    for name, start in beside.items():
        progress(f"stalls: beside {name}")
        os.sync()
        with start() as server:
            trusted = certificates[0] / "cert.pem" if server.base.startswith("https") else None
            measured = bench.open_loop(server, paced, seconds, certificate=trusted)
        for load, latencies in zip(loads, measured):
            figures[f"{load}, beside {name}"] = [latencies]
    title = f"Stalls: {STALLS_RATE:,} lists and as many creates per second, 1 million animals"
    return Result("stalls", title, figures)


def new_certificate(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    command += " -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    command += " -addext basicConstraints=critical,CA:FALSE"
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return folder


@contextmanager
def repeating(server: Started, action: Callable[[], None], pause: float) -> Iterator[Started]:
    """Repeats an action beside the block."""
    ended = Event()

    def repeat() -> None:
        while not ended.is_set():
            action()
            ended.wait(pause)

    with ThreadPoolExecutor() as pool:
        repeated = pool.submit(repeat)
        try:
            yield server
        finally:
            ended.set()
        repeated.result()


def starts(bench: Bench, rounds: int) -> Result:
    """Time from process start to the first page, and memory afterwards."""
    figures: dict[str, list[Measured]] = {}
    for name, animals in SIZES.items():
        store, key = bench.ours.store(animals)
        figures[name] = []
        for _ in range(rounds):
            began = time.perf_counter()
            server = bench.ours.serve(store, key, animals)
            spent = (time.perf_counter() - began) * 1e3
            idle = memory(server.process.pid)
            server.stop()
            figures[name].append(Measured(0, 0, spent, spent, 0, 0, idle))
    rivals = {"simplest": lambda: bench.ours.simplest(ANIMALS)}
    for peer in PEERS:
        peer.install(WORK / "peers")
        rivals[peer.name] = lambda p=peer: p.start(WORK / "peers", WORK / "data/idle", ANIMALS)
    for name, start in rivals.items():
        server = start()
        figures[name] = [Measured(0, 0, 0, 0, 0, 0, memory(server.process.pid))]
        server.stop()
    return Result("start", "Startup time to the first page, and idle memory", figures)


def progress(text: str) -> None:
    end = "\r" if sys.stderr.isatty() else "\n"
    if text or sys.stderr.isatty():
        print(f"\033[K{text}" if end == "\r" else text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
