"""Runs a load generator (wrk, h2load or open-loop) and measures the server's CPU and memory."""

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Load:
    """A workload: requests in round-robin order, over a number of connections."""

    requests: list[str]  # "GET /path", or "POST /path {}" with a body
    connections: int = 64
    headers: dict[str, str] | None = None
    body: str = ""
    http2: bool = False


@dataclass
class Measured:
    requests: float  # per second
    cpu: float  # microseconds of server CPU time per request
    p50: float  # milliseconds
    p99: float
    refused: float  # share of responses with status 400 and above
    broken: int  # failed connections and requests without a response
    memory: float  # megabytes
    p999: float = 0
    max: float = 0

    @property
    def served(self) -> float:
        """Successful requests per second (goodput)."""
        return self.requests * (1 - self.refused)


def measure(process: int, base: str, load: Load, seconds: int) -> Measured:
    """Runs the load and returns its measurements."""
    with tempfile.NamedTemporaryFile("w", suffix=".requests") as file:
        file.write("\n".join(load.requests) + "\n")
        file.flush()
        before = processor_time(process)
        run = h2load if load.http2 else wrk
        count, duration, p50, p99, refused, broken = run(base, load, file.name, seconds)
        spent = processor_time(process) - before
    if not count:
        raise RuntimeError(f"no responses from {base}")
    return Measured(
        requests=count / duration,
        cpu=spent / count * 1e6,
        p50=p50,
        p99=p99,
        refused=refused / count,
        broken=broken,
        memory=memory(process),
    )


@dataclass
class Paced:
    """A load at a constant rate, whether or not the server keeps up."""

    rate: float  # requests per second
    request: str  # as in `Load`, with # for the number of the request and @ for a random word
    first: int = 0  # the number of the first request


def open_loop(
    program: Path,
    base: str,
    headers: dict[str, str],
    loads: list[Paced],
    seconds: int,
    events: str | None = None,
    certificate: Path | None = None,
) -> list[Measured]:
    """Runs the loads together. With a path of events, the last result is that of their arrival."""
    address = re.sub("https?://", "", base)
    plan = {"address": address, "headers": headers, "seconds": seconds, "events": events}
    plan["certificate"] = certificate and str(certificate)
    command = [program, json.dumps(plan | {"loads": [vars(load) for load in loads]})]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [
        Measured(
            requests=result["rate"],
            cpu=0,
            p50=result["p50"],
            p99=result["p99"],
            refused=result["errors"] / result["requests"],
            broken=0,
            memory=0,
            p999=result["p999"],
            max=result["max"],
        )
        for result in map(json.loads, printed.splitlines())
    ]


def wrk(base: str, load: Load, file: str, seconds: int):
    headers = [f"-H{name}: {value}" for name, value in (load.headers or {}).items()]
    command = ["wrk", "-t1", f"-c{load.connections}", f"-d{seconds}s", "--timeout=10s"]
    command += [f"-s{HERE}/load.lua", *headers, base, "--", file, load.body]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"^RESULT (.+)$", printed, re.M)
    count, micros, p50, p99, refused, broken = map(int, found[1].split())
    return count, micros / 1e6, p50 / 1e3, p99 / 1e3, refused, broken


def h2load(base: str, load: Load, file: str, seconds: int):
    """HTTP/2 with prior knowledge. Only repeats one GET."""
    streams = 4
    headers = [f"-H{name}: {value}" for name, value in (load.headers or {}).items()]
    with tempfile.NamedTemporaryFile("r") as log:
        path = load.requests[0].split(" ", 1)[1]
        command = ["h2load", "-t1", f"-c{load.connections // streams}", f"-m{streams}"]
        command += ["-D", str(seconds), f"--log-file={log.name}", *headers, base + path]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        # Start time, status and latency in microseconds of each request.
        rows = [line.split("\t") for line in log]
    times = sorted(int(row[2]) / 1e3 for row in rows)
    refused = sum(int(row[1]) >= 400 for row in rows)
    broken = int(re.search(r"(\d+) errored", printed)[1])
    count = len(times)
    return count, seconds, times[count // 2], times[count * 99 // 100], refused, broken


def family(process: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue  # The process has just exited.
        children.setdefault(parent, []).append(int(entry.parent.name))
    found = [process]
    for member in found:
        found += children.get(member, [])
    return found


def processor_time(process: int) -> float:
    """CPU seconds used so far by a process tree, including children that have exited."""
    total = 0
    for member in family(process):
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # The process has just exited.
        total += sum(int(field) for field in fields[11:15])
    return total / TICK


def memory(process: int) -> float:
    """Memory of a process tree in megabytes (PSS: shared pages count once)."""
    total = 0
    for member in family(process):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue  # The process has just exited.
        if found := re.search(r"^Pss:\s+(\d+)", text, re.M):
            total += int(found[1])
    return total / 1024
