//! What wakes a worker, the same checks over SQLite, over `NOTIFY` and over `graphile_worker`: a hint comes, and one that
//! does not costs time and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::SessionId;
use ah_store::fleet::{End, Fleet, NewRun, Waker};
use ah_store::{LocalFleet, Sessions};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::queue::run;
use crate::server::{PATIENT, connect, database, shared};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);
/// When a hint counts as lost.
const LOST: Duration = Duration::from_secs(60);

/// A worker: its view of the queue, and what wakes it.
struct Worker {
    fleet: Arc<dyn Fleet>,
    waker: Arc<dyn Waker>,
}

impl Worker {
    async fn of(fleet: Arc<dyn Fleet>) -> Self {
        let waker = fleet.clone().waker().await.unwrap();
        Self { fleet, waker }
    }

    /// Takes the next run when it is there, however often a hint comes for nothing.
    async fn next(&self, name: &str) -> SessionId {
        let taken = async {
            loop {
                match self.fleet.claim(name).await.unwrap() {
                    Some(run) => {
                        let done = self.fleet.end(run.id, name, &End::Cancelled).await.unwrap();
                        assert!(done);
                        return run.session;
                    }
                    None => self.waker.wait(LONG).await,
                }
            }
        };
        timeout(LOST, taken).await.expect("a hint was lost")
    }
}

/// Calls every check; each call of `fleet` is another process's view of the same queue.
async fn check(fleet: impl AsyncFn() -> Arc<dyn Fleet>) {
    let (sender, worker) = (fleet().await, Worker::of(fleet().await).await);
    // It is queued while the worker waits.
    let first = run("A", 0);
    let (taken, queued) = tokio::join!(worker.next("w"), sender.enqueue(&first));
    queued.unwrap();
    assert_eq!(taken.as_str(), "A");
    // It is due later.
    let later = NewRun {
        delay: Duration::from_millis(50),
        ..run("B", 0)
    };
    sender.enqueue(&later).await.unwrap();
    timeout(LOST, async {
        while sender.counts().await.unwrap().len() > 1 {
            worker.waker.wait(PATIENT.beat).await;
            if let Some(run) = worker.fleet.claim("w").await.unwrap() {
                worker
                    .fleet
                    .end(run.id, "w", &End::Cancelled)
                    .await
                    .unwrap();
            }
        }
    })
    .await
    .expect("a run that was due was not taken");
    // Another worker hands it on.
    sender.enqueue(&run("C", 0)).await.unwrap();
    let handed = sender.claim("v").await.unwrap().unwrap();
    let on = End::HandedOn(Duration::ZERO);
    let (taken, ended) = tokio::join!(worker.next("w"), sender.end(handed.id, "v", &on));
    assert!(ended.unwrap());
    assert_eq!(taken.as_str(), "C");
}

/// Two workers, many runs: each is taken once.
async fn each_run_is_taken_once(fleet: impl AsyncFn() -> Arc<dyn Fleet>) {
    let sender = fleet().await;
    let mut workers = JoinSet::new();
    for name in ["v", "w"] {
        let worker = Worker::of(fleet().await).await;
        workers.spawn(async move {
            let mut taken = Vec::new();
            loop {
                match worker.fleet.claim(name).await.unwrap() {
                    Some(run) if run.session.as_str() == "END" => return taken,
                    Some(run) => {
                        worker
                            .fleet
                            .end(run.id, name, &End::Cancelled)
                            .await
                            .unwrap();
                        taken.push(run.session.to_string());
                    }
                    None => worker.waker.wait(PATIENT.beat).await,
                }
            }
        });
    }
    for number in 0..30 {
        let session = format!("S{number}");
        sender.enqueue(&run(&session, 0)).await.unwrap();
    }
    // Each worker keeps the one it takes.
    let ends = [run("END", -1), run("END", -1)];
    sender.enqueue(&ends[0]).await.unwrap();
    let first = workers.join_next().await.unwrap().unwrap();
    let open = sender.runs(Some(&SessionId::from("END")), 1).await.unwrap();
    let owner = open[0].worker.clone().unwrap();
    sender
        .end(open[0].id, &owner, &End::Cancelled)
        .await
        .unwrap();
    sender.enqueue(&ends[1]).await.unwrap();
    let second = workers.join_next().await.unwrap().unwrap();
    let mut times = BTreeMap::<_, u32>::new();
    for session in first.into_iter().chain(second) {
        *times.entry(session).or_default() += 1;
    }
    assert_eq!(times.len(), 30);
    assert!(times.values().all(|count| *count == 1), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = async || {
        Arc::new(LocalFleet::open(&Sessions::in_folder(folder.path()), PATIENT).unwrap())
            as Arc<dyn Fleet>
    };
    check(fleet).await;
    each_run_is_taken_once(fleet).await;
}

/// Checks what wakes the workers of a role.
async fn in_a_database(url: &str) {
    let fleet = async || connect(url, PATIENT).await as Arc<dyn Fleet>;
    check(fleet).await;
    each_run_is_taken_once(fleet).await;
}

/// Checks that no hint is needed.
async fn without_hints(url: &str) {
    let fleet = async || connect(url, PATIENT).await.without_notifications() as Arc<dyn Fleet>;
    each_run_is_taken_once(fleet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_notify() {
    let Some(server) = shared() else { return };
    in_a_database(&database(server).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_notifications() {
    let Some(server) = shared() else { return };
    without_hints(&database(server).await).await;
}

/// Databases in which `graphile_worker` wakes the owner's workers.
#[cfg(feature = "graphile")]
mod by_graphile {
    use ah_store_postgres::Postgres;

    use super::*;
    use crate::server::Server;

    async fn prepared(server: &Server) -> String {
        let url = database(server).await;
        // It may be done again, and by two at once.
        let (one, two) = tokio::join!(
            Postgres::migrate_graphile(&url),
            Postgres::migrate_graphile(&url)
        );
        one.and(two).unwrap();
        url
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_the_owner() {
        let Some(server) = shared() else { return };
        in_a_database(&prepared(server).await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_notifications() {
        let Some(server) = shared() else { return };
        without_hints(&prepared(server).await).await;
    }

    /// The jobs are the owner's: another role is woken as without them, and adds none.
    #[tokio::test(flavor = "multi_thread")]
    async fn of_a_tenant() {
        let Some(server) = shared() else { return };
        let url = prepared(server).await;
        let name = url.rsplit('/').next().unwrap();
        let role = format!("tenant_{name}");
        let make = format!("CREATE ROLE {role} LOGIN; GRANT ah TO {role}");
        server.psql(&url, &make).unwrap();
        let theirs = server.url(&role, name);
        let fleet = async || connect(&theirs, PATIENT).await as Arc<dyn Fleet>;
        check(fleet).await;
        let jobs = server.psql(&url, "SELECT count(*) FROM graphile_worker._private_jobs");
        assert_eq!(jobs.unwrap(), "0");
    }

    /// A run is queued even if the hint cannot be given.
    #[tokio::test(flavor = "multi_thread")]
    async fn without_its_tables() {
        let Some(server) = shared() else { return };
        let url = prepared(server).await;
        let drop = "DROP SCHEMA graphile_worker CASCADE";
        server.psql(&url, drop).unwrap();
        let fleet = async || connect(&url, PATIENT).await as Arc<dyn Fleet>;
        each_run_is_taken_once(fleet).await;
    }
}
