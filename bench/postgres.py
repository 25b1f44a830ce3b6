"""A PostgreSQL server with a million animals, and pgbench as the baseline."""

import os
import pwd
import shutil
import subprocess
import time
from pathlib import Path

from ours import ANIMALS, Ours, open_orders
from peers import Started, free_port

PET = "SELECT id, name, category_id, status FROM pets"
# pgbench scripts: the same statements as the service's.
SCRIPTS = {
    "list": f"{PET} WHERE id > 0 ORDER BY id LIMIT 21;",
    "walk": f"\\set after random(1, {ANIMALS - 100})\n{PET} WHERE id > :after ORDER BY id LIMIT 21;",
    "get": f"\\set id random(1, {ANIMALS})\n{PET} WHERE id = :id;",
    "create": "INSERT INTO pets (name, search_name, category_id, status)"
    " VALUES ('Biscuit', 'biscuit', 3, 'available') RETURNING id;",
}


class Postgres:
    """The newest PostgreSQL that Debian has installed, with default settings."""

    def __init__(
        self, ours: Ours, work: Path, name: str = "postgres", filled: tuple[Path, str] | None = None
    ):
        """Copies a filled store, or one with a million animals."""
        self.programs = max(Path("/usr/lib/postgresql").iterdir()) / "bin"
        self.folder = work / "data" / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        os.chmod(self.folder, 0o777)
        port = free_port()
        data = self.folder / "data"
        self.run("initdb", "--username=petstore", "--auth=trust", f"--pgdata={data}")
        log = (self.folder / "log").open("wb")
        settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories="]
        self.process = subprocess.Popen(
            [*self.unprivileged("postgres"), "-D", str(data), *(f"-c{s}" for s in settings)],
            stdout=log,
            stderr=log,
        )
        self.url = f"postgres://petstore@127.0.0.1:{port}/postgres"
        for _ in range(400):
            ready = [self.programs / "pg_isready", "--quiet", f"--dbname={self.url}"]
            if subprocess.run(ready, check=False).returncode == 0:
                break
            time.sleep(0.05)
        else:
            raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}")
        store, self.key = filled or ours.store(ANIMALS)
        ours.program("petstore", "copy", f"--from=sqlite:{store}", f"--to={self.url}")
        self.run("psql", self.url, "--quiet", "--command=VACUUM ANALYZE")
        self.scripts = {}
        for name, script in SCRIPTS.items():
            self.scripts[name] = self.folder / f"{name}.sql"
            self.scripts[name].write_text(script)

    def serve(self, ours: Ours, animals: int = ANIMALS) -> Started:
        folder = self.folder / "service"
        folder.mkdir()
        return ours.serve_from(self.url, folder, self.key, animals)

    def open_orders(self, count: int) -> None:
        """Makes all animals available, with open orders for the first of them."""
        sql = f"UPDATE pets SET status = 'available'; {open_orders(count)}"
        self.run("psql", self.url, "--quiet", f"--command={sql}")
        self.run("psql", self.url, "--quiet", "--command=VACUUM ANALYZE")

    def pgbench(self, script: str, clients: int, seconds: int) -> tuple[float, float]:
        """Transactions per second and mean latency in milliseconds."""
        command = ["--no-vacuum", "--protocol=prepared", f"--client={clients}", "--jobs=1"]
        command += [f"--time={seconds}", f"--file={self.scripts[script]}", self.url]
        printed = self.run("pgbench", *command)
        lines = dict(line.split(" = ") for line in printed.splitlines() if " = " in line)
        return float(lines["tps"].split()[0]), float(lines["latency average"].split()[0])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def run(self, program: str, *arguments: object) -> str:
        command = [*self.unprivileged(program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stderr}")
        return done.stdout

    def unprivileged(self, program: str) -> list[str]:
        """The command as the user postgres: the server refuses to run as root."""
        command = [str(self.programs / program)]
        if os.getuid():
            return command
        user = pwd.getpwnam("postgres")
        return [
            *("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"),
            *command,
        ]
