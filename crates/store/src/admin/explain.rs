//! Every statement of the store, with the plan by which a database executes it.

use rusqlite::{Connection, params_from_iter};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{
    super::{
        list::Dialect,
        postgres::{self, COMMIT_GROUP_SETTINGS, type_of},
        shared_statements, sqlite,
        statements::NamedSql,
        url::DatabaseUrl,
    },
    reader::ReadError,
};

/// A statement and its plan.
#[derive(Debug)]
pub struct StatementPlan {
    pub name: String,
    pub sql: String,
    pub plan: Vec<String>,
}

/// Explains every statement. The store must exist; it is not changed.
pub async fn explain_statements(url: &DatabaseUrl) -> Result<Vec<StatementPlan>, ReadError> {
    let mut explained = Vec::new();
    match url {
        DatabaseUrl::Sqlite(path) => {
            let db = sqlite::open_current(path)?;
            for sql in sqlite::statements().chain(shared_statements(Dialect::Sqlite)) {
                explained.push(explain_in_file(&db, sql)?);
            }
        }
        DatabaseUrl::Postgres(url) => {
            let client = postgres::open_connection_to_current(url).await?;
            client.batch_execute("BEGIN").await?;
            for setting in COMMIT_GROUP_SETTINGS {
                client
                    .batch_execute(&format!("SET LOCAL {setting}"))
                    .await?;
            }
            for sql in postgres::statements().chain(shared_statements(Dialect::Postgres)) {
                explained.push(explain_on_server(&client, sql).await?);
            }
        }
    }
    Ok(explained)
}

fn explain_in_file(db: &Connection, sql: NamedSql) -> rusqlite::Result<StatementPlan> {
    let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {}", sql.text))?;
    let nulls = (0..explain.parameter_count()).map(|_| None::<i64>);
    let plan = explain.query_map(params_from_iter(nulls), |row| row.get("detail"))?;
    Ok(StatementPlan {
        plan: plan.collect::<Result<_, _>>()?,
        name: sql.name,
        sql: sql.text,
    })
}

async fn explain_on_server(client: &Client, sql: NamedSql) -> Result<StatementPlan, ReadError> {
    let types: Vec<String> = sql
        .kinds
        .iter()
        .map(|kind| type_of(*kind).name().into())
        .collect();
    let nulls = vec!["NULL"; types.len()].join(", ");
    let parenthesized = |list: String| match list.as_str() {
        "" => String::new(),
        _ => format!("({list})"),
    };
    let explain = format!(
        "PREPARE explained{} AS {}; EXPLAIN (COSTS off) EXECUTE explained{}; DEALLOCATE explained",
        parenthesized(types.join(", ")),
        sql.text,
        parenthesized(nulls)
    );
    let messages = client.simple_query(&explain).await?;
    let plan = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(String::from),
        _ => None,
    });
    Ok(StatementPlan {
        plan: plan.collect(),
        name: sql.name,
        sql: sql.text,
    })
}
