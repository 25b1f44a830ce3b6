//! Upper bound for storage: the service's SQL statements in a loop on one
//! thread, without a service around them.
//!
//! `raw-sqlite FILE fill N` fills the table up to N pets with their events, without fsync;
//! `raw-sqlite FILE insert N BATCH` inserts N pets and events, BATCH per durable transaction;
//! `raw-sqlite FILE page N` reads N pages of 20 with keyset pagination;
//! `raw-sqlite FILE details N` does so with all members of the pets;
//! `raw-sqlite FILE get N` reads N pets, spread over the whole table.
//! The last four print the CPU time of one operation in microseconds.

use std::{env, error::Error, time::SystemTime};

use petstore_bench::{cpu_time, mix, name};
use rusqlite::{Connection, config::DbConfig, params, types::ValueRef};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, action, count, options @ ..] = arguments.as_slice() else {
        return Err("usage: raw-sqlite FILE fill|insert|page|details|get N [BATCH]".into());
    };
    let count = count.parse()?;
    let db = Connection::open(file)?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let before = cpu_time();
    match (action.as_str(), options) {
        ("fill", []) => return Ok(fill(&db, count)?),
        ("insert", [batch_size]) => insert(&db, count, batch_size.parse()?)?,
        ("page", []) => walk(&db, count, "")?,
        ("details", []) => walk(&db, count, DETAILS)?,
        ("get", []) => get(&db, count)?,
        _ => return Err("the action must be fill, insert with BATCH, page, details or get".into()),
    }
    let spent = cpu_time() - before;
    println!("{:.3}", spent.as_secs_f64() * 1e6 / count as f64);
    Ok(())
}

fn fill(db: &Connection, count: i64) -> rusqlite::Result<()> {
    let existing: i64 = db.query_row("SELECT coalesce(max(id), 0) FROM pets", [], |row| {
        row.get(0)
    })?;
    db.pragma_update(None, "synchronous", "OFF")?;
    insert(db, (count - existing).max(0), 100_000)?;
    db.pragma_update(None, "synchronous", "FULL")?;
    // Checkpoint the WAL, so that a copy of the main file is complete.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn insert(db: &Connection, count: i64, batch_size: i64) -> rusqlite::Result<()> {
    let mut insert_pet = db.prepare(
        "INSERT INTO pets (name, search_name, search_words, category_id, status)
         VALUES (?1, ?2, ?2, ?3, ?4)",
    )?;
    let mut insert_event = db.prepare(
        "INSERT INTO events (at, type, api_key_id, resource_id, data)
         VALUES (?1, 'pet.created', 1, ?2, ?3)",
    )?;
    let at = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let at = at.as_micros() as i64;
    for n in 0..count {
        if n % batch_size == 0 {
            db.execute_batch("BEGIN IMMEDIATE")?;
        }
        let random = mix(n as u64);
        let name = name(random);
        let status = ["available", "pending", "sold"][random as usize % 3];
        let search_name = name.to_ascii_lowercase();
        let category_id = (random >> 32) as i64 % 20;
        insert_pet.execute(params![name, search_name, category_id, status])?;
        let id = db.last_insert_rowid();
        let data = format!(
            r#"{{"id":{id},"name":"{name}","categoryId":{category_id},"status":"{status}"}}"#
        );
        insert_event.execute(params![at, id, data])?;
        if n % batch_size == batch_size - 1 || n == count - 1 {
            db.execute_batch("COMMIT")?;
        }
    }
    Ok(())
}

/// The columns of the optional members of a pet.
const DETAILS: &str = ", breed, sex, birth_date, color, microchip, price_amount, price_currency, \
    description, notes, location, acquired_on, source_name, source_address, source_licence, metadata";

fn walk(db: &Connection, pages: i64, more_columns: &str) -> rusqlite::Result<()> {
    let columns = format!("id, name, category_id, status{more_columns}");
    let mut statement = db.prepare(&format!(
        "SELECT {columns} FROM pets WHERE id > ?1 ORDER BY id LIMIT 21"
    ))?;
    let column_count = statement.column_count();
    let mut after = 0;
    let mut bytes = 0;
    for _ in 0..pages {
        let mut rows = statement.query([after])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            count += 1;
            let id = row.get(0)?;
            if count <= 20 {
                after = id;
            }
            for column in 1..column_count {
                bytes += match row.get_ref(column)? {
                    ValueRef::Integer(number) => number,
                    text @ ValueRef::Text(_) => text.as_str()?.len() as i64,
                    _ => 0,
                };
            }
        }
        if count < 21 {
            after = 0;
        }
    }
    std::hint::black_box(bytes);
    Ok(())
}

fn get(db: &Connection, count: i64) -> rusqlite::Result<()> {
    let pets: i64 = db.query_row("SELECT max(id) FROM pets", [], |row| row.get(0))?;
    let mut statement =
        db.prepare("SELECT id, name, category_id, status FROM pets WHERE id = ?1")?;
    for n in 0..count {
        // A large prime stride spreads the reads over the whole table.
        let id = n * 7_919_999 % pets + 1;
        let name: String = statement.query_row([id], |row| row.get(1))?;
        std::hint::black_box(name);
    }
    Ok(())
}
