//! The servers of this user that are there now: `ah serve`, and runs that go on without a terminal. Each has a file with its
//! address and its token, which `ah attach` and other programs of the user find it by.

use std::fs;
use std::path::PathBuf;

use ah_conversation::json;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::{Config, Error, answers_file};

/// Folder of the files, below the user's folder.
pub(crate) const FOLDER: &str = "serve";

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownServer {
    /// Its address: `http://127.0.0.1:4114`.
    pub url: String,
    /// What every request to it has to name.
    pub token: String,
    /// Id of its process.
    pub pid: i32,
    /// The folder whose sessions it serves.
    pub folder: PathBuf,
}

/// The file of a server, which is there as long as this value.
#[derive(Debug)]
pub struct ServerFile(PathBuf);

impl ServerFile {
    /// Returns its path.
    pub fn path(&self) -> &PathBuf {
        &self.0
    }
}

impl Drop for ServerFile {
    fn drop(&mut self) {
        // One that stays behind is removed by whoever looks for servers.
        let _ = fs::remove_file(&self.0);
    }
}

impl Config {
    /// Makes a server known to the programs of this user, and to nobody else.
    ///
    /// # Errors
    ///
    /// If there is no folder of the user, or it cannot be written.
    pub fn announce(&self, url: &str, token: &str) -> Result<ServerFile, Error> {
        let home = self.home.as_ref().ok_or_else(|| {
            Error::failure("there is no place for the token").hint("set HOME or AH_HOME")
        })?;
        let server = KnownServer {
            url: url.to_owned(),
            token: token.to_owned(),
            pid: rustix::process::getpid().as_raw_pid(),
            folder: self.environment.cwd().to_owned(),
        };
        let (folder, name) = (home.join(FOLDER), format!("{}.json", server.pid));
        let path = folder.join(&name);
        answers_file::write(&folder, &name, &server).map_err(|error| {
            Error::failure(format!("cannot write `{}`: {error}", path.display()))
        })?;
        Ok(ServerFile(path))
    }

    /// Returns the servers of this user whose processes are there, the newest first.
    pub fn known_servers(&self) -> Vec<KnownServer> {
        let folder = self.home.iter().map(|home| home.join(FOLDER));
        let files = folder.filter_map(|folder| fs::read_dir(folder).ok());
        let mut found = Vec::new();
        for file in files.flatten().flatten() {
            let (path, written) = (file.path(), file.metadata().and_then(|it| it.modified()));
            if path.extension().is_none_or(|kind| kind != "json") {
                continue;
            }
            let server: Option<KnownServer> =
                { fs::read(&path).ok() }.and_then(|text| json::from_slice(&text).ok());
            let is_there = |server: &KnownServer| {
                Pid::from_raw(server.pid).is_some_and(|pid| test_kill_process(pid).is_ok())
            };
            match server.filter(is_there) {
                Some(server) => found.push((written.ok(), server)),
                // Its process was killed.
                None => drop(fs::remove_file(path)),
            }
        }
        found.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
        found.into_iter().map(|(_, server)| server).collect()
    }
}
