"""FastAPI over the standard library's sqlite3, one connection per worker.

The handlers are coroutines that call SQLite directly: a query is faster than a
round trip to a thread pool. They return plain dicts with a response model,
which FastAPI serializes as fast as a handler that calls orjson itself.
"""

import hashlib
import os
import sqlite3
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Header, HTTPException, Path, Query
from pydantic import BaseModel, Field

Status = Literal["available", "pending", "sold"]


class NewPet(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=255)]
    categoryId: Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
    status: Status | None = None


class Pet(NewPet):
    id: int


keys = {os.environ["KEY_SHA256"]: "till"}
db = sqlite3.connect(os.environ["DATABASE"], timeout=10, isolation_level=None)
db.row_factory = sqlite3.Row
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = FULL")

COLUMNS = "SELECT id, name, categoryId, status FROM pets"


async def key_check(authorization: Annotated[str, Header()] = "") -> None:
    scheme, _, key = authorization.partition(" ")
    if scheme != "Bearer" or hashlib.sha256(key.encode()).hexdigest() not in keys:
        raise HTTPException(401, "A valid API key is needed.")


app = FastAPI(dependencies=[Depends(key_check)])


@app.get("/v1/pets")
async def list_pets(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    status: Status | None = None,
) -> list[Pet]:
    if status:
        rows = db.execute(
            f"{COLUMNS} WHERE status = ? AND id > ? ORDER BY id LIMIT ?", (status, after, limit)
        )
    else:
        rows = db.execute(f"{COLUMNS} WHERE id > ? ORDER BY id LIMIT ?", (after, limit))
    return [dict(row) for row in rows]


@app.get("/v1/pets/{id}")
async def get_pet(id: Annotated[int, Path(ge=1, lt=2**63)]) -> Pet:
    row = db.execute(f"{COLUMNS} WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise HTTPException(404, "There is no such animal.")
    return dict(row)


@app.post("/v1/pets", status_code=201)
async def create_pet(pet: NewPet) -> Pet:
    values = pet.name, pet.categoryId, pet.status
    created = db.execute("INSERT INTO pets (name, categoryId, status) VALUES (?, ?, ?)", values)
    return {"id": created.lastrowid, **pet.model_dump()}
