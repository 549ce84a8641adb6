//! Commands that run beside the conversation: asked for what they write, and ended, by the name of the tool call that
//! started them. They are the session's: what holds them goes, they go. So after a resume there are none.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{Content, Output};
use ah_process::{Child, Command, Ending};
use serde_json::json;

/// How much of a job's output is given at once.
const AT_ONCE: u64 = 256 * 1024;

/// The jobs of a session, by name.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<HashMap<String, Arc<Job>>>);

struct Job {
    child: Child,
    path: PathBuf,
    /// How much of the file was given.
    given: Mutex<u64>,
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Jobs {
    /// Starts a job; its output goes to the command's file at once.
    pub(crate) async fn start(&self, name: &str, command: Command) -> Output {
        let path = command.keep.path.clone();
        // A job of this name would take the new one's file away when it ends.
        drop(lock(&self.0).remove(name));
        let child = match command.start().await {
            Ok(child) => child,
            Err(fault) => return Output::error(fault.to_string()),
        };
        let shown = path.display().to_string();
        let job = Job {
            child,
            path,
            given: Mutex::new(0),
        };
        lock(&self.0).insert(name.to_owned(), Arc::new(job));
        Output::text(format!(
            "started in the background as job {name}; it writes to {shown}"
        ))
        .with_details(json!({ "job": name, "path": shown }))
    }

    /// Does what `request` says: `output`, `wait` or `stop`.
    pub(crate) async fn ask(&self, name: &str, request: &str, patience: Duration) -> Output {
        let job = lock(&self.0).get(name).cloned();
        let Some(job) = job else {
            return Output::error(format!(
                "there is no job {name}; if there was one, it ended with the earlier process of this session"
            ));
        };
        match request.trim() {
            "output" => {}
            "wait" => {
                // If its time is not enough, the answer says so.
                let _ = tokio::time::timeout(patience, job.child.wait()).await;
            }
            "stop" => {
                job.child.stop();
                job.child.wait().await;
            }
            other => {
                return Output::error(format!(
                    "a job is asked for `output`, `wait` or `stop`, not `{other}`"
                ));
            }
        }
        match tokio::task::spawn_blocking(move || job.news()).await {
            Ok(Ok(news)) => news.into_output(name),
            Ok(Err(fault)) => unreadable(name, &fault),
            Err(fault) => unreadable(name, &fault),
        }
    }
}

fn unreadable(name: &str, fault: &dyn std::error::Error) -> Output {
    Output::error(format!("cannot read the output of job {name}: {fault}"))
}

/// What a job has written since it was last asked.
struct News {
    bytes: Vec<u8>,
    has_more: bool,
    left_out: u64,
    ending: Option<Ending>,
}

impl Job {
    fn news(&self) -> io::Result<News> {
        // Asked before the file is read: what has ended writes no more.
        let outcome = self.child.outcome();
        let mut given = lock(&self.given);
        let (mut bytes, len, left_out) = match outcome.as_ref().map(|outcome| &outcome.output) {
            // There is no file, or none that could be written.
            Some(Content::Bytes(all)) => {
                let start = all.len().min(usize::try_from(*given).unwrap_or(usize::MAX));
                (all[start..].to_vec(), all.len() as u64, 0)
            }
            Some(Content::Spool(spool)) => {
                let (bytes, len) = self.read(*given)?;
                (bytes, len, spool.left_out)
            }
            Some(Content::Blocks(_)) | None => {
                let (bytes, len) = self.read(*given)?;
                (bytes, len, 0)
            }
        };
        let may_grow = outcome.is_none() || len > *given + bytes.len() as u64;
        if may_grow && let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
            // The rest of a line comes with the next news.
            bytes.truncate(last + 1);
        }
        *given += bytes.len() as u64;
        Ok(News {
            has_more: len > *given,
            bytes,
            left_out,
            ending: outcome.map(|outcome| outcome.ending),
        })
    }

    /// What the file has from `start` on, and how long it is.
    fn read(&self, start: u64) -> io::Result<(Vec<u8>, u64)> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // It is made with the first byte.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        (&file).take(AT_ONCE).read_to_end(&mut bytes)?;
        Ok((bytes, file.metadata()?.len()))
    }
}

impl News {
    fn into_output(self, job: &str) -> Output {
        let mut bytes = self.bytes;
        let end = match self.ending {
            None => "still running".to_owned(),
            Some(_) if self.has_more => "ended; more output follows".to_owned(),
            Some(ending) => ended(ending, self.left_out),
        };
        if bytes.is_empty() {
            bytes.extend_from_slice(b"(no new output)");
        }
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(format!("[{end}]").as_bytes());
        Output {
            content: Content::Bytes(bytes),
            is_error: !matches!(
                self.ending,
                None | Some(Ending::Exited(0) | Ending::Stopped)
            ),
            details: Some(json!({
                "job": job,
                "running": self.ending.is_none(),
                "exit_code": self.ending.map(Ending::code),
            })),
        }
    }
}

fn ended(ending: Ending, left_out: u64) -> String {
    let how = match ending {
        Ending::Exited(code) => format!("ended, exit code: {code}"),
        Ending::Killed(signal) => format!("killed by signal {signal}"),
        Ending::TimedOut(time) => format!("timed out after {} ms", time.as_millis()),
        Ending::Stopped => "stopped".to_owned(),
    };
    match left_out {
        0 => how,
        _ => format!("{how}; {left_out} bytes before the last 64 KiB were not kept"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in between leaves at worst a job that is asked for the same again.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
