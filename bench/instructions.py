"""Counts the instructions that a request takes: free of noise, and comparable between machines.

The server runs under callgrind, with one worker thread and one connection.
"""

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

from load import Load, Measured
from ours import Ours
from peers import Started
from report import Result

ANIMALS = 1000
WARM_UP = 1000
REQUESTS = 2000
CALLGRIND = ["env", "TOKIO_WORKER_THREADS=1", "valgrind", "--tool=callgrind"]
CALLGRIND += ["--callgrind-out-file=counts", "--log-file=/dev/null"]


def compare(
    ours: Ours,
    loads: dict[str, Callable[[Started], Load]],
    rounds: int,
    progress: Callable[[str], None],
) -> Result:
    """The instructions of each load in the service, and of the limit that sends its response."""
    us = ours.service(ANIMALS, under=CALLGRIND)
    figures = {}
    try:
        for name, ask in loads.items():
            load = ask(us)
            headers = load.headers or {}
            limit = ours.bare_hyper(us, load.requests[0], headers, load.body, under=CALLGRIND)
            try:
                for contender, server in {"limit": limit, "petstore": us}.items():
                    progress(f"instructions: {name}, {contender}")
                    figures[f"{name}, {contender}"] = count(server, load, rounds)
            finally:
                limit.stop()
    finally:
        us.stop()
    return Result("instructions", "Instructions per request, one connection", figures)


def count(server: Started, load: Load, rounds: int) -> list[Measured]:
    """The thousands of instructions of a request, in the place of its CPU time."""
    counted = []
    with connected(server, load) as exchange:
        exchange(WARM_UP)
        dump(server)
        for _ in range(rounds):
            began = time.monotonic()
            exchange(REQUESTS)
            lasted = time.monotonic() - began
            spent = dump(server)
            # What the server does anyway in that time, which is long under callgrind.
            time.sleep(lasted)
            spent = (spent - dump(server)) / REQUESTS
            counted.append(Measured(0, spent / 1e3, 0, 0, 0, 0, 0))
    return counted


def dump(server: Started) -> int:
    """The instructions since the last call."""
    pid = server.process.pid
    command = ["callgrind_control", "--dump", str(pid)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    counts = list(Path(f"/proc/{pid}/cwd").resolve().glob("counts.*"))
    total = sum(int(re.search(r"^totals: (\d+)", it.read_text(), re.M)[1]) for it in counts)
    for file in counts:
        file.unlink()
    return total


@contextmanager
def connected(server: Started, load: Load) -> Iterator[Callable[[int], None]]:
    """A function that sends a number of requests over one connection, one after the other."""
    host, port = server.base.removeprefix("http://").split(":")
    requests = cycle(raw(request, load) for request in load.requests)
    with socket.create_connection((host, int(port))) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def exchange(number: int) -> None:
            for request in islice(requests, number):
                client.sendall(request)
                read(client)

        yield exchange


def raw(request: str, load: Load) -> bytes:
    method, path, *own_body = request.split(" ", 2)
    body = own_body[0] if own_body else load.body if method == "POST" else ""
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    head += [f"{name}: {value}" for name, value in (load.headers or {}).items()]
    head += [f"Content-Length: {len(body)}"] * bool(body)
    return "\r\n".join([*head, "", body]).encode()


def read(client: socket.socket) -> None:
    """Reads one response."""
    received = client.recv(1 << 16)
    while b"\r\n\r\n" not in received:
        received += client.recv(1 << 16)
    head, body = received.split(b"\r\n\r\n", 1)
    length = re.search(rb"content-length: (\d+)", head)
    left = (int(length[1]) if length else 0) - len(body)
    while left > 0:
        left -= len(client.recv(1 << 16))
