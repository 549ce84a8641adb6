//! PostgreSQL in a build without it: an error that says so.

#![expect(
    clippy::unused_async,
    reason = "the functions of a build that has it wait"
)]

use std::sync::Arc;

use ah_config::Error;
use ah_store::fleet::{Fleet, Timing};

/// Returns an error.
///
/// # Errors
///
/// Always.
pub(super) async fn connect(_: &str, _: Timing) -> Result<Arc<dyn Fleet>, Error> {
    Err(Error::usage("this build of ah has no PostgreSQL").hint(
        "build it with the feature `postgres`: `cargo install --path cli --features postgres`",
    ))
}

/// Returns an error.
///
/// # Errors
///
/// Always.
pub async fn migrate(url: &str, graphile: bool) -> Result<i32, Error> {
    let (lacking, feature) = match graphile {
        true => ("graphile_worker", "graphile"),
        false => ("PostgreSQL", "postgres"),
    };
    Err(Error::usage(format!(
        "cannot migrate `{url}`: this build of ah has no {lacking}"
    ))
    .hint(format!(
        "build it with the feature `{feature}`: `cargo install --path cli --features {feature}`"
    )))
}
