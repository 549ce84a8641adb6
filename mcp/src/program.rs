//! A server that is a child of ours: how it is started, and how it ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_conversation::Environment;
use ah_process::{Child, Command, Keep, Pipes};
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

/// Starts the program. It sees what every child sees, and what its configuration gives it.
pub(crate) async fn start(
    program: &Program,
    environment: &Environment,
) -> Result<(Child, Pipes), Fault> {
    let added = &program.environment;
    let inherited = environment
        .for_children()
        .filter(|(name, _)| !added.contains_key(*name));
    let variables: Vec<(String, String)> = inherited
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
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
        sandbox: None,
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
