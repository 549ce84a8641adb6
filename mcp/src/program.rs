//! A server that is a child of ours: how it is started, and how it ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::Environment;
use ah_process::{Child, Command, Keep, Pipes, Sandbox};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::Program;
use crate::fault::Fault;
use crate::name::clean_line;

/// How long the end of a child is waited for once it has closed its output.
const MOMENT: Duration = Duration::from_millis(500);

/// A server that runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    /// Reads what it says besides.
    pub(crate) listener: JoinHandle<()>,
}

impl Running {
    /// How it ended, if it did; `fault` otherwise.
    pub(crate) async fn fate(self, fault: Fault) -> Fault {
        // Its output ends a moment before it does, and its last words may still be on their way.
        let fault = match timeout(MOMENT, self.child.wait()).await {
            Ok(outcome) => {
                Fault::failed(format!("it ended with exit code {}", outcome.ending.code()))
            }
            Err(_) => fault,
        };
        let _ = timeout(MOMENT, self.listener).await;
        fault
    }
}

/// Where servers that are children of ours run, if not with our rights.
#[derive(Debug, Clone)]
pub struct Confined {
    /// What they run in.
    pub sandbox: Arc<Sandbox>,
    /// The variables that they see, besides those of their configuration.
    pub environment: Vec<(String, String)>,
    /// Names of those that run with our rights all the same.
    pub free: Vec<String>,
}

impl Confined {
    /// Whether the server of this name is confined.
    pub(crate) fn holds(&self, name: &str) -> bool {
        !self.free.iter().any(|free| free == name)
    }
}

/// Starts the program. It sees what every child sees, and what its configuration gives it.
pub(crate) async fn start(
    program: &Program,
    environment: &Environment,
    confined: Option<&Confined>,
) -> Result<(Child, Pipes), Fault> {
    let added = &program.environment;
    let inherited: Vec<(String, String)> = match confined {
        Some(confined) => confined.environment.clone(),
        None => environment
            .for_children()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    };
    let inherited = inherited.into_iter();
    let variables: Vec<(String, String)> = inherited
        .filter(|(name, _)| !added.contains_key(name))
        .chain(
            added
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        )
        .collect();
    let path = find(&program.command, &variables, environment.cwd()).ok_or_else(|| {
        let name = clean_line(&program.command, 200);
        Fault::hopeless(format!("there is no program `{name}`"))
    })?;
    let command = Command {
        program: path,
        arguments: program.arguments.iter().map(OsString::from).collect(),
        cwd: environment.cwd().to_owned(),
        environment: variables,
        stdin: Vec::new(),
        deadline: None,
        keep: Keep::new(PathBuf::new(), 0),
        sandbox: confined.map(|confined| confined.sandbox.clone()),
        note: |_| None,
    };
    command.converse().await.map_err(Fault::hopeless)
}

/// The program `name`: as a path, or in the absolute folders of the search path.
fn find(name: &str, variables: &[(String, String)], cwd: &Path) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = match name.contains('/') {
        true => vec![cwd.join(name)],
        false => {
            let paths = variables.iter().filter(|(name, _)| name == "PATH");
            paths
                .flat_map(|(_, path)| std::env::split_paths(path))
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join(name))
                .collect()
        }
    };
    candidates.into_iter().find(|path| path.is_file())
}
