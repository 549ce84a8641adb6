//! Runs shell scripts and waits for their effects.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ah_conversation::Content;
use ah_process::{Command, CommandOutcome, Ending, Keep};

/// A folder in which scripts run.
pub struct Scratch {
    pub folder: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, script: &str) -> Command {
        Command {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            cwd: self.folder.path().to_owned(),
            environment: vec![("PATH".into(), std::env::var("PATH").unwrap())],
            stdin: Vec::new(),
            deadline: Some(Duration::from_secs(60)),
            keep: Keep::new(self.path("spool/output"), 64 << 20),
            sandbox: None,
            bounds: None,
            note: |_| None,
        }
    }

    /// Runs a script to its end and returns its output.
    pub async fn run(&self, script: &str) -> (Ending, String) {
        text(self.command(script).run().await.unwrap())
    }

    /// Returns the pid that a script has written to a file, once the file is complete.
    pub async fn pid(&self, name: &str) -> i32 {
        let path = self.path(name);
        eventually("a pid", || {
            fs::read_to_string(&path)
                .ok()?
                .strip_suffix('\n')?
                .parse()
                .ok()
        })
        .await
    }
}

pub fn text(outcome: CommandOutcome) -> (Ending, String) {
    let Content::Bytes(bytes) = outcome.output else {
        panic!("a short output: {:?}", outcome.output);
    };
    (outcome.ending, String::from_utf8(bytes).unwrap())
}

/// Polls until `look` returns a value.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "no {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns whether there is a process `pid`, zombies included.
pub fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

pub async fn gone(pid: i32) {
    eventually("end of the process", || (!exists(pid)).then_some(())).await;
}
