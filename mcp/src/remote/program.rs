//! Servers that are child processes: starts them, and says how they ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_conversation::Environment;
use ah_process::{Child, Command, Keep, Pipes};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::Program;
use crate::remote::cell::ServerCell;
use crate::remote::error::ServerError;
use crate::remote::name::clean_line;

/// Time a child has to exit once it has closed its output.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// A running server.
pub(crate) struct ServerProcess {
    pub(crate) child: Child,
    /// Reads its standard error.
    pub(crate) stderr_reader: JoinHandle<()>,
}

impl ServerProcess {
    /// Returns its exit code as an error; `error` if it is still running.
    pub(crate) async fn exit_cause(self, error: ServerError) -> ServerError {
        // Its output closes shortly before it exits, and its last lines may not have been read yet.
        let cause = match timeout(EXIT_GRACE, self.child.wait()).await {
            Ok(outcome) => {
                ServerError::transient(format!("it exited with code {}", outcome.ending.code()))
            }
            Err(_) => error,
        };
        let _ = timeout(EXIT_GRACE, self.stderr_reader).await;
        cause
    }
}

/// Starts the program with the environment of every child process and the variables of its configuration.
pub(crate) async fn start(
    program: &Program,
    environment: &Environment,
    cell: Option<&ServerCell>,
) -> Result<(Child, Pipes), ServerError> {
    let added = &program.environment;
    let inherited: Vec<(String, String)> = match cell {
        Some(cell) => cell.environment.clone(),
        None => environment
            .for_children()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    };
    let variables: Vec<(String, String)> = inherited
        .into_iter()
        .filter(|(name, _)| !added.contains_key(name))
        .chain(
            added
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        )
        .collect();
    let path = find(&program.command, &variables, environment.cwd()).ok_or_else(|| {
        let name = clean_line(&program.command, 200);
        ServerError::permanent(format!("program `{name}` not found"))
    })?;
    let command = Command {
        program: path,
        arguments: program.arguments.iter().map(OsString::from).collect(),
        cwd: environment.cwd().to_owned(),
        environment: variables,
        stdin: Vec::new(),
        deadline: None,
        keep: Keep::new(PathBuf::new(), 0),
        sandbox: cell.map(|cell| cell.sandbox.clone()),
        bounds: None,
        note: |_| None,
    };
    let started = command.converse().await;
    started.map_err(|error| match cell {
        // What is there outside may not be there inside.
        Some(cell) => ServerError::permanent(error).because(cell.hint()),
        None => ServerError::permanent(error),
    })
}

/// Finds the program `name`: a path if it contains a slash, else a file in an absolute folder of `PATH`.
fn find(name: &str, variables: &[(String, String)], cwd: &Path) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(cwd.join(name)).filter(|path| path.is_file());
    }
    variables
        .iter()
        .filter(|(name, _)| name == "PATH")
        .flat_map(|(_, path)| std::env::split_paths(path))
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
