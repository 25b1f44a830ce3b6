"""Writes the benchmark report: goals, a table per scenario, and a chart."""

import datetime
import math
import os
import platform
import re
import subprocess
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from load import Measured
from ours import PROFILE


@dataclass
class Result:
    name: str
    title: str
    # The rounds of each contender. The first one is the baseline.
    figures: dict[str, list[Measured]]
    # A second table.
    notes: str = ""

    def median(self, contender: str, figure: str) -> float:
        return median(getattr(round, figure) for round in self.figures[contender])

    def ratio(self, contender: str, to: str, figure: str = "cpu") -> float:
        """Median over the rounds of the ratio between two contenders."""
        rounds = zip(self.figures[contender], self.figures[to])
        return median(getattr(a, figure) / getattr(b, figure) for a, b in rounds)


PEERS = ["pocketbase", "fastify", "fastapi", "json-server"]


def over_limit(most: float) -> Callable[[Result], tuple[str, float, bool]]:
    def evaluate(result: Result) -> tuple[str, float, bool]:
        ratio = result.ratio("petstore", "limit")
        return f"CPU per request at most {most:g}× the limit", ratio, ratio <= most

    return evaluate


def against(rival: str, least: float) -> Callable[[Result], tuple[str, float, bool]]:
    def evaluate(result: Result) -> tuple[str, float, bool]:
        ratio = result.ratio("petstore", rival, "requests")
        return f"throughput at least {least:g}× that of {rival}", ratio, ratio >= least

    return evaluate


def against_peers(result: Result) -> tuple[str, float, bool]:
    """Compares CPU time, because the load generator shares the cores."""
    best = min(PEERS, key=lambda peer: result.median(peer, "cpu"))
    ratio = result.ratio(best, "petstore")
    faster = result.ratio("petstore", best, "requests")
    goal = f"best peer ({best}): at least 5× our CPU per request; our throughput {faster:.1f}×"
    return goal, ratio, ratio >= 5


def no_dearer(coding: str) -> Callable[[Result], tuple[str, float, bool]]:
    def evaluate(result: Result) -> tuple[str, float, bool]:
        ratio = result.ratio(coding, "plain")
        return f"{coding}: CPU per request at most that of the plain page", ratio, ratio <= 1

    return evaluate


def with_details(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("all members", "few members")
    return "at most 1.5 times the CPU of animals with few members", ratio, ratio <= 1.5


def few_instructions(result: Result) -> tuple[str, float, bool]:
    spent = result.median("list, petstore", "cpu") * 1e3
    return "a cached list takes at most 11,000", spent, spent <= 11_000


def as_hyper(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("list, petstore", "list, limit")
    return "a cached list takes at most 1.05 times those of bare hyper", ratio, ratio <= 1.05


def quick_build(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("release", "dist")
    return "the release profile's CPU at most 1.05 times that of dist", ratio, ratio <= 1.05


def growing(most: float) -> Callable[[Result], tuple[str, float, bool]]:
    def evaluate(result: Result) -> tuple[str, float, bool]:
        ratio = result.ratio("10 million", "1 thousand")
        goal = f"CPU per request at 10 million animals at most {most:g}× that at 1 thousand"
        return goal, ratio, ratio <= most

    return evaluate


def more_sales(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("1 million", "1 thousand")
    return "CPU per request at 1 million sales at most 1.3× that at 1 thousand", ratio, ratio <= 1.3


def longer_history(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("10 million", "100 thousand")
    goal = "CPU per request at 10 million events at most 1.3× that at 100 thousand"
    return goal, ratio, ratio <= 1.3


def small(result: Result) -> tuple[str, float, bool]:
    memory = result.median("10 million", "memory")
    return "memory below 200 MB at 10 million animals", memory, memory < 200


def steady(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("512 connections", "64 connections", "requests")
    return "throughput at 512 connections at least 0.9× that at 64", ratio, ratio >= 0.9


def shedding(result: Result) -> tuple[str, float, bool]:
    """Far beyond the in-flight limit, with clients that retry at once when shed."""
    ratio = result.ratio("4000 connections", "64 connections", "served")
    return "goodput at 4,000 connections at least 0.8× that at 64", ratio, ratio >= 0.8


def without_stalls(result: Result) -> tuple[str, float, bool]:
    rounds = [round for rounds in result.figures.values() for round in rounds]
    slowest = max(round.max for round in rounds)
    reached = slowest <= 50 and not any(round.refused for round in rounds)
    return "every request succeeds within 50 ms", slowest, reached


def quick(result: Result) -> tuple[str, float, bool]:
    slowest = max(result.median(size, "p50") for size in ["1 thousand", "1 million", "10 million"])
    return "first page within 100 ms of process start, at any size", slowest, slowest < 100


def with_photos(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("with a photo each", "without photos")
    return "CPU per page at most 1.3× that without photos", ratio, ratio <= 1.3


def beside_uploads(result: Result) -> tuple[str, float, bool]:
    figures = [round for rounds in result.figures.values() for round in rounds]
    slowest = max(figure.p99 for figure in figures)
    return "99 % of creates within 20 ms, and none fails", slowest, slowest <= 20 and not any(
        figure.refused for figure in figures
    )


def beside_pgbench(result: Result) -> tuple[str, float, bool]:
    """A request costs one pgbench statement plus one bare hyper response."""
    rounds = zip(*(result.figures[name] for name in ["petstore", "pgbench", "bare hyper"]))
    ratio = median(us.requests * (1 / it.requests + 1 / web.requests) for us, it, web in rounds)
    return "throughput at least 0.8× that of pgbench after the cost of HTTP", ratio, ratio >= 0.8


def cached(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("petstore", "pgbench", "requests")
    return "throughput at least 2.5× that of pgbench", ratio, ratio >= 2.5


def beside_creates(contender: str) -> Callable[[Result], tuple[str, float, bool]]:
    def evaluate(result: Result) -> tuple[str, float, bool]:
        ratio = result.ratio(contender, "create")
        return f"{contender}: CPU per request at most 2× that of a create", ratio, ratio <= 2

    return evaluate


def shared_commits(result: Result) -> tuple[str, float, bool]:
    ratio = result.ratio("petstore", "pgbench", "requests")
    return "throughput at least 1.5× pgbench's single-row inserts", ratio, ratio >= 1.5


GOALS = {
    "list": [over_limit(1.12), against_peers],
    "status": [against_peers],
    "walk": [against_peers],
    "get": [over_limit(1.15), against_peers],
    "304": [over_limit(1.15)],
    "compressed": [no_dearer("zstd"), no_dearer("gzip")],
    "wrong-key": [over_limit(1.15), against_peers],
    "http2": [over_limit(1.2)],
    "mix": [over_limit(1.35), against_peers],
    "create-1": [against("simplest", 1), against_peers],
    "create-64": [over_limit(1.7), against("simplest", 6), against_peers],
    "create-512": [against_peers],
    "cores-list": [],
    "cores-create": [],
    "latency-list": [],
    "latency-create": [],
    "latency-order": [],
    "latency-events": [],
    "profile-list": [quick_build],
    "profile-create": [],
    "overload": [steady, shedding],
    "orders": [beside_creates("place"), beside_creates("complete")],
    "pg-orders": [beside_creates("place"), beside_creates("complete")],
    "walk-large": [over_limit(1.6)],
    "walk-details": [with_details],
    "get-large": [],
    "growth-list": [growing(1.3)],
    "growth-status": [growing(1.3)],
    "growth-get": [growing(1.3)],
    "growth-events": [growing(1.3)],
    "growth-history": [growing(1.3)],
    "growth-report": [more_sales],
    **{
        f"{prefix}{name}": [longer_history]
        for prefix in ("", "pg-")
        for name in ("history-newest", "history-feed", "history-stream", "report-warm")
    },
    # The month has a hundred times the sales.
    "report-cold": [],
    "pg-report-cold": [],
    "growth-no-match": [],
    "growth-all-pages": [growing(1.3)],
    "growth-category-pages": [growing(1.3)],
    "growth-category-status-pages": [growing(1.3)],
    "growth-name-pages": [growing(1.3)],
    "growth-name-status-pages": [growing(1.3)],
    "growth-search-letter-pages": [growing(1.3)],
    "growth-search-syllable-pages": [growing(1.3)],
    "growth-search-syllable-status-pages": [growing(1.3)],
    "growth-search-name-pages": [growing(1.3)],
    "growth-create": [growing(1.3), small],
    "growth-orders": [growing(1.3)],
    "photos": [beside_uploads],
    "photos-stores": [with_photos],
    "stalls": [without_stalls],
    "start": [quick],
    "instructions": [few_instructions, as_hyper],
    "pg-list": [cached],
    "pg-get-cached": [cached],
    "pg-walk": [beside_pgbench],
    "pg-get": [beside_pgbench],
    "pg-create": [shared_commits],
}


def write(
    results: list[Result],
    versions: dict[str, str],
    spent: float,
    options: Namespace,
    folder: Path | None,
) -> None:
    """Prints the report; a run of all scenarios is also saved to `folder`."""
    goals = [
        [result.title, what, f"{figure:.2f}", "yes" if reached else "**no**"]
        for result in results
        for what, figure, reached in (goal(result) for goal in GOALS[result.name])
    ]
    parts = [
        "# Benchmark results",
        "Generated by `make bench`; `docs/performance.md` explains how to read it.",
        table(["", ""], about(versions, spent, options)),
        "## Goals",
        table(["Scenario", "Goal", "Measured", "Met"], goals),
    ]
    for result in results:
        parts += [f"## {result.title}", figures(result)]
        parts += [result.notes] if result.notes else []
    text = "\n\n".join(parts) + "\n"
    print(text)
    if folder:
        (folder / "RESULTS.md").write_text(text)
        (folder / "results.svg").write_text(picture(results))


def about(versions: dict[str, str], spent: float, options: Namespace) -> list[list[str]]:
    def first_line(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).splitlines()[0].strip()

    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    rounds = f"{options.rounds} rounds of {options.seconds} s each, {spent / 60:.0f} minutes in total"
    return [
        ["Date", datetime.date.today().isoformat()],
        ["Machine", f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}"],
        ["System", f"Linux {platform.release()}"],
        ["Compiler", f"{first_line('rustc', '--version')}, Cargo profile `{PROFILE}`"],
        ["Load generators", f"{first_line('wrk', '--version')}, {first_line('h2load', '--version')}; {rounds}"],
        *([name, version] for name, version in versions.items()),
    ]


def figures(result: Result) -> str:
    first = next(iter(result.figures))
    if result.name == "start":
        rows = [
            [name, f"{result.median(name, 'p50'):.0f}" if result.median(name, "p50") else "",
             f"{result.median(name, 'memory'):.0f}"]
            for name in result.figures
        ]
        return table(["", "Startup, ms", "Memory, MB"], rows)
    if result.name == "instructions":
        return instructions(result)
    if result.figures[first][0].max:
        return latencies(result)
    rows = []
    for name, rounds in result.figures.items():
        row = [name, f"{result.median(name, 'cpu'):.1f}", f"{result.ratio(name, first):.2f}"]
        row += [f"{result.median(name, 'requests'):,.0f}"]
        row += [f"{result.ratio(name, first, 'requests'):.3f}"]
        row += [f"{result.median(name, 'p50'):.2f}", f"{result.median(name, 'p99'):.2f}"]
        row += [f"{result.median(name, 'memory'):.0f}"]
        rows.append([*row, errors(rounds)])
    heads = ["", "CPU/request, µs", "× baseline", "Requests/s", "× baseline"]
    heads += ["p50, ms", "p99, ms", "Memory, MB", "Errors"]
    return table(heads, rows)


def latencies(result: Result) -> str:
    """The maximum is that of all rounds, the percentiles are their medians."""
    rows = []
    for name, rounds in result.figures.items():
        row = [name, f"{result.median(name, 'requests'):,.0f}"]
        row += [f"{result.median(name, figure):.2f}" for figure in ["p50", "p99", "p999"]]
        rows.append([*row, f"{max(round.max for round in rounds):.2f}", errors(rounds)])
    return table(["", "Requests/s", "p50, ms", "p99, ms", "p99.9, ms", "Max, ms", "Errors"], rows)


def instructions(result: Result) -> str:
    rows = []
    for load in dict.fromkeys(name.rsplit(", ", 1)[0] for name in result.figures):
        pair = [f"{load}, limit", f"{load}, petstore"]
        counts = [f"{result.median(name, 'cpu') * 1e3:,.0f}" for name in pair]
        rows.append([load, *counts, f"{result.ratio(pair[1], pair[0]):.2f}"])
    return table(["", "bare hyper", "petstore", "× bare hyper"], rows)


def errors(rounds: list[Measured]) -> str:
    refused, broken = max(r.refused for r in rounds), sum(r.broken for r in rounds)
    return f"{refused:.2%} rejected" * (refused > 0) + f" {broken} failed" * (broken > 0)


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


# The chart.

SHOWN = ["list", "get", "wrong-key", "mix", "create-1", "create-64", "walk-large"]
COLOURS = {
    "petstore": "#0b7a4b",
    "simplest": "#8a8f98",
    "fastify": "#b3a06b",
    "pocketbase": "#9a86b5",
    "fastapi": "#7aa0b8",
    "json-server": "#c08a78",
}


def picture(results: list[Result]) -> str:
    """A bar per contender: CPU per request as a multiple of the limit's."""
    left, width, bar = 150, 560, 16
    most = 200.0
    parts, y = [], 44

    def at(ratio: float) -> float:
        return left + width * math.log10(max(ratio, 1)) / math.log10(most)

    for result in (r for r in results if r.name in SHOWN):
        parts.append(text(0, y + 4, result.title, "start", "600"))
        y += 14
        for name in (n for n in COLOURS if n in result.figures):
            ratio = result.ratio(name, "limit")
            end = min(at(ratio), left + width)
            parts.append(text(left - 8, y + 12, name, "end"))
            parts.append(
                f'<rect x="{left}" y="{y}" width="{max(end - left, 2):.1f}" height="{bar - 3}" '
                f'rx="2" fill="{COLOURS[name]}"/>'
            )
            parts.append(text(end + 6, y + 12, f"{ratio:.1f}×" if ratio < 10 else f"{ratio:.0f}×"))
            y += bar
        y += 20
    grid = [
        f'<line x1="{at(n):.1f}" x2="{at(n):.1f}" y1="40" y2="{y - 16}" stroke="#8884"/>'
        + text(at(n), 34, f"{n}×", "middle")
        for n in (1, 2, 5, 10, 20, 50, 100, 200)
    ]
    title = "Server CPU per request, relative to the limit: bare hyper plus a raw insert loop"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {y}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#7d8590">'
        f"<title>{title}</title>" + text(0, 14, title, "start", "600")
    )
    return head + "".join(grid + parts) + "</svg>\n"


def text(x: float, y: float, words: str, anchor: str = "start", weight: str = "400") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{words}</text>"
    )
