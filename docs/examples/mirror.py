"""Mirrors the animals of a petstore service in an SQLite file.

Usage: PETSTORE_KEY=... python3 mirror.py URL FILE [--once]

With --once it ends when it has caught up; otherwise it continues as animals change.
"""

import http.client, json, os, sqlite3, sys, time
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import Request, urlopen

url, file, *options = sys.argv[1:]
once = "--once" in options
db = sqlite3.connect(file)
db.executescript("""
    CREATE TABLE IF NOT EXISTS pets (id INTEGER PRIMARY KEY, pet TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS position (row INTEGER PRIMARY KEY, id TEXT NOT NULL);
""")


def get(path, query):
    """Returns a page and the query of the next one, and retries while the service is away."""
    headers = {"Authorization": "Bearer " + os.environ["PETSTORE_KEY"]}
    request = Request(f"{url}/v1/{path}?{urlencode(query)}", headers=headers)
    while True:
        delay = 1
        try:
            with urlopen(request, timeout=70) as response:
                link = urlsplit(response.headers.get("Link", "").split(">")[0].strip("<"))
                return json.load(response), dict(parse_qsl(link.query))
        except HTTPError as error:
            if error.code != 429 and error.code < 500:
                raise
            delay = int(error.headers.get("Retry-After", delay))
        except (OSError, http.client.HTTPException):
            pass  # The connection was lost, or there is none.
        time.sleep(delay)


def save(pet):
    db.execute("REPLACE INTO pets VALUES (?, ?)", (pet["id"], json.dumps(pet)))


def list_all():
    """Replaces the mirror, and returns the position from which to follow."""
    _, now = get("events", {"after": "now"})  # Before the list: nothing falls in between.
    query = {"limit": 100}
    with db:  # One transaction: the mirror and its position change together.
        db.execute("DELETE FROM pets")
        while query:
            pets, query = get("pets", query)
            for pet in pets:
                save(pet)
        db.execute("REPLACE INTO position VALUES (1, ?)", (now["after"],))
    return now["after"]


def follow(after):
    types = "pet.created,pet.updated,pet.deleted"
    query = {"after": after, "types": types, "limit": 1000, "wait": 0 if once else 50}
    while True:
        events, next_query = get("events", query)
        with db:
            for event in events:
                if event["type"] == "pet.deleted":
                    db.execute("DELETE FROM pets WHERE id = ?", (event["data"]["id"],))
                else:
                    save(event["data"])
            db.execute("REPLACE INTO position VALUES (1, ?)", (next_query["after"],))
        if once and not events and next_query["after"] == query["after"]:
            return
        query = next_query


position = db.execute("SELECT id FROM position").fetchone()
while True:
    try:
        follow(position[0] if position else list_all())
        break
    except HTTPError as error:
        if error.code != 410:
            sys.exit(f"{error}: {error.read().decode()}")
        position = None  # Events were missed: start over.
