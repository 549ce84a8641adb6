//! Reads the environment of the process; the only place that does.

use std::path::Path;

use ah_conversation::Environment;

use crate::error::Error;
use crate::git_place;

/// Returns the variables of the process and its working directory, after changing to `cd`.
///
/// # Errors
///
/// If the folder does not exist, or the working directory was deleted.
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
    // Variables that are not text cannot be settings; commands do not get them.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = Environment::new(variables, cwd);
    let git_place = git_place::of(&environment);
    Ok(environment.with_git_place(git_place))
}
