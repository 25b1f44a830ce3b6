"""Stores with a long history, on both databases, and how it is read."""

import http.client
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median

from load import TICK, Load, Measured, memory, processor_time
from ours import YEAR, Ours, year_of_sales
from peers import Started
from postgres import Postgres

ANIMALS = 1000
MONTH = f"/v1/store/sales?by=day&from={YEAR}-06-01&to={YEAR}-06-30&timeZone=Europe/Berlin"


@dataclass
class Size:
    events: int
    # In the year of sales; a twelfth of them is in the month of the report.
    sales: int

    @property
    def animals(self) -> int:
        """The animals that the events are about. Most of them do not exist any more."""
        return self.events // 100

    @property
    def events_of_animal(self) -> int:
        """The events about each animal, spread over the whole log, besides its creation."""
        return (self.events - ANIMALS) // self.animals


SIZES = {"100 thousand": Size(100_000, 10_000), "10 million": Size(10_000_000, 1_000_000)}


@dataclass
class History:
    """A service on such a store."""

    server: Started
    # Makes the service forget the sums of days, as another program would.
    forget: Callable[[], None]
    # The processes whose CPU time counts.
    processes: list[int]
    size: Size

    def spent(self) -> float:
        return sum(map(processor_time, self.processes))


def fill(ours: Ours, size: Size) -> tuple[Path, str]:
    """A store with a thousand animals, many more events, and a year of sales."""
    store, key = ours.store(ANIMALS)
    with sqlite3.connect(store) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute(year_of_sales(size.sales))
        # All of them are as old as the first one, so none is purged.
        db.execute(
            f"""INSERT INTO events (at, type, api_key_id, resource_id, data)
            WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n
                                    WHERE n < {size.animals * size.events_of_animal - 1})
            SELECT (SELECT min(at) FROM events), 'pet.updated', 1,
                1 + n % {size.animals},
                '{{"id":' || (1 + n % {size.animals})
                || ',"name":"Biscuit","categoryId":3,"location":"Kennel ' || n || '"}}' FROM n"""
        )
    db.close()
    return store, key


def on_sqlite(ours: Ours, size: Size) -> History:
    store, key = fill(ours, size)
    server = ours.serve(store, key, size.animals)

    def forget() -> None:
        with sqlite3.connect(store) as db:
            # SQLite does not write a row that stays the same.
            db.execute("REPLACE INTO settings (id, address) VALUES (1, hex(randomblob(8)))")
        db.close()

    return History(server, forget, [server.process.pid], size)


def on_postgres(ours: Ours, work: Path, size: Size) -> tuple[History, Postgres]:
    postgres = Postgres(ours, work, f"postgres-{size.events}", fill(ours, size))
    server = postgres.serve(ours, size.animals)

    def forget() -> None:
        change = "UPDATE event_log SET unlogged_order_changes = unlogged_order_changes + 1"
        postgres.run("psql", postgres.url, "--quiet", f"--command={change}")

    processes = [server.process.pid, postgres.process.pid]
    return History(server, forget, processes, size), postgres


def chosen_ids(server: Started) -> list[int]:
    """A thousand random animals."""
    return random.Random(4).choices(server.ids, k=1000)


def newest(server: Started) -> Load:
    """The history of an animal, as the console shows it."""
    paths = [f"/v1/events?subject=pets/{id}&sort=desc&limit=50" for id in chosen_ids(server)]
    return Load([f"GET {path}" for path in paths], headers=server.headers)


def feed(server: Started) -> Load:
    """The feed of an animal, from the start of the log: all of its events."""
    paths = [f"/v1/events?subject=pets/{id}&limit=100" for id in chosen_ids(server)]
    return Load([f"GET {path}" for path in paths], headers=server.headers)


def month(server: Started) -> Load:
    """A report whose days are kept after the first request."""
    return Load([f"GET {MONTH}"], headers=server.headers)


def repeated(
    history: History, ask: Callable[[], None], prepare: Callable[[], None] = lambda: None
) -> Callable[[int], Measured]:
    """Calls one after the other, each with its own measurements. Preparing one does not count."""

    def measured(seconds: int) -> Measured:
        times: list[float] = []
        spent = 0.0
        end = time.monotonic() + seconds
        while not times or time.monotonic() < end:
            prepare()
            before, began = history.spent(), time.perf_counter()
            ask()
            times.append((time.perf_counter() - began) * 1e3)
            spent += history.spent() - before
        times.sort()
        return Measured(
            requests=1e3 / median(times),
            # The kernel counts in ticks.
            cpu=max(spent, 1 / TICK) / len(times) * 1e6,
            p50=median(times),
            p99=times[len(times) * 99 // 100],
            refused=0,
            broken=0,
            memory=memory(history.server.process.pid),
        )

    return measured


def cold_month(history: History) -> Callable[[int], Measured]:
    """The same report, after the service has forgotten its days."""

    def ask() -> None:
        request(history.server, MONTH).read()

    return repeated(history, ask, history.forget)


def stream(history: History) -> Callable[[int], Measured]:
    """Streams of random animals from the start of the log, each until it has caught up."""
    server = history.server
    link = request(server, "/v1/events?limit=1").headers["Link"]
    position = re.search("after=([^&>]+)", link)[1]
    ids: Iterator[int] = cycle(chosen_ids(server))

    def ask() -> None:
        path = f"/v1/events/stream?subject=pets/{next(ids)}&after={position}"
        response = request(server, path)
        missing = history.size.events_of_animal
        while missing:
            missing -= response.readline().startswith(b"data:")
        response.close()

    return repeated(history, ask)


def request(server: Started, path: str) -> http.client.HTTPResponse:
    client = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=60)
    client.request("GET", path, headers=server.headers)
    response = client.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {response.read()!r}")
    return response
