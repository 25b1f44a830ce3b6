"""Measures photos: creates beside uploads, and a store with a photo of each animal."""

import http.client
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING

from load import Load, Measured, Paced, measure, memory
from peers import Started
from report import Result, table

if TYPE_CHECKING:
    from run import Bench

ANIMALS = int(os.environ.get("PHOTO_ANIMALS", 100_000))
UPLOADS = 64
# Creates per second, beside which photos are uploaded.
CREATE_RATE = 500
# A photo of a phone: 12 megapixels.
WIDTH, HEIGHT = 4000, 3000
# Seconds after which an upload that is told to come back gives up.
PATIENCE = 300
# Animals get the photo of the first one, so many at a time: the write-ahead log stays small.
COPIED = 2000
COPY_PHOTO = [
    """INSERT INTO photos (id, pet_id, width, height, sha256, thumb_size, full_size, created_at)
    SELECT pets.id, pets.id, width, height, sha256, thumb_size, full_size, created_at
    FROM pets, photos AS first WHERE first.id = 1 AND pets.id BETWEEN ? AND ?""",
    """INSERT INTO photo_parts SELECT photos.id, kind, part, bytes
    FROM photos JOIN photo_parts ON photo_id = 1 WHERE photos.id BETWEEN ? AND ?""",
    """UPDATE pets SET photos = replace(
        (SELECT photos FROM pets WHERE id = 1), '"id":1,', '"id":' || id || ',')
    WHERE id BETWEEN ? AND ?""",
]


def picture(bench: "Bench") -> bytes:
    file = bench.ours.work / "picture.jpg"
    bench.ours.program("picture", WIDTH, HEIGHT, file)
    return file.read_bytes()


def upload(us: Started, animal: int, image: bytes) -> tuple[int, int]:
    """Adds a photo. Returns the last status, and the number of times that it was told to wait."""
    headers = us.headers | {"Idempotency-Key": f"{animal}-{time.monotonic_ns()}"}
    waited, began = 0, time.monotonic()
    while True:
        client = http.client.HTTPConnection(us.base.removeprefix("http://"), timeout=PATIENCE)
        client.request("POST", f"/v1/pets/{animal}/photos", image, headers)
        response = client.getresponse()
        response.read()
        client.close()
        if response.status != 503 or time.monotonic() - began > PATIENCE:
            return response.status, waited
        waited += 1
        time.sleep(int(response.headers["Retry-After"]))


def uploads(bench: "Bench", seconds: int, numbered_create: str) -> Result:
    """Latency of creates, while 64 photos of one API key are always on their way."""
    image = picture(bench)
    us = bench.ours.service(1000)
    creates = [Paced(CREATE_RATE, numbered_create)]
    try:
        [alone] = bench.open_loop(us, creates, seconds)
        alone.memory = memory(us.process.pid)
        ended, statuses = Event(), Counter()
        peaks = [alone.memory]

        def keep_uploading(number: int) -> int:
            waited = 0
            # An animal has at most 20 photos.
            for animal in range(1 + number, 1001, UPLOADS):
                for _ in range(20):
                    if ended.is_set():
                        return waited
                    status, waits = upload(us, animal, image)
                    statuses[status] += 1
                    waited += waits
            return waited

        def watch() -> None:
            while not ended.wait(0.05):
                peaks.append(memory(us.process.pid))

        with ThreadPoolExecutor(UPLOADS + 1) as pool:
            pool.submit(watch)
            began = time.monotonic()
            uploading = [pool.submit(keep_uploading, number) for number in range(UPLOADS)]
            time.sleep(1)
            [beside] = bench.open_loop(us, creates, seconds)
            ended.set()
            waited = sum(each.result() for each in uploading)
            spent = time.monotonic() - began
        beside.memory = max(peaks)
    finally:
        us.stop()
    rows = [
        ["Size of a picture, MB", f"{len(image) / 1e6:.1f}"],
        ["Photos added per second", f"{statuses[201] / spent:.1f}"],
        ["Responses with 503 for each photo that was added", f"{waited / max(statuses[201], 1):.2f}"],
        ["Uploads with another result", f"{sum(statuses.values()) - statuses[201]}"],
        ["Memory before, MB", f"{alone.memory:.0f}"],
        ["Memory at its peak, MB", f"{max(peaks):.0f}"],
    ]
    figures = {"create, beside nothing": [alone], f"create, beside {UPLOADS} uploads": [beside]}
    title = f"Photos: {CREATE_RATE} creates per second beside {UPLOADS} uploads of 12 megapixels"
    return Result("photos", title, figures, table(["Uploads", ""], rows))


def timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def stores(
    bench: "Bench", rounds: int, seconds: int, walk: Callable[[Started, int], Load]
) -> Result:
    """A store in which each animal has a photo, beside the same one without."""
    image = picture(bench)
    figures: dict[str, list[Measured]] = {}
    rows = []
    for name in ["without photos", "with a photo each"]:
        store, key = bench.ours.store(ANIMALS)
        if name != "without photos":
            us = bench.ours.serve(store, key, ANIMALS)
            status, _ = upload(us, 1, image)
            us.stop()
            if status != 201:
                raise RuntimeError(f"an upload has the status {status}")
            with closing(sqlite3.connect(store)) as db:
                for start in range(2, ANIMALS + 1, COPIED):
                    with db:
                        for statement in COPY_PHOTO:
                            db.execute(statement, (start, start + COPIED - 1))
        database, copy = f"--database=sqlite:{store}", store.with_name("backup.db")
        os.sync()
        backup = timed(lambda: bench.ours.program("petstore", "backup", copy, database))
        copy.unlink()
        check = timed(lambda: bench.ours.program("petstore", "check", database))
        size = store.stat().st_size
        rows.append([name, f"{size / 1e9:.2f}", f"{backup:.1f}", f"{check:.1f}"])
        us = bench.ours.serve(store, key, ANIMALS)
        load = walk(us, ANIMALS // 20)
        figures[name] = [
            measure(us.process.pid, us.base, load, seconds) for _ in range(rounds)
        ]
        us.stop()
        store.unlink()
    heads = [f"{ANIMALS:,} animals", "Database, GB", "Backup, s", "Check, s"]
    title = f"Photos: pages of {ANIMALS:,} animals, by whether they have a photo"
    return Result("photos-stores", title, figures, table(heads, rows))
