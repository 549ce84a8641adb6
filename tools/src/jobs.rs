//! Commands that run beside the conversation: asked for what they write, and ended, by the name of the tool call that
//! started them. They are the session's: what holds them goes, they go. So after a resume there are none.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{
    Content, Output, Task, TaskEnding, TaskKind, TaskSink, TaskUpdate, TaskUsage, Tasks, ToolUseId,
};
use ah_process::{Child, Command, Ending};
use async_trait::async_trait;
use bstr::ByteSlice;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::details;

/// How much of a job's output is given at once.
const AT_ONCE: u64 = 256 * 1024;
/// What hosts of the official SDKs know such a job as.
const TASK_TYPE: &str = "local_bash";

/// The jobs of a session, by name.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<HashMap<String, Arc<Job>>>);

struct Job {
    child: Child,
    /// The command, as it was typed.
    line: String,
    path: PathBuf,
    /// How much of the file was given.
    given: Mutex<u64>,
    /// Tells of its end, to whoever is there as long as the job is.
    teller: AbortHandle,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.teller.abort();
        let _ = fs::remove_file(&self.path);
    }
}

impl Jobs {
    /// Starts `command` as a job, whose output goes to the command's file at once; `line` is what was typed. `tasks` is
    /// told when it begins and when it has ended.
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
        // A job of this name would take the new one's file away when it ends.
        drop(lock(&self.0).remove(name));
        let child = match command.start().await {
            Ok(child) => child,
            Err(fault) => return Output::error(fault.to_string()),
        };
        let task = Task {
            id: name.to_owned(),
            call: call.clone(),
            description: description.unwrap_or_else(|| line.to_owned()),
            kind: TaskKind::Command,
            is_background: true,
        };
        tasks.tell(&task, &TaskUpdate::Started);
        let shown = path.display().to_string();
        let job = Job {
            teller: tell_the_end(&child, task, path.clone(), tasks.clone()),
            child,
            line: line.to_owned(),
            path,
            given: Mutex::new(0),
        };
        lock(&self.0).insert(name.to_owned(), Arc::new(job));
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

    /// What the job has written since it was last asked, at once or when it has ended or `patience` is over.
    pub(crate) async fn news(&self, name: &str, patience: Duration) -> Result<News, String> {
        let job = self.find(name)?;
        // If its time is not enough, the news say so.
        let _ = tokio::time::timeout(patience, job.child.wait()).await;
        told(name, job).await
    }

    /// Ends the job and all that it started; what it has written since it was last asked.
    pub(crate) async fn stop(&self, name: &str) -> Result<News, String> {
        let job = self.find(name)?;
        job.child.stop();
        job.child.wait().await;
        told(name, job).await
    }

    fn find(&self, name: &str) -> Result<Arc<Job>, String> {
        lock(&self.0).get(name).cloned().ok_or_else(|| {
            format!("there is no job {name}; if there was one, it ended with the earlier process of this session")
        })
    }
}

#[async_trait]
impl Tasks for Jobs {
    fn has(&self, id: &str) -> bool {
        lock(&self.0).contains_key(id)
    }

    async fn output(&self, id: &str, patience: Duration) -> Output {
        let news = Self::news(self, id, patience).await;
        news.map_or_else(Output::error, |news| news.into_output(id))
    }

    async fn stop(&self, id: &str) -> Output {
        let news = match Self::stop(self, id).await {
            Ok(news) => news,
            Err(fault) => return Output::error(fault),
        };
        let message = match news.ending {
            Some(Ending::Stopped) => format!("stopped task {id}: {}", news.line),
            _ => format!("task {id} had ended already: {}", news.line),
        };
        Output::text(message.as_str()).with_details(json!({
            "message": message,
            "task_id": id,
            "task_type": TASK_TYPE,
            "command": news.line,
        }))
    }
}

/// Waits for the end of `child`, which this does not keep running, and tells of it.
fn tell_the_end(child: &Child, task: Task, path: PathBuf, tasks: TaskSink) -> AbortHandle {
    let (end, began) = (child.end(), Instant::now());
    let telling = async move {
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
        tasks.tell(&task, &news);
    };
    tokio::spawn(telling).abort_handle()
}

async fn told(name: &str, job: Arc<Job>) -> Result<News, String> {
    let unreadable =
        |fault: &dyn std::error::Error| format!("cannot read the output of job {name}: {fault}");
    match tokio::task::spawn_blocking(move || job.news()).await {
        Ok(Ok(news)) => Ok(news),
        Ok(Err(fault)) => Err(unreadable(&fault)),
        Err(fault) => Err(unreadable(&fault)),
    }
}

/// What a job has written since it was last asked.
pub(crate) struct News {
    /// The command, as it was typed.
    pub(crate) line: String,
    /// How it ended; `None` while it runs.
    pub(crate) ending: Option<Ending>,
    bytes: Vec<u8>,
    has_more: bool,
    left_out: u64,
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
            line: self.line.clone(),
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
    /// Whether the job has ended in another way than it should.
    pub(crate) fn has_failed(&self) -> bool {
        !matches!(
            self.ending,
            None | Some(Ending::Exited(0) | Ending::Stopped)
        )
    }

    /// The news, with how the job `name` fares in the last line.
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
    match left_out {
        0 => how,
        _ => format!("{how}; {left_out} bytes before the last 64 KiB were not kept"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in between leaves at worst a job that is asked for the same again.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
