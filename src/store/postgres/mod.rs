//! The store on a PostgreSQL server, which any number of replicas share: the
//! connections, and the statements and rows of each kind of thing in a file of
//! its own.

mod api_keys;
mod batch;
mod idempotency;
mod migrate;
mod orders;
mod pets;
mod pool;
mod url;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::timeout;
use tokio_postgres::{Client, Row, Transaction};

use super::{Error, OpenError, Options, Role, commits::Commits, queue};
use crate::{
    page::{Filter, ListQuery, Page},
    telemetry::prometheus::Exposition,
};
use batch::Writer;
use orders::{Closing, Place};
use pets::Create;
pub use pets::{ALL_PETS, pet};
use pool::{Pool, Sql};
use url::Server;

pub use url::{PostgresError, PostgresUrl};

/// Connections to a PostgreSQL server.
#[derive(Debug)]
pub struct Postgres {
    /// To read over. Writes go over others, so that one that waits holds up no
    /// reading.
    pool: Pool,
    updates: Pool,
    /// For what the service does on its own, and for keys.
    chores: Pool,
    creates: Writer<Create>,
    places: Writer<Place>,
    closings: Writer<Closing>,
    commits: Arc<Commits>,
}

/// How long the schema may take, with the waiting for another replica that
/// changes it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many connections a replica reads over.
const READERS: usize = 4;

/// Opens a connection to a database, after its schema is up to date, with the
/// count of the server's warnings.
pub async fn open_alone(url: &PostgresUrl) -> Result<(Client, Arc<AtomicU64>), OpenError> {
    let (_, client, warnings) = prepare(url).await?;
    Ok((client, warnings))
}

/// Commits, and says whether that is certain: a server that has stopped waiting
/// for its standbys warns.
pub async fn is_confirmed(step: Transaction<'_>, warnings: &AtomicU64) -> bool {
    let before = warnings.load(Ordering::Acquire);
    step.commit().await.is_ok() && warnings.load(Ordering::Acquire) == before
}

async fn prepare(url: &PostgresUrl) -> Result<(Server, Client, Arc<AtomicU64>), OpenError> {
    let shown = url.to_string();
    let server = Server::new(url).map_err(|cause| OpenError::Tls {
        server: shown.clone(),
        cause,
    })?;
    let failed = |cause| OpenError::Postgres {
        server: shown.clone(),
        cause,
    };
    let (mut client, warnings) = pool::connect(&server).await.map_err(failed)?;
    let migrated = timeout(PATIENCE, migrate::migrate(&mut client, &shown)).await;
    migrated.map_err(|late| failed(late.into()))??;
    Ok((server, client, warnings))
}

impl Postgres {
    pub async fn open(url: &PostgresUrl, options: &Options) -> Result<Self, OpenError> {
        let (server, ..) = prepare(url).await?;
        let readers = match options.role {
            Role::Service => READERS,
            Role::Tool => 1,
        };
        let (queue, commits) = (options.write_queue, Arc::default());
        Ok(Self {
            pool: Pool::new(&server, readers),
            updates: Pool::new(&server, 1),
            chores: Pool::new(&server, 1),
            creates: Writer::start(&server, queue, &commits),
            places: Writer::start(&server, queue, &commits),
            closings: Writer::start(&server, queue, &commits),
            commits,
        })
    }

    pub async fn close(&self) {
        tokio::join!(
            self.creates.close(),
            self.places.close(),
            self.closings.close()
        );
    }

    pub async fn ping(&self) -> Result<(), Error> {
        let rows = self.pool.read(&PING, &[]).await?;
        match rows.first().map(|row| row.get(0)) {
            Some(false) => Ok(()),
            _ => Err(Error::Unavailable(Arc::new(Recovering))),
        }
    }

    pub fn expose(&self, text: &mut Exposition) {
        let depths = [
            ("create", self.creates.waiting()),
            ("place", self.places.waiting()),
            ("close", self.closings.waiting()),
        ];
        queue::expose(text, &depths);
        let pools: [(&str, Vec<&Pool>); 6] = [
            ("read", vec![&self.pool]),
            ("update", vec![&self.updates]),
            ("chores", vec![&self.chores]),
            ("create", self.creates.pools().collect()),
            ("place", self.places.pools().collect()),
            ("close", self.closings.pools().collect()),
        ];
        let mut tell = |name, help, of: fn(&Pool) -> i64| {
            let mut family = text.family(name, "gauge", help);
            for (name, pools) in &pools {
                let all: i64 = pools.iter().map(|pool| of(pool)).sum();
                family.sample(&[("pool", name)], all);
            }
        };
        tell(
            "petstore_db_connections",
            "Connections to the database that are open.",
            Pool::connections,
        );
        tell(
            "petstore_db_statements_in_flight",
            "Statements that are on their way, or wait for a connection.",
            Pool::running,
        );
        self.commits.expose(text);
    }

    /// Reads one page by ascending id, and one item more to see whether it
    /// goes on.
    async fn list<S: Filter, T>(
        &self,
        [all, filtered]: &'static [Sql; 2],
        query: ListQuery<S>,
        item: fn(&Row) -> Result<T, Error>,
        id: fn(&T) -> i64,
    ) -> Result<Page<T>, Error> {
        let (after, limit) = (query.after.id(), i64::from(query.limit.get()) + 1);
        let rows = match query.status.map(S::as_str) {
            None => self.pool.read(all, &[&after, &limit]).await,
            Some(status) => self.pool.read(filtered, &[&after, &limit, &status]).await,
        };
        let items = rows?.iter().map(item).collect::<Result<_, _>>()?;
        Ok(Page::from_surplus(items, query.limit, id))
    }
}

/// Whether the server follows another, so that nothing can be written there.
static PING: Sql = Sql {
    text: "SELECT pg_is_in_recovery()",
    types: &[],
};

#[derive(Debug, thiserror::Error)]
#[error("the server is a standby")]
struct Recovering;

fn time(microseconds: i64) -> Result<Timestamp, Error> {
    Timestamp::from_microsecond(microseconds).map_err(unreadable)
}

fn optional_time(microseconds: Option<i64>) -> Result<Option<Timestamp>, Error> {
    microseconds.map(time).transpose()
}

#[derive(Debug, thiserror::Error)]
#[error("a statement gave no row where there must be one")]
struct NoRow;

/// A stored value that this program would not have stored.
fn unreadable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Internal(Arc::new(cause))
}
