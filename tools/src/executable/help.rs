//! What programs print for `--help`, kept from one run to the next: a program is asked once, and again when it has
//! changed, so that starting does not wait for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use ah_conversation::Content;
use ah_process::{Command, Ending, Keep};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::task::JoinSet;

use super::about::cut;
use super::quoted;
use crate::bash::Shell;

/// How long a program may take to print its help.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much of it is told.
const LENGTH: usize = 600;
/// No more than this is read.
const MOST_READ: usize = 64 * 1024;

/// Where help is kept; nowhere, if there is no folder for it.
#[derive(Debug, Clone, Default)]
pub struct HelpCache {
    /// The file.
    pub file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    stamp: String,
    /// Nothing, if the program has none.
    help: Option<String>,
}

impl HelpCache {
    /// The help of each of `programs`, in their order; those that are not known are asked, all at once.
    pub(crate) async fn of(
        &self,
        programs: &[PathBuf],
        shell: &Shell,
        cwd: &Path,
    ) -> Vec<Option<String>> {
        if programs.is_empty() {
            return Vec::new();
        }
        let mut known = self.read();
        let mut asked = JoinSet::new();
        for program in programs {
            let stamp = stamp(program);
            if known.get(program).is_none_or(|kept| kept.stamp != stamp) {
                asked.spawn(ask(program.clone(), stamp, shell.clone(), cwd.to_owned()));
            }
        }
        if !asked.is_empty() {
            known.extend(asked.join_all().await);
            known.retain(|program, _| program.exists());
            // Without a place to keep it, programs are asked again.
            let _ = self.write(&known);
        }
        let help = |program| known.get(program).and_then(|kept: &Kept| kept.help.clone());
        programs.iter().map(help).collect()
    }

    fn read(&self) -> BTreeMap<PathBuf, Kept> {
        let text = self.file.as_ref().and_then(|file| fs::read(file).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    fn write(&self, known: &BTreeMap<PathBuf, Kept>) -> std::io::Result<()> {
        let Some((file, folder)) = self
            .file
            .as_ref()
            .and_then(|file| Some((file, file.parent()?)))
        else {
            return Ok(());
        };
        fs::create_dir_all(folder)?;
        let mut written = NamedTempFile::new_in(folder)?;
        written.write_all(&serde_json::to_vec(known)?)?;
        written.persist(file)?;
        Ok(())
    }
}

async fn ask(program: PathBuf, stamp: String, shell: Shell, cwd: PathBuf) -> (PathBuf, Kept) {
    // Longer output is of no use, so its file is gone with the folder.
    let folder = tempfile::tempdir();
    let spool = folder
        .as_ref()
        .map_or_else(|_| PathBuf::new(), |folder| folder.path().join("help"));
    let keep = Keep {
        in_memory: MOST_READ,
        ..Keep::new(spool, 0)
    };
    let child = Command {
        deadline: Some(PATIENCE),
        ..shell.command(&format!("{} --help", quoted(&program)), &cwd, keep)
    };
    let help = match child.run().await {
        Ok(outcome) if outcome.ending == Ending::Exited(0) => match outcome.output {
            Content::Bytes(bytes) => as_description(&bytes),
            Content::Spool(spool) => as_description(&spool.head),
            Content::Blocks(_) => None,
        },
        _ => None,
    };
    (program, Kept { stamp, help })
}

fn as_description(output: &[u8]) -> Option<String> {
    let text: String = String::from_utf8_lossy(output)
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    let text = cut(text.trim(), LENGTH).trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Differs when the program has changed.
fn stamp(program: &Path) -> String {
    let Ok(metadata) = fs::metadata(program) else {
        return String::new();
    };
    let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}:{}", since.as_nanos(), metadata.len())
}
