//! Wakes by the jobs of `graphile_worker`: each hint is for one worker, where `NOTIFY` wakes all.
//!
//! A trigger adds a job whenever a run is queued, in the same transaction, so whoever queues need not know of it. A job is
//! only a hint: one transaction takes it and ends it, so that none is left with a worker that died. It has neither a key,
//! since to replace a job that has begun takes it from its worker, nor the serial queue of a session, since the lease of a
//! session is what keeps two runs apart. The tables of `graphile_worker` have row-level security without a policy, so only
//! their owner can take jobs; tenants are woken by `NOTIFY`.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::StoreError;
use ah_store::fleet::Waker;
use async_trait::async_trait;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use graphile_worker_database::Database;
use graphile_worker_migrations::migrate as migrate_tables;
use graphile_worker_queries::complete_job::complete_job;
use graphile_worker_queries::errors::GraphileWorkerError;
use graphile_worker_queries::get_job::get_job;
use graphile_worker_queries::task_identifiers::{TaskDetails, get_tasks_details};
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use crate::connection::{Postgres, tls};
use crate::error::refused;

/// Schema of the tables.
const SCHEMA: &str = "graphile_worker";
/// Name of our jobs, and of whoever takes one.
const NAME: &str = "ah";

/// Adds a job for each run of the owner that is queued. A write does not fail for want of a hint.
const TRIGGER: &str = "
    BEGIN;
    SELECT pg_advisory_xact_lock(4204742);
    CREATE OR REPLACE FUNCTION ah.wake() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$ BEGIN
        IF NEW.tenant = current_user THEN
            PERFORM graphile_worker.add_job('ah', json_build_object('run', NEW.id), run_at => NEW.due_at);
        END IF;
        RETURN NULL;
    EXCEPTION WHEN others THEN
        RETURN NULL;
    END $function$;
    CREATE OR REPLACE TRIGGER wake AFTER INSERT OR UPDATE OF state, due_at ON ah.runs
        FOR EACH ROW WHEN (NEW.state = 'queued') EXECUTE FUNCTION ah.wake();
    COMMIT;";

/// Makes the tables and the trigger, or brings them up to date.
pub(crate) async fn migrate(server: &Postgres) -> Result<(), StoreError> {
    let made = migrate_tables(database(server)?, SCHEMA).await;
    made.map_err(|error| refused("cannot change", server.name(), error.to_string(), None))?;
    server.script(TRIGGER).await
}

/// Returns whether the tables are there and this role may take jobs from them.
async fn is_ours(server: &Postgres) -> Result<bool, StoreError> {
    let owner = "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'ah.runs'::regclass AND tgname = 'wake')
                     AND EXISTS (SELECT FROM pg_tables WHERE schemaname = 'graphile_worker'
                                     AND tablename = '_private_jobs' AND tableowner = current_user)";
    Ok(server.row("cannot read", owner, &[]).await?.get(0))
}

fn database(server: &Postgres) -> Result<Database, StoreError> {
    let config = server.config.clone();
    let settings = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = match tls(&config) {
        Some(tls) => Manager::from_config(config, tls, settings),
        None => Manager::from_config(config, NoTls, settings),
    };
    let pool = Pool::builder(manager).max_size(1).build();
    pool.map(Database::from)
        .map_err(|error| refused("cannot use", server.name(), error.to_string(), None))
}

/// The jobs of a database.
pub(crate) struct Graphile {
    server: Arc<Postgres>,
    database: Database,
    tasks: TaskDetails,
    /// The connection that listens.
    listener: Mutex<Option<Client>>,
    hint: Arc<Notify>,
}

impl Graphile {
    /// Returns the jobs, if the tables are there and are this role's.
    pub(crate) async fn of(server: &Arc<Postgres>) -> Result<Option<Self>, StoreError> {
        if !is_ours(server).await? {
            return Ok(None);
        }
        let database = database(server)?;
        let tasks = get_tasks_details(&database, SCHEMA, vec![NAME.to_owned()]).await;
        Ok(Some(Self {
            server: server.clone(),
            database,
            tasks: tasks
                .map_err(|error| refused("cannot read", server.name(), error.to_string(), None))?,
            listener: Mutex::default(),
            hint: Arc::default(),
        }))
    }

    /// Listens for new jobs, anew if the connection was lost. If it fails, hints are missing and nothing else.
    async fn listen(&self) {
        let mut listener = self.listener.lock().await;
        if !self.server.listens || listener.as_ref().is_some_and(|client| !client.is_closed()) {
            return;
        }
        if let Ok(client) = self.server.opened(&self.hint).await {
            let _ = client.batch_execute("LISTEN \"jobs:insert\"").await;
            *listener = Some(client);
        }
    }

    /// Takes a job, if there is one that no other worker has, and ends it.
    async fn take(&self) -> Result<bool, GraphileWorkerError> {
        let transaction = self.database.begin().await?;
        let job = get_job(&transaction, &self.tasks, SCHEMA, NAME, &[], None).await?;
        if let Some(job) = &job {
            complete_job(&transaction, job, NAME, SCHEMA).await?;
        }
        transaction.commit().await?;
        Ok(job.is_some())
    }
}

#[async_trait]
impl Waker for Graphile {
    async fn wait(&self, at_most: Duration) {
        let job = async {
            self.listen().await;
            loop {
                match self.take().await {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(error) => tracing::debug!("cannot take a job: {error}"),
                }
                self.hint.notified().await;
            }
        };
        // Without a hint, the time is up.
        let _ = timeout(at_most, job).await;
    }
}
