//! Cache of what programs print for `--help`. A program is run once, and again after it has changed, so that starting does
//! not wait for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use ah_conversation::{Content, Denied, json};
use ah_process::{Behind, Command, Ending, Keep, ShellLine};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::task::JoinSet;

use super::about::cut;
use super::quoted;
use crate::bash::Shell;
use crate::withheld;

/// Time limit for a program to print its help.
const PATIENCE: Duration = Duration::from_secs(1);
/// Limit for the part that becomes a description, in bytes.
const LENGTH: usize = 600;
/// Limit for the output that is read, in bytes.
const MOST_READ: usize = 64 * 1024;

/// The cache; without a file, programs are run each time.
#[derive(Debug, Clone, Default)]
pub struct HelpCache {
    /// The file.
    pub file: Option<PathBuf>,
    /// What rules keep from the programs.
    pub denied: Denied,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CachedHelp {
    stamp: String,
    /// `None` if the program has none.
    help: Option<String>,
}

impl HelpCache {
    /// Returns the help of each of `programs`, in their order; those not in the cache are run, in parallel.
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
                let (program, denied) = (program.clone(), self.denied.clone());
                asked.spawn(ask(program, stamp, (shell.clone(), denied), cwd.to_owned()));
            }
        }
        if !asked.is_empty() {
            known.extend(asked.join_all().await);
            known.retain(|program, _| program.exists());
            // If this fails, programs are run again the next time.
            let _ = self.write(&known);
        }
        let help = |program| {
            known
                .get(program)
                .and_then(|kept: &CachedHelp| kept.help.clone())
        };
        programs.iter().map(help).collect()
    }

    fn read(&self) -> BTreeMap<PathBuf, CachedHelp> {
        self.file
            .as_ref()
            .and_then(|file| fs::read(file).ok())
            .and_then(|text| json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    fn write(&self, known: &BTreeMap<PathBuf, CachedHelp>) -> std::io::Result<()> {
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

async fn ask(
    program: PathBuf,
    stamp: String,
    (shell, denied): (Shell, Denied),
    cwd: PathBuf,
) -> (PathBuf, CachedHelp) {
    // Longer output is not used, so its file is removed with the folder.
    let folder = tempfile::tempdir();
    let spool = folder
        .as_ref()
        .map_or_else(|_| PathBuf::new(), |folder| folder.path().join("help"));
    let keep = Keep {
        in_memory: MOST_READ,
        ..Keep::new(spool, 0)
    };
    let line = format!("{} --help", quoted(&program));
    let line = ShellLine::new(&shell.program, &line, Behind::Nothing);
    let child = Command {
        deadline: Some(PATIENCE),
        ..shell.command(line, &cwd, keep, &[])
    };
    let help = match withheld::kept_from(child, &denied).run().await {
        Ok(outcome) if outcome.ending == Ending::Exited(0) => match outcome.output {
            Content::Bytes(bytes) => as_description(&bytes),
            Content::Spool(spool) => as_description(&spool.head),
            Content::Blocks(_) => None,
        },
        _ => None,
    };
    (program, CachedHelp { stamp, help })
}

fn as_description(output: &[u8]) -> Option<String> {
    let text: String = String::from_utf8_lossy(output)
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    let text = cut(text.trim(), LENGTH).trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the time and size of a program, which differ after it has changed.
fn stamp(program: &Path) -> String {
    let Ok(metadata) = fs::metadata(program) else {
        return String::new();
    };
    let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}:{}", since.as_nanos(), metadata.len())
}
