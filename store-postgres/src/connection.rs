//! Connections to the server: a few, shared by all sessions of the process, and made anew when they are lost.
//!
//! Statements are sent with the types of their parameters and without names, and nothing is kept in a connection but
//! `LISTEN`. So a proxy that pools transactions, such as pgbouncer, may stand between.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ah_conversation::StoreError;
use ah_store::fleet::Timing;
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};
use tokio::time::sleep;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{failed, is_passing, refused};

/// Number of connections: commits of several sessions share a write to the disk.
const CONNECTIONS: usize = 4;
/// How long a statement is tried again while the server is away.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before the first further attempt; each later one is twice as long, up to the last.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long a server's host may be silent before a connection to it counts as lost. Without it, a statement waits up to
/// a quarter of an hour for a host that is gone without a word (Linux's `tcp_retries2`), and two hours for its answer.
const SILENCE: Duration = Duration::from_secs(10);
/// Channel of the hints that there is something to do.
pub(crate) const CHANNEL: &str = "ah";

/// Parameters of a statement, with their types.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A PostgreSQL server with sessions, and their queue.
pub struct Postgres {
    pub(crate) config: Config,
    name: String,
    pub(crate) timing: Timing,
    slots: [Mutex<Option<Arc<Client>>>; CONNECTIONS],
    turn: AtomicUsize,
    pub(crate) hint: Arc<Notify>,
    pub(crate) listens: bool,
    /// The models that no limit concerned, and when.
    pub(crate) unlimited: Mutex<HashMap<String, Instant>>,
    /// The runtime that drives the connections; that of the run which needs one first may end earlier.
    runtime: Handle,
}

impl fmt::Debug for Postgres {
    // The configuration has a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Postgres {
    /// Ignores all notifications: what they hint at is then found by looking.
    #[must_use]
    pub fn without_notifications(self: Arc<Self>) -> Arc<Self> {
        match Arc::try_unwrap(self) {
            Ok(server) => Arc::new(Self {
                listens: false,
                slots: Default::default(),
                ..server
            }),
            Err(shared) => shared,
        }
    }

    /// Returns the server at an address, without asking it for anything yet.
    pub(crate) fn at(url: &str, timing: Timing) -> Result<Self, StoreError> {
        let unclear = |error: tokio_postgres::Error| {
            // The text of the address may have a password.
            failed("cannot use", "the address of the store", &error)
        };
        let mut config = Config::from_str(url).map_err(unclear)?;
        config.application_name("ah");
        config.connect_timeout(Duration::from_secs(5));
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        config.keepalives_idle(SILENCE);
        config.keepalives_interval(SILENCE / 5);
        Ok(Self {
            name: name_of(&config),
            config,
            timing,
            slots: Default::default(),
            turn: AtomicUsize::new(0),
            hint: Arc::default(),
            listens: true,
            unlimited: Mutex::default(),
            runtime: Handle::current(),
        })
    }

    /// Returns what names the server in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs one statement and returns its rows. It is tried again while the server is away, so it must be one that may
    /// run twice.
    pub(crate) async fn rows(
        &self,
        action: &'static str,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let began = Instant::now();
        let mut pause = PAUSE;
        loop {
            let result = match self.client().await {
                Ok(client) => client.query_typed(statement, parameters).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(rows) => return Ok(rows),
                Err(error) if is_passing(&error) && began.elapsed() < PATIENCE => {
                    tracing::debug!("{action} {}: {error}; trying again", self.name);
                }
                Err(error) => return Err(failed(action, &self.name, &error)),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs statements that may not run twice, in one transaction of a connection of its own.
    pub(crate) async fn script(&self, statements: &str) -> Result<(), StoreError> {
        let client = self.opened(&self.hint).await;
        let client = client.map_err(|error| failed("cannot open", &self.name, &error))?;
        let done = client.batch_execute(statements).await;
        done.map_err(|error| failed("cannot change", &self.name, &error))
    }

    async fn client(&self) -> Result<Arc<Client>, tokio_postgres::Error> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % CONNECTIONS;
        let mut slot = self.slots[turn].lock().await;
        if let Some(client) = slot.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        let client = Arc::new(self.opened(&self.hint).await?);
        if turn == 0 && self.listens {
            // If it fails, hints are missing and nothing else.
            let _ = client.batch_execute(&format!("LISTEN {CHANNEL}")).await;
            self.hint.notify_one();
        }
        *slot = Some(client.clone());
        Ok(client)
    }

    /// Opens a connection that lives in the runtime of the server's handle, and passes on the hints that it hears.
    pub(crate) async fn opened(&self, hint: &Arc<Notify>) -> Result<Client, tokio_postgres::Error> {
        let (config, hint) = (self.config.clone(), hint.clone());
        let opening = self.runtime.spawn(async move { open(&config, hint).await });
        match opening.await {
            Ok(opened) => opened,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and with it all that waits.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Returns the only row of a statement.
    pub(crate) async fn row(
        &self,
        action: &'static str,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> Result<Row, StoreError> {
        let row = self.rows(action, statement, parameters).await?.pop();
        row.ok_or_else(|| refused(action, &self.name, "the server gave no row", None))
    }
}

async fn open(config: &Config, hint: Arc<Notify>) -> Result<Client, tokio_postgres::Error> {
    match tls(config) {
        Some(tls) => open_with(tls, config, hint).await,
        None => open_with(NoTls, config, hint).await,
    }
}

/// Returns what makes connections over TLS, if there may be any.
pub(crate) fn tls(config: &Config) -> Option<MakeRustlsConnect> {
    if config.get_ssl_mode() == SslMode::Disable {
        return None;
    }
    match ClientConfig::with_platform_verifier() {
        Ok(tls) => Some(MakeRustlsConnect::new(tls)),
        Err(error) => {
            tracing::warn!("no certificates to verify a server with: {error}");
            None
        }
    }
}

async fn open_with<T>(
    tls: T,
    config: &Config,
    hint: Arc<Notify>,
) -> Result<Client, tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket> + Clone,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (client, mut connection) = config.connect(tls).await?;
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notification(_)) => hint.notify_one(),
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!("lost a connection to PostgreSQL: {error}");
                    break;
                }
            }
        }
    });
    Ok(client)
}

fn name_of(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        _ => "localhost".to_owned(),
    };
    let database = config
        .get_dbname()
        .or(config.get_user())
        .unwrap_or_default();
    format!("postgres://{host}/{database}")
}
