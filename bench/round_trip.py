#!/usr/bin/env python3
"""Takes animals with all members through every format and both databases, and compares them.

A file of JSON Lines is imported into SQLite and exported; the store is copied to PostgreSQL and
exported there; both files are imported into new SQLite stores. Every export must be the same, byte
for byte, and the same as the file, as JSON. Prints the time of each step.
"""

import argparse
import filecmp
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from postgres import Postgres

NAMES = ["Biscuit", "Zoë", "Ærin, the 2nd", '"Max"', "=Rex", "Амур", "小町", "e\u0301clair"]
CURRENCIES = ["USD", "EUR", "JPY", "KWD"]


def animals(count: int) -> Iterator[str]:
    """Animals in the order and with the order of members of an export."""
    for n in range(1, count + 1):
        yield json.dumps(
            {
                "id": n,
                "name": f"{NAMES[n % len(NAMES)]} {n}",
                "categoryId": n % 20 - 3,
                "status": ["available", "sold"][n % 2],
                "breed": "Cavalier; King, \"Charles\"",
                "sex": ["female", "male", "unknown"][n % 3],
                "birthDate": f"20{n % 26:02}-{n % 12 + 1:02}-{n % 28 + 1:02}",
                "color": "white\u00a0and tan",
                "microchip": f"{n:015}",
                "price": {"amount": n, "currency": CURRENCIES[n % 4]},
                "description": f"Friendly.\nUsed to being handled.\r\n\t{n}",
                "notes": "-1 tooth; \u202eecho 🐢",
                "location": f"Kennel {n % 40}",
                "acquiredOn": f"2026-{n % 9 + 1:02}-{n % 28 + 1:02}",
                "source": {"name": "Marlow", "address": "44 Chapel Road, MD", "licence": "007"},
                "metadata": {"feed": "puppy, small", f"key-{n % 50}": "=1+1"},
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )


class RoundTrip:
    def __init__(self, petstore: Path, folder: Path):
        self.petstore = petstore
        self.folder = folder

    def program(self, _: str, *arguments: object) -> str:
        """Runs a command of petstore, and prints its time."""
        began = time.monotonic()
        command = [str(self.petstore), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stderr}")
        print(f"{time.monotonic() - began:7.1f} s  petstore {' '.join(command[1:])}", flush=True)
        return done.stdout

    def export(self, database: str, name: str) -> list[Path]:
        files = [self.folder / f"{name}.{kind}" for kind in ("jsonl", "csv")]
        for file in files:
            self.program("petstore", "export", file.name, f"--database={database}")
        return files

    def expect_same(self, one: Path, other: Path) -> None:
        if not filecmp.cmp(one, other, shallow=False):
            raise SystemExit(f"{one} and {other} differ")
        print(f"           {other.name} has the {one.stat().st_size / 1e6:.0f} MB of {one.name}")


def run(petstore: Path, folder: Path, count: int) -> None:
    trip = RoundTrip(petstore, folder)
    given = folder / "given.jsonl"
    with given.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in animals(count))
    trip.program("", "import", given.name, "--database=sqlite:first.db")
    exported = trip.export("sqlite:first.db", "first")
    with given.open(encoding="utf-8", newline="\n") as one, exported[0].open(
        encoding="utf-8", newline="\n"
    ) as other:
        for line, (expected, found) in enumerate(zip(one, other, strict=True), 1):
            if json.loads(expected) != json.loads(found):
                raise SystemExit(f"line {line} differs:\n{expected}{found}")
    print("           first.jsonl has the animals of given.jsonl")
    server = Postgres(trip, folder, "postgres", (folder / "first.db", ""))
    try:
        for one, other in zip(exported, trip.export(server.url, "server")):
            trip.expect_same(one, other)
        trip.program("", "check", f"--database={server.url}")
    finally:
        server.stop()
    for name, kind in (("back", "jsonl"), ("table", "csv")):
        trip.program("", "import", f"server.{kind}", f"--database=sqlite:{name}.db")
        for one, other in zip(exported, trip.export(f"sqlite:{name}.db", name)):
            trip.expect_same(one, other)
        trip.program("", "check", f"--database=sqlite:{name}.db")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("petstore", type=Path)
    parser.add_argument("folder", type=Path, help="is created, and deleted if all is well")
    parser.add_argument("--animals", type=int, default=1_000_000)
    options = parser.parse_args()
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(options.petstore.resolve(), folder, options.animals)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
