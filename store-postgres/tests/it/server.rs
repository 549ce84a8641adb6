//! Databases of a server that the tests of this process share.

use std::sync::Arc;
use std::time::Duration;

use ah_store::fleet::Timing;
use ah_store_postgres::Postgres;
pub use ah_testkit::postgres::{Server, shared};

/// Intervals for tests that do not wait for a dead worker.
pub const PATIENT: Timing = Timing {
    beat: Duration::from_millis(100),
    dead: Duration::from_secs(60),
};

/// Connects to a database.
pub async fn connect(url: &str, timing: Timing) -> Arc<Postgres> {
    Postgres::connect(url, timing).await.unwrap()
}

/// Makes a database with all tables; returns its address.
pub async fn database(server: &Server) -> String {
    let url = server.database();
    Postgres::migrate(&url).await.unwrap();
    url
}
