//! The check of a run that is recorded (`--record`), and of a recorded run that is replayed: that gives the same verdicts, runs
//! nothing, and says so.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_beneath::Folder;
use ah_conversation::{Check, CheckRun, Taken};
use ah_provider::script::record::Recording;
use async_trait::async_trait;
use parking_lot::Mutex;

/// Number of recorded verdicts that were given, by command.
type Given = Arc<Mutex<BTreeMap<String, usize>>>;

/// The file that a session is recorded to, if it is, and how much of a recording its checks have replayed. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct RecordedTo {
    recording: Option<Recording>,
    given: Given,
}

impl RecordedTo {
    pub(crate) fn new(recording: Option<Recording>) -> Self {
        Self {
            recording,
            ..Self::default()
        }
    }

    /// Returns a check whose runs are recorded.
    pub(super) fn with(&self, check: Arc<dyn Check>) -> Arc<dyn Check> {
        match self.recording.clone() {
            Some(recording) => Arc::new(Recorded { check, recording }),
            None => check,
        }
    }

    /// Returns the check with this command, and its most runs, that gives what was recorded; `outputs` is the folder for outputs.
    pub(super) fn replayed(
        &self,
        (command, most): (&str, usize),
        outputs: &Path,
        runs: Vec<CheckRun>,
    ) -> Arc<dyn Check> {
        Arc::new(Replayed {
            command: command.to_owned(),
            most,
            outputs: outputs.to_owned(),
            runs,
            given: self.given.clone(),
        })
    }
}

/// A check whose runs are recorded.
#[derive(Debug)]
struct Recorded {
    check: Arc<dyn Check>,
    recording: Recording,
}

impl Recorded {
    fn keep(&self, run: CheckRun) -> CheckRun {
        if let Err(error) = self.recording.add_check(self.check.command(), &run) {
            tracing::warn!("a check is not recorded: {error}");
        }
        run
    }
}

#[async_trait]
impl Check for Recorded {
    fn command(&self) -> &str {
        self.check.command()
    }

    fn most(&self) -> usize {
        self.check.most()
    }

    async fn run(&self) -> CheckRun {
        self.keep(self.check.run().await)
    }

    async fn run_asked(&self, taken: Taken) -> CheckRun {
        self.keep(self.check.run_asked(taken).await)
    }
}

/// A check that gives what was recorded, one run after the other.
#[derive(Debug)]
struct Replayed {
    command: String,
    most: usize,
    /// Folder for outputs.
    outputs: PathBuf,
    runs: Vec<CheckRun>,
    given: Given,
}

impl Replayed {
    fn next(&self) -> CheckRun {
        let run = self.taken().unwrap_or_else(|| CheckRun {
            ending: "the recording has no further run of it".to_owned(),
            ..CheckRun::default()
        });
        let name = run.output.as_deref().and_then(Path::file_name);
        let output = name.map(|name| {
            if let Err(error) = self.put(name, &run.why) {
                tracing::warn!("cannot store the result of a recorded check: {error}");
            }
            self.outputs.join(name)
        });
        CheckRun {
            is_replayed: true,
            output,
            ..run
        }
    }

    /// Takes the next one: a check that is set again goes on where it was.
    fn taken(&self) -> Option<CheckRun> {
        let mut given = self.given.lock();
        let at = given.entry(self.command.clone()).or_default();
        *at += 1;
        self.runs.get(*at - 1).cloned()
    }

    /// Stores what was recorded of an output, under the name that it had.
    fn put(&self, name: &OsStr, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.outputs)?;
        let outputs = Folder::follow(&self.outputs)?;
        match outputs.create_file(name, 0o600) {
            // A check that did not run again has that of the one before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            file => file?.write_all(text.as_bytes()),
        }
    }
}

#[async_trait]
impl Check for Replayed {
    fn command(&self) -> &str {
        &self.command
    }

    fn most(&self) -> usize {
        self.most
    }

    async fn run(&self) -> CheckRun {
        self.next()
    }

    async fn run_asked(&self, taken: Taken) -> CheckRun {
        taken();
        self.next()
    }
}
