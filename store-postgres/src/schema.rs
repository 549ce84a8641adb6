//! The tables and their migrations.
//!
//! A migration only adds, so that workers of the version before go on while it runs and after it. Each is one
//! transaction under one lock: several may be started at once.

use ah_conversation::StoreError;

use crate::connection::Postgres;
use crate::error::refused;

/// The migrations, in order; the number of the first is 1. One that was published is never changed.
const MIGRATIONS: [&str; 9] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
];

/// Brings the tables up to date; returns the number of the last migration.
pub(crate) async fn migrate(server: &Postgres) -> Result<i32, StoreError> {
    server
        .script(
            "BEGIN;
             SELECT pg_advisory_xact_lock(4204742);
             CREATE SCHEMA IF NOT EXISTS ah;
             CREATE TABLE IF NOT EXISTS ah.migrations
                 (number int PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT now());
             COMMIT;",
        )
        .await?;
    for (number, migration) in (1..).zip(MIGRATIONS) {
        let is_made = "EXISTS (SELECT FROM ah.migrations WHERE number = ";
        server
            .script(&format!(
                "BEGIN;
                 SELECT pg_advisory_xact_lock(4204742);
                 DO $made$ BEGIN IF NOT {is_made}{number}) THEN
                     EXECUTE $migration${migration}$migration$;
                     INSERT INTO ah.migrations (number) VALUES ({number});
                 END IF; END $made$;
                 COMMIT;"
            ))
            .await?;
    }
    Ok(newest())
}

/// Fails if the tables are missing, or made by a newer version.
pub(crate) async fn check(server: &Postgres) -> Result<(), StoreError> {
    let action = "cannot use";
    let row = server
        .row(action, "SELECT max(number) FROM ah.migrations", &[])
        .await?;
    match row.get::<_, Option<i32>>(0) {
        Some(number) if number > newest() => Err(refused(
            action,
            server.name(),
            format!(
                "its tables have version {number}, and this program knows {}",
                newest()
            ),
            Some("install the newer version of ah"),
        )),
        Some(number) if number == newest() => Ok(()),
        _ => Err(refused(
            action,
            server.name(),
            "its tables are older than this program",
            Some("`ah fleet migrate` brings them up to date"),
        )),
    }
}

fn newest() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}
