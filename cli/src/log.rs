//! Setup of the log by options or environment.

use ah_config::Error;
use ah_conversation::Environment;

use crate::args::options::SettingsOptions;

/// Starts the log, if requested.
///
/// # Errors
///
/// If the filter is invalid, or the file cannot be opened.
pub fn start(options: &SettingsOptions, environment: &Environment) -> Result<(), Error> {
    let (filter, file) = (options.debug.as_deref(), options.debug_file.as_deref());
    if let Some(log) = ah_engine::log_of(filter, file, environment)? {
        // A program that embeds this one may have set its own log, which stays.
        let _ = tracing::dispatcher::set_global_default(log);
    }
    Ok(())
}
