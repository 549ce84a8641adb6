//! The contract over SQLite: on disk, in memory, and as the copy of a log.

use std::sync::Arc;

use ah_store::SessionStore;

use crate::again::{self, Place};
use crate::contract::checks;
use crate::fixture::World;
use crate::memory_log::MemoryLog;

macro_rules! over_sqlite {
    ($($check:ident),* $(,)?) => {
        mod on_disk {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                let world = World::new();
                let session = SessionStore::open(&world.fresh()).unwrap();
                crate::contract::$check(&session).await;
            })*
        }

        mod in_memory {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                let world = World::new();
                let session = SessionStore::in_memory(world.root()).unwrap();
                crate::contract::$check(&session).await;
                drop(session);
                let left: Vec<_> = std::fs::read_dir(world.root()).unwrap().collect();
                assert!(left.is_empty(), "{left:?}");
            })*
        }

        mod of_a_log {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                let world = World::new();
                let log = Arc::new(MemoryLog::default());
                let session = log.open(world.root()).await;
                crate::contract::$check(&session).await;
                let copy = log.open(world.root()).await;
                assert_eq!(again::portrait(&copy).await, again::portrait(&session).await);
                drop((session, copy));
                let left: Vec<_> = std::fs::read_dir(world.root()).unwrap().collect();
                assert!(left.is_empty(), "{left:?}");
            })*
        }
    };
}

checks!(over_sqlite);

/// A session in files.
struct OnDisk {
    _world: World,
    paths: ah_store::Paths,
}

impl OnDisk {
    fn new() -> Self {
        let world = World::new();
        Self {
            paths: world.fresh(),
            _world: world,
        }
    }
}

impl Place for OnDisk {
    async fn open(&self) -> SessionStore {
        SessionStore::open(&self.paths).unwrap()
    }

    async fn replace_writer(&self) {
        let other = rusqlite::Connection::open(self.paths.database()).unwrap();
        other
            .execute("UPDATE lease SET epoch = epoch + 1", [])
            .unwrap();
    }
}

/// A session in a log.
struct InALog {
    world: World,
    log: Arc<MemoryLog>,
}

impl Place for InALog {
    async fn open(&self) -> SessionStore {
        self.log.open(self.world.root()).await
    }

    async fn replace_writer(&self) {
        self.log.take_lease();
    }
}

#[tokio::test]
async fn sessions_in_files_are_there_again() {
    again::check(async || OnDisk::new()).await;
}

#[tokio::test]
async fn sessions_in_a_log_are_there_again() {
    again::check(async || InALog {
        world: World::new(),
        log: Arc::default(),
    })
    .await;
}
