//! The policy for commands: from the command line and the user's settings, never from the project.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ah_conversation::Environment;
use ah_sandbox::{Allowlist, Confinement, Grant, Proxy, Sandbox};

use crate::config::Config;
use crate::error::CliError;

/// What is granted beyond what every command has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// The workspace, where it is not the project.
    pub workspace: Option<PathBuf>,
    /// Paths, relative ones to the working directory.
    pub paths: Vec<Grant>,
    /// Names of variables.
    pub variables: Vec<String>,
    /// Hosts.
    pub hosts: Allowlist,
}

/// A sandbox by this policy, in which this program starts commands.
///
/// # Errors
///
/// Where the workspace is no folder.
pub fn sandbox(config: &Config, granted: &Granted) -> Result<Sandbox, CliError> {
    let environment = &config.environment;
    let cwd = environment.cwd();
    let workspace = match &granted.workspace {
        Some(folder) => fs::canonicalize(cwd.join(folder)).map_err(|error| {
            CliError::failure(format!("cannot work in `{}`: {error}", folder.display()))
        })?,
        None => project(config),
    };
    let mut confinement = Confinement::new(workspace, environment.home());
    confinement.grant_tool_chains(|name| environment.get(name));
    let paths = granted.paths.iter().map(|grant| Grant {
        path: cwd.join(&grant.path),
        ..grant.clone()
    });
    confinement.grants.extend(paths);
    confinement.protected.extend(config.protected_folders());
    let proxy = Proxy::new(granted.hosts.clone());
    Ok(Sandbox::new(confinement, proxy, "/proc/self/exe".into()))
}

/// The project, for a commit writes to its top also where the work is done below; but never what is somebody else's,
/// or holds the home directory.
fn project(config: &Config) -> PathBuf {
    let cwd = config.environment.cwd();
    let owner = |folder: &Path| fs::metadata(folder).ok().map(|metadata| metadata.uid());
    let home = config.environment.home();
    let holds_home = home.is_some_and(|home| home.starts_with(&config.project_root));
    let folder = match !holds_home && owner(cwd) == owner(&config.project_root) {
        true => &config.project_root,
        false => cwd,
    };
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The variables that a command sees in the sandbox.
pub fn variables(environment: &Environment, granted: &Granted) -> Vec<(String, String)> {
    let seen = environment
        .for_children()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    ah_sandbox::variables(seen, &granted.variables, true)
}
