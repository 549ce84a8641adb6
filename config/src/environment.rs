//! Reads the environment of the process: once, here, and nowhere else in the program.

use std::path::Path;

use ah_conversation::Environment;

use crate::error::Error;

/// The variables of the process and its working directory, which `--cd` changes first.
///
/// # Errors
///
/// Where the folder is not there, or the working directory was deleted.
pub fn read(cd: Option<&Path>) -> Result<Environment, Error> {
    if let Some(folder) = cd {
        std::env::set_current_dir(folder).map_err(|error| {
            Error::usage(format!("cannot work in `{}`: {error}", folder.display()))
        })?;
    }
    let cwd = std::env::current_dir().map_err(|error| {
        Error::failure(format!("cannot find the working directory: {error}"))
            .hint("change into a folder that exists")
    })?;
    // What isn't text can be no setting of ours; children would have to do without it.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Environment::new(variables, cwd))
}
