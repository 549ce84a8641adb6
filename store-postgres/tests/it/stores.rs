//! The contract of a store over PostgreSQL, the same as over SQLite.

use std::sync::Arc;

use ah_conversation::{Record, SessionId, Store as _};
use ah_store::SessionStore;
use ah_store::fleet::{Fleet as _, Run};
use ah_store_postgres::Postgres;

use crate::again::{self, Place};
use crate::contract::checks;
use crate::fixture::{Speaker, bytes, finished, result};
use crate::server::{PATIENT, Server, connect, database, shared};

/// A session in a database of its own.
pub struct InPostgres {
    server: &'static Server,
    url: String,
    postgres: Arc<Postgres>,
}

impl InPostgres {
    pub async fn new(server: &'static Server) -> Self {
        let url = database(server).await;
        Self {
            postgres: connect(&url, PATIENT).await,
            server,
            url,
        }
    }
}

pub fn run_of(session: &str) -> Run {
    Run {
        id: 0,
        session: SessionId::from(session),
        folder: "/".into(),
        model: None,
        attempt: 1,
        attempts: 1,
        command: Vec::new(),
        answer_within: None,
    }
}

impl Place for InPostgres {
    async fn open(&self) -> SessionStore {
        let run = run_of("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        self.postgres
            .clone()
            .open(&run.session, "me")
            .await
            .unwrap()
    }

    async fn replace_writer(&self) {
        let take = "UPDATE ah.sessions SET epoch = epoch + 1";
        self.server.psql(&self.url, take).unwrap();
    }
}

macro_rules! over_postgres {
    ($($check:ident),* $(,)?) => {
        mod in_postgres {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                let Some(server) = shared() else { return };
                let place = InPostgres::new(server).await;
                let session = place.open().await;
                crate::contract::$check(&session).await;
                let expected = again::portrait(&session).await;
                drop(session);
                assert_eq!(again::portrait(&place.open().await).await, expected);
            })*
        }
    };
}

checks!(over_postgres);

#[tokio::test]
async fn sessions_are_there_again() {
    let Some(server) = shared() else { return };
    again::check(async || InPostgres::new(server).await).await;
}

/// Number of large contents that the sessions below share, and of sessions.
const CONTENTS: usize = 3;
const SESSIONS: usize = 24;

/// Stores a session with a large output.
async fn with_output(postgres: &Arc<Postgres>, id: &SessionId, content: usize) {
    let session = postgres.clone().open(id, "me").await.unwrap();
    let mut speaker = Speaker::default();
    let (prompt, asking) = (speaker.prompt("go"), speaker.calls(&["call"]));
    let output = bytes(vec![b'a' + u8::try_from(content).unwrap(); 100_000]);
    let result = result("call", "much");
    let answer = speaker.results(vec![result.clone()]);
    let ended = finished(&asking, result, output);
    let messages = [prompt, asking, answer].map(Record::Message);
    let [prompt, asking, answer] = messages;
    session
        .append(vec![prompt, asking, ended, answer])
        .await
        .unwrap();
    drop(session);
    postgres.close(id, "me").await.unwrap();
}

#[tokio::test]
async fn contents_stay_as_long_as_a_session_uses_them() {
    let Some(server) = shared() else { return };
    let place = InPostgres::new(server).await;
    let postgres = &place.postgres;
    let ids: Vec<_> = (0..SESSIONS)
        .map(|at| SessionId::from(format!("S{at:02}")))
        .collect();
    let count = || {
        let count = "SELECT count(*) FROM ah.blobs";
        server.psql(&place.url, count).unwrap()
    };
    // Sessions come and go, and share their contents, while others collect what is left.
    let coming = async {
        for (at, id) in ids.iter().enumerate() {
            with_output(postgres, id, at % CONTENTS).await;
            if at % 4 != 3 {
                let _open = postgres.clone().open(id, "me").await.unwrap();
                assert!(postgres.forget(id, "me", &[]).await.unwrap());
            }
        }
    };
    let mut coming = std::pin::pin!(coming);
    let mut bytes = 0;
    loop {
        tokio::select! {
            () = &mut coming => break,
            collected = postgres.collect(None) => bytes += collected.unwrap().bytes,
        }
    }
    assert!(bytes > 0, "nothing was collected meanwhile");
    for id in ids.iter().skip(3).step_by(4) {
        let session = postgres.clone().open(id, "other").await.unwrap();
        let portrait = again::portrait(&session).await;
        assert!(portrait.contains("output call"), "{portrait}");
    }
    assert_eq!(count(), CONTENTS.to_string());
    server.psql(&place.url, "DELETE FROM ah.sessions").unwrap();
    let collected = postgres.collect(None).await.unwrap();
    assert_eq!((collected.files, collected.bytes), (CONTENTS, 300_000));
    assert_eq!(count(), "0");
}
