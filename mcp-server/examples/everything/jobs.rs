//! Tools of the suite that become tasks. Those that a run of the engine can be are runs, so that the suite looks at the engine's
//! own tasks; the others do what no run does.

use std::collections::BTreeMap;
use std::time::Duration;

use ah_conversation::{Choice, ChoiceOption, Question};
use ah_desk::{Ended, RunEvent, Running};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateTaskResult, InputRequest, InputResponses,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::contents::of_json;
use crate::rounds;

/// All of them.
pub const TOOLS: [&str; 7] = [
    "greet",
    "slow_compute",
    "failing_job",
    "confirm_delete",
    "protocol_error_job",
    "multi_input",
    "test_tool_with_task",
];
/// Those that are runs.
const RUNS: [&str; 3] = ["slow_compute", "failing_job", "confirm_delete"];

/// Returns the call of a run that does what this call asks for, if a run does it.
///
/// # Errors
///
/// If it has to be a task, and the client knows none.
pub fn as_run(
    request: &CallToolRequestParams,
    known: Option<&ClientCapabilities>,
) -> Result<Option<CallToolRequestParams>, ErrorData> {
    let is_task = known.is_some_and(ClientCapabilities::supports_tasks);
    if request.name == "failing_job" && !is_task {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    }
    if !RUNS.contains(&&*request.name) {
        return Ok(None);
    }
    let prompt = json!({"job": request.name, "arguments": request.arguments}).to_string();
    let mut run = request.clone();
    run.name = "run".into();
    run.arguments = Some(Map::from_iter([("prompt".to_owned(), prompt.into())]));
    Ok(Some(run))
}

/// Begins a run, whose prompt is one of the calls above, or words to be repeated.
pub fn begin(prompt: String) -> Running {
    let (events, receiver) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    tokio::spawn(work(prompt, events, stop.clone()));
    Running {
        events: receiver,
        stop,
    }
}

async fn work(prompt: String, events: mpsc::UnboundedSender<RunEvent>, stop: CancellationToken) {
    let told = |event| {
        // Nobody listens to a run that was dropped.
        let _ = events.send(event);
    };
    told(RunEvent::Began("01".to_owned()));
    let job: Value = serde_json::from_str(&prompt).unwrap_or_default();
    let ended = match job["job"].as_str() {
        Some("slow_compute") => {
            let time = Duration::from_secs_f64(job["arguments"]["seconds"].as_f64().unwrap_or(1.0));
            let is_stopped = tokio::time::timeout(time, stop.cancelled()).await.is_ok();
            Ended {
                text: "computed".to_owned(),
                is_stopped,
                ..Ended::default()
            }
        }
        Some("failing_job") => Ended {
            text: "it fails".to_owned(),
            is_error: true,
            ..Ended::default()
        },
        Some("confirm_delete") => {
            let (answer, answered) = oneshot::channel();
            told(RunEvent::Asked(confirmation(), answer));
            let answers: Option<BTreeMap<String, String>> = tokio::select! {
                answers = answered => answers.ok().flatten(),
                () = stop.cancelled() => None,
            };
            Ended {
                text: format!("answered: {answers:?}"),
                is_stopped: stop.is_cancelled(),
                ..Ended::default()
            }
        }
        _ => Ended {
            text: prompt,
            ..Ended::default()
        },
    };
    told(RunEvent::Ended(ended));
}

fn confirmation() -> Question {
    let option = |label: &str| ChoiceOption {
        label: label.to_owned(),
        description: String::new(),
    };
    Question {
        about: String::new(),
        choices: vec![Choice {
            question: "Delete it?".to_owned(),
            header: "Delete".to_owned(),
            options: vec![option("yes"), option("no")],
            is_multiple: false,
        }],
        is_permission: false,
        proposal: None,
    }
}

/// Answers a call that no run is; `None` if it is not one of them.
///
/// # Errors
///
/// If a question cannot be made.
pub fn called(
    request: &CallToolRequestParams,
    tasks: &TaskManager,
) -> Result<Option<CallToolResponse>, ErrorData> {
    let none = InputResponses::new();
    let responses = request.input_responses.as_ref().unwrap_or(&none);
    let name = rounds::elicits("What is your name?", "name", "string");
    Ok(Some(match &*request.name {
        "greet" => {
            let arguments = request.arguments.clone().unwrap_or_default();
            let name = arguments.get("name").and_then(Value::as_str);
            said(&format!("Hello, {}!", name.unwrap_or_default())).into()
        }
        "header_tool" => said("here").into(),
        "protocol_error_job" => spawned(tasks, |_| async {
            let error = ErrorData::internal_error("the job has crashed", None);
            Err(TaskExit::Error(error))
        }),
        "multi_input" => {
            let (first, second): (InputRequest, InputRequest) =
                (of_json(name.clone())?, of_json(name)?);
            spawned(tasks, |task| async move {
                let asked = [("first", first), ("second", second)];
                let asked = asked.map(|(key, request)| task.request_input(key, request));
                let [first, second] = asked;
                let (first, second) = tokio::join!(first, second);
                Ok(said(&format!("{} {}", first?, second?)))
            })
        }
        "test_tool_with_task" => match responses.get("user_name") {
            None => rounds::required(json!({"user_name": name}), None)?.into(),
            Some(answer) => {
                let name = answer["content"]["name"].as_str().unwrap_or_default();
                let text = format!("Hello, {name}!");
                spawned(tasks, |_| async move { Ok(said(&text)) })
            }
        },
        _ => return Ok(None),
    }))
}

fn said(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn spawned<W>(tasks: &TaskManager, work: impl FnOnce(TaskContext) -> W) -> CallToolResponse
where
    W: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
{
    let options = TaskOptions::new().with_poll_interval_ms(100);
    let task = tasks.spawn(options, |task| Box::pin(work(task)));
    CallToolResponse::Task(CreateTaskResult::new(task))
}
