//! The `check` tool: the model has the check of its run (`--until`) run while it works, and not only when it ends its turn.
//!
//! It is there for sessions that begin with a check; the check can be another one later, or none (`/goal`). How it runs is left
//! to the port [`Check`]. A slow one runs beside the model, as a background task of the call.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_conversation::{
    Access, Check, CheckInForce, CheckRun, Context, Input, Output, Task, TaskEnding, TaskKind,
    TaskSink, TaskTail, TaskUpdate, TaskUsage, Tasks, Tool, ToolExtras, ToolSpec, ToolUse,
    Truncation,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

/// Argument that lets the model go on while the check runs.
const BACKGROUND: &str = "background";

/// The tool.
pub struct CheckTool {
    spec: ToolSpec,
    check: CheckInForce,
    project: PathBuf,
    beside: Arc<Beside>,
}

impl CheckTool {
    /// Returns the tool for a check of the project.
    pub fn new(check: CheckInForce, project: PathBuf) -> Self {
        let description = "Runs the check of the end of your turn on a copy of the project; says why if it fails. In the sandbox, \
                           not rerun until a file changes.";
        let background = "return at once; its end is reported";
        let schema = json!({
            "type": "object",
            "properties": {BACKGROUND: {"type": "boolean", "description": background}},
            "additionalProperties": false,
        });
        Self {
            spec: ToolSpec {
                name: "check".to_owned(),
                description: description.to_owned(),
                input_schema: Arc::new(schema),
                guidance: None,
                truncation: Truncation::DEFAULT,
                key: None,
            },
            check,
            project,
            beside: Arc::default(),
        }
    }
}

#[async_trait]
impl Tool for CheckTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// It waits for those that write the files.
    fn access(&self, _: &Input) -> Vec<Access> {
        vec![Access::Read(self.project.clone())]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            tasks: Some(self.beside.clone()),
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let Some(check) = self.check.get() else {
            return Output::text("There is no check any more: the user has ended it.".to_owned());
        };
        if call.input.get(BACKGROUND) == Some(&true.into()) {
            return self.beside.start(check, call, &context.tasks).await;
        }
        let run = check.run_asked(Box::new(|| {})).await;
        Output::text(account(&*check, &run))
    }
}

/// Returns what the model reads of a run.
fn account(check: &dyn Check, run: &CheckRun) -> String {
    let (command, took, ending) = (check.command(), run.duration_ms, &run.ending);
    let known = match run.is_known {
        true => " No file has changed since, so it was not rerun.",
        false => "",
    };
    match run.is_passed {
        true => format!("`{command}` passed: {ending}, after {took} ms.{known}"),
        false => format!(
            "`{command}` did not pass: {ending}, after {took} ms.{known}{}",
            run.account()
        ),
    }
}

/// The checks that run beside the model, and those that did, by the ids of their calls. They end with the session.
#[derive(Default)]
struct Beside(Mutex<HashMap<String, Job>>);

struct Job {
    task: Task,
    tasks: TaskSink,
    runs: AbortHandle,
    /// What the model reads of it, once it has ended.
    ended: watch::Receiver<Option<String>>,
    is_stopped: bool,
}

impl Job {
    fn has_ended(&self) -> bool {
        self.is_stopped || self.runs.is_finished() || self.ended.borrow().is_some()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.runs.abort();
    }
}

impl Beside {
    /// Starts a check; returns once it has taken the files. While one runs, another would have to wait for its end.
    async fn start(&self, check: Arc<dyn Check>, call: &ToolUse, tasks: &TaskSink) -> Output {
        match self.spawned(check, call, tasks) {
            Ok(taken) => {
                // If it has ended without taking them, it says why.
                let _ = taken.await;
                Output::text(format!(
                    "The check runs in the background as job {}, on the files as they are now; you are told when it has ended.",
                    call.id
                ))
            }
            Err(id) => Output::text(format!(
                "No check was started: job {id} still runs, on the files as they were then; you are told when it has ended."
            )),
        }
    }

    /// Starts a check; returns what is told once it has taken the files, or the id of the one that still runs.
    fn spawned(
        &self,
        check: Arc<dyn Check>,
        call: &ToolUse,
        tasks: &TaskSink,
    ) -> Result<oneshot::Receiver<()>, String> {
        let mut jobs = self.0.lock();
        if let Some((id, _)) = jobs.iter().find(|(_, job)| !job.has_ended()) {
            return Err(id.clone());
        }
        let id = call.id.to_string();
        let task = Task {
            id: id.clone(),
            call: call.id.clone(),
            description: check.command().to_owned(),
            kind: TaskKind::Command,
            is_background: true,
        };
        tasks.report(&task, &TaskUpdate::Started);
        let (take, taken) = oneshot::channel();
        let (end, text) = watch::channel(None);
        let (started, sink) = (task.clone(), tasks.clone());
        let runs = tokio::spawn(async move {
            let began = Instant::now();
            let taken = move || {
                // Whoever waits for it may be gone.
                let _ = take.send(());
            };
            let run = check.run_asked(Box::new(taken)).await;
            let text = account(&*check, &run);
            end.send_replace(Some(text.clone()));
            sink.report(&started, &ended(Some(&run), text, began.elapsed()));
        });
        let job = Job {
            task,
            tasks: tasks.clone(),
            runs: runs.abort_handle(),
            ended: text,
            is_stopped: false,
        };
        jobs.insert(id, job);
        Ok(taken)
    }
}

/// Returns the report of a check that has ended, or was stopped.
fn ended(run: Option<&CheckRun>, summary: String, took: Duration) -> TaskUpdate {
    TaskUpdate::Ended {
        ending: match run.map(|run| run.is_passed) {
            None => TaskEnding::Stopped,
            Some(true) => TaskEnding::Completed,
            Some(false) => TaskEnding::Failed,
        },
        summary,
        output_file: run.and_then(|run| run.output.clone()),
        usage: TaskUsage {
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            ..TaskUsage::default()
        },
        spent: Vec::new(),
    }
}

#[async_trait]
impl Tasks for Beside {
    fn has(&self, id: &str) -> bool {
        self.0.lock().contains_key(id)
    }

    async fn output(&self, id: &str, patience: Duration) -> Output {
        let Some(mut ended) = self.0.lock().get(id).map(|job| job.ended.clone()) else {
            return Output::error(format!("there is no job {id}"));
        };
        let end = ended.wait_for(Option::is_some);
        let text = match tokio::time::timeout(patience, end).await {
            Err(_) => "It still runs.".to_owned(),
            Ok(Err(_)) => "It was stopped.".to_owned(),
            Ok(Ok(text)) => text.clone().unwrap_or_default(),
        };
        Output::text(text)
    }

    fn tail(&self, _: &str, _: u64) -> Option<TaskTail> {
        None
    }

    async fn stop(&self, id: &str) -> Output {
        let mut jobs = self.0.lock();
        let Some(job) = jobs.get_mut(id) else {
            return Output::error(format!("there is no job {id}"));
        };
        if job.has_ended() {
            return Output::text(format!("task {id} had ended already"));
        }
        job.runs.abort();
        job.is_stopped = true;
        let text = "It was stopped.".to_owned();
        job.tasks
            .report(&job.task, &ended(None, text, Duration::ZERO));
        Output::text(format!("stopped task {id}"))
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::Taken;
    use tokio::sync::Notify;

    use super::*;

    /// Goes on once it is told.
    #[derive(Debug, Default)]
    struct Slow(Notify);

    #[async_trait]
    impl Check for Slow {
        fn command(&self) -> &'static str {
            "make test"
        }

        fn most(&self) -> usize {
            1
        }

        async fn run(&self) -> CheckRun {
            CheckRun::default()
        }

        async fn run_asked(&self, taken: Taken) -> CheckRun {
            taken();
            self.0.notified().await;
            CheckRun {
                is_passed: true,
                ending: "exit 0".to_owned(),
                ..CheckRun::default()
            }
        }
    }

    fn call(id: &str) -> ToolUse {
        ToolUse {
            id: id.into(),
            name: "check".to_owned(),
            input: json!({BACKGROUND: true}).into(),
        }
    }

    #[tokio::test]
    async fn a_check_runs_beside_the_model() {
        let slow = Arc::new(Slow::default());
        let check: Arc<dyn Check> = slow.clone();
        let tool = CheckTool::new(Some(check).into(), "/".into());
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut context = Context::new("/".into());
        context.tasks = TaskSink::new({
            let told = told.clone();
            move |task, update| {
                let word = match update {
                    TaskUpdate::Ended { ending, .. } => ending.as_str(),
                    _ => "started",
                };
                told.lock().push(format!("{} {word}", task.id));
            }
        });
        let tasks = tool.extras().tasks.unwrap();
        // Each returns while a check runs; what is stopped does not run any more.
        for (id, begin) in [
            ("a", "The check runs in the background as job a"),
            ("b", "No check was started: job a still runs"),
            ("c", "The check runs in the background as job c"),
        ] {
            if id == "c" {
                tasks.stop("a").await;
            }
            let output = tool.run(&call(id), &context).await.content.text();
            assert!(output.starts_with(begin), "{output}");
        }
        assert_eq!(
            tasks.output("c", Duration::ZERO).await.content.text(),
            "It still runs."
        );
        slow.0.notify_one();
        let long = Duration::from_secs(60);
        let output = tasks.output("c", long).await.content.text();
        assert_eq!(output, "`make test` passed: exit 0, after 0 ms.");
        assert_eq!(
            tasks.output("a", long).await.content.text(),
            "It was stopped."
        );
        let told = told.lock().clone();
        assert_eq!(told[..3], ["a started", "a stopped", "c started"]);
    }
}
