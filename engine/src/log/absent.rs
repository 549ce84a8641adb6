//! The log in a build without one: requesting it is an error.

use std::path::Path;

use ah_config::Error;
use ah_conversation::Environment;
use tracing::Dispatch;

/// Returns `None` if no log is requested.
///
/// # Errors
///
/// If a log is requested, by an argument or by `AH_LOG`.
pub fn log_of(
    filter: Option<&str>,
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Option<Dispatch>, Error> {
    let is_asked = filter.or_else(|| environment.get("AH_LOG")).is_some() || file.is_some();
    if is_asked {
        return Err(
            Error::failure("this build cannot write a log").hint("build it with the feature `log`")
        );
    }
    Ok(None)
}
