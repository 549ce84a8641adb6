//! The user's remembered answers about the hosts that servers of projects need, in a file of the user's folder.
//!
//! An answer is about one definition: its command line as written, and its hosts. If a project changes it, the user is
//! asked again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ah_mcp::ServerConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answers_file;

/// The file, below the user's folder.
const FILE: &str = "servers.json";

/// A server that needs hosts of which the user has not yet been asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenServer {
    /// Name of the server.
    pub name: String,
    /// The project that defines it.
    pub project: PathBuf,
    /// Its configuration.
    pub server: ServerConfig,
}

/// Remembered answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerAnswers {
    home: Option<PathBuf>,
    answers: Answers,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Answers {
    /// By project, and by the server's name.
    projects: BTreeMap<PathBuf, BTreeMap<String, Answer>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
struct Answer {
    /// The definition that the user saw.
    command: Vec<String>,
    hosts: Vec<String>,
    /// Whether the server may reach the hosts.
    allowed: bool,
}

impl ServerAnswers {
    /// Reads the answers in the user's folder `home`. If they cannot be read, the second value says why, and there are
    /// none.
    pub fn read(home: Option<&Path>) -> (Self, Option<String>) {
        let home = home.map(Path::to_owned);
        let path = home.as_ref().map(|home| home.join(FILE));
        let (answers, error) = match path.as_deref().map(answers_file::read) {
            None => (Answers::default(), None),
            Some(Ok(answers)) => (answers, None),
            Some(Err(error)) => (Answers::default(), Some(error)),
        };
        let warning = error.zip(path).map(|(error, path)| {
            let path = path.display();
            format!("`{path}` cannot be read, so servers of projects reach no hosts: {error}")
        });
        (Self { home, answers }, warning)
    }

    /// Returns the user's answer for the server `name` of a project as it is defined now.
    pub fn answer(&self, project: &Path, name: &str, server: &ServerConfig) -> Option<bool> {
        let answer = self.answers.projects.get(project)?.get(name)?;
        let is_same = answer.command == command(server) && answer.hosts == server.needs.names();
        is_same.then_some(answer.allowed)
    }

    /// Stores an answer.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep(&mut self, asked: &OpenServer, allowed: bool) -> io::Result<()> {
        let of_project = self.answers.projects.entry(asked.project.clone());
        let answer = Answer {
            command: command(&asked.server),
            hosts: asked.server.needs.names(),
            allowed,
        };
        of_project.or_default().insert(asked.name.clone(), answer);
        match &self.home {
            Some(home) => answers_file::write(home, FILE, &self.answers),
            None => Err(io::Error::other("there is no home directory")),
        }
    }
}

/// Returns the command line as written, without the values of variables.
pub fn command(server: &ServerConfig) -> Vec<String> {
    let written = &server.as_written;
    let arguments = written["args"].as_array().into_iter().flatten();
    std::iter::once(&written["command"])
        .chain(arguments)
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
