//! The contract of a store over PostgreSQL, the same as over SQLite.

use std::sync::Arc;

use ah_conversation::SessionId;
use ah_store::SessionStore;
use ah_store::fleet::{Fleet as _, Run};
use ah_store_postgres::Postgres;

use crate::again::{self, Place};
use crate::contract::checks;
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
