//! Calls that a server carries out as a task: asked about until it has ended, shown as progress, and cancelled when the
//! call is dropped.

use std::time::Duration;

use ah_conversation::{Progress, ProgressSink};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolResult, CancelTaskParams, GetTaskParams, Task, TaskPayload, UpdateTaskParams,
};
use rmcp::service::Peer;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::remote::explain::explain;
use crate::remote::link::ServerLink;
use crate::remote::name::clean_line;
use crate::remote::rounds;

/// Time between two questions about a task, if its server names none.
const USUAL_INTERVAL: u64 = 1_000;
/// Limits of the time that a server names, in milliseconds.
const INTERVALS: (u64, u64) = (100, 30_000);
/// Failed questions in a row after which a task is given up.
const MOST_FAILURES: u32 = 3;

/// Follows a task to its end. There is no limit to its time: a task is for what takes long.
///
/// # Errors
///
/// If it failed, or its server no longer answers within `patience`; the text is for the model.
pub(crate) async fn follow(
    link: &ServerLink,
    mut task: Task,
    progress: &ProgressSink,
    patience: Duration,
) -> Result<CallToolResult, String> {
    let (started, mut failures) = (Instant::now(), 0);
    let mut server = link.connected().await?;
    let mut cancel = CancelOnDrop(Some((server.peer.clone(), task.task_id.clone())));
    loop {
        let message = task.status_message.as_deref().unwrap_or("task");
        progress.report(Progress {
            done: started.elapsed().as_secs_f64().round(),
            total: None,
            message: Some(clean_line(message, 500)),
        });
        let interval = task.poll_interval_ms.unwrap_or(USUAL_INTERVAL);
        sleep(Duration::from_millis(
            interval.clamp(INTERVALS.0, INTERVALS.1),
        ))
        .await;
        let question = server.peer.get_task(GetTaskParams::new(&*task.task_id));
        let answer = match timeout(patience, question).await {
            Ok(Ok(answer)) => answer.task,
            Ok(Err(error)) if failures + 1 == MOST_FAILURES => {
                return Err(explain(&error, server.error_tail.fault()));
            }
            Err(_) if failures + 1 == MOST_FAILURES => {
                return Err("the server no longer answers about its task".to_owned());
            }
            Ok(Err(_)) | Err(_) => {
                failures += 1;
                // The task may outlive the connection.
                server = link.connected().await?;
                cancel.0 = Some((server.peer.clone(), task.task_id.clone()));
                continue;
            }
        };
        failures = 0;
        match answer.payload {
            TaskPayload::InputRequired { input_requests } => {
                let answers = rounds::answers(input_requests, &server.answers).await?;
                let params = UpdateTaskParams::new(&*task.task_id, answers);
                let updated = timeout(patience, server.peer.update_task(params)).await;
                if let Ok(Err(error)) = updated {
                    return Err(explain(&error, server.error_tail.fault()));
                }
            }
            payload => {
                if let Some(end) = end(payload) {
                    cancel.0 = None;
                    return end;
                }
            }
        }
        task = answer.task;
    }
}

/// Returns the end of a task; `None` while it goes on.
fn end(payload: TaskPayload) -> Option<Result<CallToolResult, String>> {
    match payload {
        TaskPayload::Completed { result } => {
            let result = serde_json::from_value(Value::Object(result));
            Some(result.map_err(|_| "the task's result is not a tool result".to_owned()))
        }
        TaskPayload::Failed { error } => {
            let message = error.get("message").and_then(Value::as_str);
            let text =
                message.map_or_else(|| Value::Object(error.clone()).to_string(), str::to_owned);
            Some(Err(clean_line(&text, 4_000)))
        }
        TaskPayload::Cancelled => Some(Err("the server cancelled the task".to_owned())),
        _ => None,
    }
}

/// Cancels a task when dropped.
struct CancelOnDrop(Option<(Peer<RoleClient>, String)>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some((peer, id)), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            // It fails if the server is gone, and then there is nothing to cancel.
            let _ = peer.cancel_task(CancelTaskParams::new(id)).await;
        });
    }
}
