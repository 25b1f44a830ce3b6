//! The simplest service of this kind: axum and rusqlite as in their introductory
//! examples, one connection behind a mutex, one durable commit per create.
//!
//! `simplest FILE KEY` serves a petstore database and prints its address.

use std::{
    error::Error,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{Path, Query, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::{net::TcpListener, task::spawn_blocking};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Db = Arc<Mutex<Connection>>;
type ApiResult<T> = Result<T, StatusCode>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pet {
    id: i64,
    name: String,
    category_id: i64,
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewPet {
    name: String,
    category_id: i64,
    status: Option<String>,
}

#[derive(Deserialize)]
struct ListQuery {
    limit: Option<i64>,
    after: Option<i64>,
    status: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("usage: simplest FILE KEY".into());
    };
    let db = Connection::open(file)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    let hash: [u8; 32] = Sha256::digest(key).into();
    let app = Router::new()
        .route("/v1/pets", get(list).post(create))
        .route("/v1/pets/{id}", get(get_one))
        .layer(middleware::from_fn(move |request, next| {
            authenticate(hash, request, next)
        }))
        .with_state(Arc::new(Mutex::new(db)));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

async fn authenticate(hash: [u8; 32], request: Request, next: Next) -> Response {
    let header = request.headers().get("authorization");
    let key = header
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    match key {
        Some(key) if *Sha256::digest(key) == hash => next.run(request).await,
        _ => StatusCode::UNAUTHORIZED.into_response(),
    }
}

async fn list(State(db): State<Db>, Query(query): Query<ListQuery>) -> ApiResult<Json<Vec<Pet>>> {
    let read = move |db: &Connection| {
        db.prepare_cached(
            "SELECT id, name, category_id, status FROM pets
             WHERE id > ?1 AND (?2 IS NULL OR status = ?2) ORDER BY id LIMIT ?3",
        )?
        .query_map(
            params![
                query.after.unwrap_or(0),
                query.status,
                query.limit.unwrap_or(20)
            ],
            pet,
        )?
        .collect()
    };
    with(db, read).await.map(Json)
}

async fn get_one(State(db): State<Db>, Path(id): Path<i64>) -> ApiResult<Json<Pet>> {
    let read = move |db: &Connection| {
        db.prepare_cached("SELECT id, name, category_id, status FROM pets WHERE id = ?1")?
            .query_row([id], pet)
            .optional()
    };
    with(db, read).await?.map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn create(
    State(db): State<Db>,
    Json(new): Json<NewPet>,
) -> ApiResult<(StatusCode, Json<Pet>)> {
    let write = move |db: &Connection| {
        db.prepare_cached(
            "INSERT INTO pets (name, search_name, category_id, status)
             VALUES (?1, lower(?1), ?2, ?3)
             RETURNING id, name, category_id, status",
        )?
        .query_row(params![new.name, new.category_id, new.status], pet)
    };
    let pet = with(db, write).await?;
    Ok((StatusCode::CREATED, Json(pet)))
}

async fn with<T: Send + 'static>(
    db: Db,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> ApiResult<T> {
    let failed = |_| StatusCode::INTERNAL_SERVER_ERROR;
    spawn_blocking(move || work(&db.lock().expect("no query panics")).map_err(failed))
        .await
        .expect("no query panics")
}

fn pet(row: &Row) -> rusqlite::Result<Pet> {
    Ok(Pet {
        id: row.get(0)?,
        name: row.get(1)?,
        category_id: row.get(2)?,
        status: row.get(3)?,
    })
}
