//! Background commands. Each is named by the id of the tool call that started it. They end with the session, so a
//! resumed session has none.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Content, Output, Task, TaskEnding, TaskKind, TaskSink, TaskTail, TaskUpdate, TaskUsage, Tasks,
    ToolUseId,
};
use ah_process::{Child, Command, Ending};
use async_trait::async_trait;
use bstr::ByteSlice;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::details;

/// Limit for the output of a job in one answer, in bytes.
const AT_ONCE: u64 = 256 * 1024;
/// Type of such a task in the official SDKs.
const TASK_TYPE: &str = "local_bash";

/// The jobs of a session, by name.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<HashMap<String, Arc<Job>>>);

struct Job {
    child: Child,
    /// The command, as it was typed.
    line: String,
    path: PathBuf,
    /// Number of bytes of the output that were returned so far.
    given: Mutex<u64>,
    /// Reports its end, unless the job is dropped before.
    reporter: AbortHandle,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.reporter.abort();
        let _ = fs::remove_file(&self.path);
    }
}

impl Jobs {
    /// Starts `command` as a job, which writes to the command's file; `line` is the command as it was typed. Its start and
    /// its end are reported to `tasks`.
    pub(crate) async fn start(
        &self,
        call: &ToolUseId,
        line: &str,
        description: Option<String>,
        command: Command,
        tasks: &TaskSink,
    ) -> Output {
        let name = call.as_str();
        let path = command.keep.path.clone();
        // When a job is dropped, it removes its file, which would be that of the new one.
        drop(self.0.lock().remove(name));
        let child = match command.start().await {
            Ok(child) => child,
            Err(error) => return Output::error(error.to_string()),
        };
        let task = Task {
            id: name.to_owned(),
            call: call.clone(),
            description: description.unwrap_or_else(|| line.to_owned()),
            kind: TaskKind::Command,
            is_background: true,
        };
        tasks.report(&task, &TaskUpdate::Started);
        let shown = path.display().to_string();
        let job = Job {
            reporter: report_end(&child, task, path.clone(), tasks.clone()),
            child,
            line: line.to_owned(),
            path,
            given: Mutex::new(0),
        };
        self.0.lock().insert(name.to_owned(), Arc::new(job));
        Output::text(format!(
            "started in the background as job {name}; it writes to {shown}"
        ))
        .with_details(json!({
            "stdout": "",
            "stderr": "",
            "interrupted": false,
            "isImage": false,
            "backgroundTaskId": name,
            "path": shown,
        }))
    }

    /// Returns the output of the job since the last call, once it has ended or `patience` is over.
    pub(crate) async fn news(&self, name: &str, patience: Duration) -> Result<JobUpdate, String> {
        let job = self.find(name)?;
        // The update says whether it has ended.
        let _ = tokio::time::timeout(patience, job.child.wait()).await;
        update(name, job).await
    }

    /// Ends the job with all its processes; returns its output since the last call.
    pub(crate) async fn stop(&self, name: &str) -> Result<JobUpdate, String> {
        let job = self.find(name)?;
        job.child.stop();
        job.child.wait().await;
        update(name, job).await
    }

    fn find(&self, name: &str) -> Result<Arc<Job>, String> {
        self.0.lock().get(name).cloned().ok_or_else(|| {
            format!("there is no job {name}; if there was one, it ended with the earlier process of this session")
        })
    }
}

#[async_trait]
impl Tasks for Jobs {
    fn has(&self, id: &str) -> bool {
        self.0.lock().contains_key(id)
    }

    async fn output(&self, id: &str, patience: Duration) -> Output {
        match Self::news(self, id, patience).await {
            Ok(update) => update.into_output(id),
            Err(error) => Output::error(error),
        }
    }

    fn tail(&self, id: &str, bytes: u64) -> Option<TaskTail> {
        let job = self.find(id).ok()?;
        let outcome = job.child.outcome();
        if let Some(Content::Bytes(all)) = outcome.as_ref().map(|outcome| &outcome.output) {
            let start = (all.len() as u64).saturating_sub(bytes);
            return Some(TaskTail {
                text: all[usize::try_from(start).unwrap_or_default()..]
                    .to_str_lossy()
                    .into_owned(),
                total: all.len() as u64,
            });
        }
        // What cannot be read is as good as empty.
        let total = fs::metadata(&job.path).map_or(0, |file| file.len());
        let (end, total) = job.read(total.saturating_sub(bytes)).unwrap_or_default();
        Some(TaskTail {
            text: end.to_str_lossy().into_owned(),
            total,
        })
    }

    async fn stop(&self, id: &str) -> Output {
        let update = match Self::stop(self, id).await {
            Ok(update) => update,
            Err(error) => return Output::error(error),
        };
        let message = match update.ending {
            Some(Ending::Stopped) => format!("stopped task {id}: {}", update.line),
            _ => format!("task {id} had ended already: {}", update.line),
        };
        Output::text(message.as_str()).with_details(json!({
            "message": message,
            "task_id": id,
            "task_type": TASK_TYPE,
            "command": update.line,
        }))
    }
}

/// Reports the end of `child`, without keeping it running.
fn report_end(child: &Child, task: Task, path: PathBuf, tasks: TaskSink) -> AbortHandle {
    let (end, began) = (child.end(), Instant::now());
    let report = async move {
        let ending = end.await;
        let took = began.elapsed().as_millis();
        let news = TaskUpdate::Ended {
            ending: match ending {
                Ending::Exited(0) => TaskEnding::Completed,
                Ending::Stopped => TaskEnding::Stopped,
                Ending::Exited(_) | Ending::Killed(_) | Ending::TimedOut(_) => TaskEnding::Failed,
            },
            summary: ended(ending, 0),
            output_file: Some(path),
            usage: TaskUsage {
                duration_ms: u64::try_from(took).unwrap_or(u64::MAX),
                ..TaskUsage::default()
            },
            spent: Vec::new(),
        };
        tasks.report(&task, &news);
    };
    tokio::spawn(report).abort_handle()
}

async fn update(name: &str, job: Arc<Job>) -> Result<JobUpdate, String> {
    let unreadable =
        |error: &dyn std::error::Error| format!("cannot read the output of job {name}: {error}");
    match tokio::task::spawn_blocking(move || job.update()).await {
        Ok(Ok(update)) => Ok(update),
        Ok(Err(error)) => Err(unreadable(&error)),
        Err(error) => Err(unreadable(&error)),
    }
}

/// Output of a job since it was last asked, and its status.
pub(crate) struct JobUpdate {
    /// The command, as it was typed.
    pub(crate) line: String,
    /// Its ending; `None` while it runs.
    pub(crate) ending: Option<Ending>,
    bytes: Vec<u8>,
    has_more: bool,
    left_out: u64,
}

impl Job {
    fn update(&self) -> io::Result<JobUpdate> {
        // Looked up before the file is read: a job that has ended writes no more.
        let outcome = self.child.outcome();
        let mut given = self.given.lock();
        let (mut bytes, len, left_out) = match outcome.as_ref().map(|outcome| &outcome.output) {
            // There is no file, or it could not be written.
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
            // The rest of the line is left for the next update.
            bytes.truncate(last + 1);
        }
        *given += bytes.len() as u64;
        Ok(JobUpdate {
            line: self.line.clone(),
            has_more: len > *given,
            bytes,
            left_out,
            ending: outcome.map(|outcome| outcome.ending),
        })
    }

    /// Returns the bytes of the file from `start` on, and its length.
    fn read(&self, start: u64) -> io::Result<(Vec<u8>, u64)> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // The file is created with the first byte.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        (&file).take(AT_ONCE).read_to_end(&mut bytes)?;
        Ok((bytes, file.metadata()?.len()))
    }
}

impl JobUpdate {
    /// Returns whether the job has ended in failure.
    pub(crate) fn has_failed(&self) -> bool {
        !matches!(
            self.ending,
            None | Some(Ending::Exited(0) | Ending::Stopped)
        )
    }

    /// Returns the output with the status of the job `name` in the last line.
    pub(crate) fn into_output(self, name: &str) -> Output {
        let details = self.details(name);
        let end = match self.ending {
            None => "still running".to_owned(),
            Some(_) if self.has_more => "ended; more output follows".to_owned(),
            Some(ending) => ended(ending, self.left_out),
        };
        let mut bytes = self.bytes;
        if bytes.is_empty() {
            bytes.extend_from_slice(b"(no new output)");
        }
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(format!("[{end}]").as_bytes());
        Output {
            content: Content::Bytes(bytes),
            is_error: false,
            details: Some(details),
        }
    }

    fn details(&self, name: &str) -> Value {
        let (retrieval, status) = match self.ending {
            None => ("not_ready", "running"),
            Some(Ending::Stopped) => ("success", "killed"),
            Some(_) if self.has_failed() => ("success", "failed"),
            Some(_) => ("success", "completed"),
        };
        json!({
            "retrieval_status": retrieval,
            "task": {
                "task_id": name,
                "task_type": TASK_TYPE,
                "status": status,
                "description": self.line,
                "output": details::start(&self.bytes.to_str_lossy()),
                "exitCode": self.ending.map(Ending::code),
            },
        })
    }
}

fn ended(ending: Ending, left_out: u64) -> String {
    let how = match ending {
        Ending::Exited(code) => format!("ended, exit code: {code}"),
        Ending::Killed(signal) => format!("killed by signal {signal}"),
        Ending::TimedOut(time) => format!("timed out after {} ms", time.as_millis()),
        Ending::Stopped => "stopped".to_owned(),
    };
    if left_out == 0 {
        how
    } else {
        format!("{how}; {left_out} bytes before the last 64 KiB were not kept")
    }
}
