//! The queue and the sessions of a fleet on a PostgreSQL server.

use std::sync::Arc;

use ah_config::Error;
use ah_store::fleet::{Fleet, Timing};
use ah_store_postgres::Postgres;

/// Opens the fleet at this address.
///
/// # Errors
///
/// If it cannot be opened.
pub(super) async fn connect(url: &str, timing: Timing) -> Result<Arc<dyn Fleet>, Error> {
    Ok(Postgres::connect(url, timing).await?)
}

/// Makes the tables of a PostgreSQL store, or brings them up to date; returns their version. With `graphile`, workers are
/// then woken by `graphile_worker`.
///
/// # Errors
///
/// If the role may not, or this build has no PostgreSQL or no `graphile_worker`.
pub async fn migrate(url: &str, graphile: bool) -> Result<i32, Error> {
    if graphile && !cfg!(feature = "graphile") {
        return Err(Error::usage("this build of ah has no graphile_worker").hint(
            "build it with the feature `graphile`: `cargo install --path cli --features graphile`",
        ));
    }
    let version = Postgres::migrate(url).await?;
    #[cfg(feature = "graphile")]
    if graphile {
        Postgres::migrate_graphile(url).await?;
    }
    Ok(version)
}
