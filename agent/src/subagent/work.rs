//! A subagent at work: it runs to its end, below the call or beside the conversation, and says what came of it.

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{ContentBlock, ExitReason, ModelUsage, Output, Task, TaskEnding, TaskUpdate};
use serde_json::{Value, json};

use super::at_work::{AtWork, Place};
use super::relay::Relay;
use crate::{RunOutcome, Session, Stop};

/// A subagent that is ready to begin.
pub(super) struct Work {
    pub(super) session: Session,
    pub(super) prompt: Vec<ContentBlock>,
    pub(super) task: Task,
    pub(super) name: String,
    pub(super) relay: Arc<Relay>,
    pub(super) place: Place,
    pub(super) at_work: Arc<AtWork>,
    pub(super) log: PathBuf,
}

/// What came of it.
struct Ended {
    ending: TaskEnding,
    /// What it reported, or why it could not.
    text: String,
    output: Output,
    spent: Vec<ModelUsage>,
}

/// Tells that a subagent has ended, whatever ends it.
struct Teller {
    relay: Arc<Relay>,
    ended: Option<(TaskEnding, String, Vec<ModelUsage>)>,
    log: Option<PathBuf>,
}

impl Drop for Teller {
    fn drop(&mut self) {
        let stopped = || (TaskEnding::Stopped, "it was stopped".to_owned(), Vec::new());
        let (ending, summary, spent) = self.ended.take().unwrap_or_else(stopped);
        let news = TaskUpdate::Ended {
            ending,
            summary,
            output_file: self.log.take(),
            usage: self.relay.usage(),
            spent,
        };
        self.relay.sink.tell(&self.relay.task, &news);
    }
}

impl Work {
    /// Does it, or lets it go on beside the conversation.
    pub(super) async fn perform(self) -> Output {
        if !self.task.is_background {
            return self.run().await;
        }
        let (task, name) = (self.task.clone(), self.name.clone());
        let (at_work, log) = (self.at_work.clone(), self.log.display().to_string());
        // Told before it runs, so that nobody ends without it.
        self.relay.sink.tell(&task, &TaskUpdate::Started);
        let work = tokio::spawn(self.run());
        at_work.hold(&task.id, work.abort_handle());
        Output::text(format!(
            "The subagent `{name}` works in the background as {}; it writes to {log}. You are told when it has ended.",
            task.id
        ))
        .with_details(json!({
            "isAsync": true,
            "status": "async_launched",
            "agentId": task.id,
            "description": task.description,
            "outputFile": log,
        }))
    }

    async fn run(self) -> Output {
        let Self {
            mut session,
            prompt,
            task,
            name,
            relay,
            place,
            log,
            at_work,
        } = self;
        // Whoever ends them all is not kept by one of them.
        drop(at_work);
        if !task.is_background {
            relay.sink.tell(&task, &TaskUpdate::Started);
        }
        let mut teller = Teller {
            relay: relay.clone(),
            ended: None,
            log: task.is_background.then_some(log),
        };
        let stop = Stop::interrupt(place.stop.clone());
        let ended = match session.run(prompt, &stop).await {
            Ok(outcome) => Ended::of(&session, &outcome, &task, &name, &relay),
            Err(fault) => Ended {
                ending: TaskEnding::Failed,
                text: fault.to_string(),
                output: Output::error(fault.to_string()),
                spent: Vec::new(),
            },
        };
        // What it could not store is told by the session above when it stores.
        let _ = session.close("other").await;
        teller.ended = Some((ended.ending, ended.text.clone(), ended.spent));
        // Told first: who waits for its end finds the news of it.
        drop(teller);
        place.leave(ended.ending, ended.text);
        ended.output
    }
}

impl Ended {
    fn of(session: &Session, outcome: &RunOutcome, task: &Task, name: &str, relay: &Relay) -> Self {
        let id = &task.id;
        let answer = match outcome.answer.trim() {
            "" => "(it said nothing)",
            answer => answer,
        };
        let (ending, text) = match (&outcome.failure, &outcome.reason) {
            (Some(failure), _) => (TaskEnding::Failed, failure.to_string()),
            (None, ExitReason::Interrupted | ExitReason::Aborted) => {
                (TaskEnding::Stopped, "it was stopped".to_owned())
            }
            (None, reason) if reason.is_end_of_turn() => (TaskEnding::Completed, answer.to_owned()),
            (None, reason) => (
                TaskEnding::Completed,
                format!("{answer}\n\n[it did not come to its end: {reason}]"),
            ),
        };
        let how_to = format!("agentId: {id} (`resume` with this id goes on with its conversation)");
        let output = match ending {
            TaskEnding::Completed => Output::text(format!("{text}\n\n{how_to}")),
            TaskEnding::Failed | TaskEnding::Stopped => Output::error(format!(
                "The subagent `{name}` did not finish: {text}\n\n{how_to}"
            )),
        };
        let usage = relay.usage();
        let mut details = json!({
            "status": ending.as_str(),
            "agentId": id,
            "agentType": name,
            "content": [{"type": "text", "text": text}],
            "resolvedModel": session.model().name,
            "totalDurationMs": usage.duration_ms,
            "totalTokens": usage.tokens,
            "totalToolUseCount": usage.tool_uses,
            "usage": outcome.usage,
        });
        note(&mut details, task);
        ModelUsage::write_into(&mut details, &outcome.models);
        Self {
            ending,
            text,
            output: output.with_details(details),
            spent: outcome.models.clone(),
        }
    }
}

fn note(details: &mut Value, task: &Task) {
    if let ah_conversation::TaskKind::Agent { prompt, .. } = &task.kind {
        details["prompt"] = json!(prompt);
    }
}
