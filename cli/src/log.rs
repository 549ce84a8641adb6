//! Starts the log that the options or the environment ask for.

use ah_config::Error;
use ah_conversation::Environment;

use crate::args::options::SettingsOptions;

/// Starts the log, if one is asked for.
///
/// # Errors
///
/// If the filter cannot be read, or the file cannot be opened.
pub fn start(options: &SettingsOptions, environment: &Environment) -> Result<(), Error> {
    let (filter, file) = (options.debug.as_deref(), options.debug_file.as_deref());
    if let Some(log) = ah::log_of(filter, file, environment)? {
        // A program that embeds this one may have a log of its own, which stays.
        let _ = tracing::dispatcher::set_global_default(log);
    }
    Ok(())
}
