//! Run of a subagent, below the call or in the background, and its result.

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, ExitReason, ModelUsage, Output, StoreError, Task, TaskEnding, TaskUpdate,
};
use serde_json::{Value, json};

use super::isolation::OwnPlace;
use super::registry::{Slot, SubagentRegistry};
use super::relay::Relay;
use crate::background::{LAUNCHED, TEAMMATE};
use crate::moments::MAX_DEMANDS;
use crate::team::Seat;
use crate::{RunOutcome, Session, Stop};

/// Between a subagent's report and its id, which the model needs to go on with it.
const ID: &str = "agentId: ";
const HOW_TO: &str = " (`resume` with this id continues its conversation)";

/// Returns the report of a subagent without the id, which is meant for the model.
pub fn without_agent_id(report: &str) -> &str {
    let rest = report.trim_end().strip_suffix(HOW_TO);
    match rest.and_then(|rest| rest.rsplit_once(ID)) {
        Some((text, id)) if id.bytes().all(|byte| byte.is_ascii_alphanumeric()) => text.trim_end(),
        _ => report,
    }
}

/// A subagent ready to run.
pub(super) struct SubagentRun {
    pub(super) session: Session,
    pub(super) prompt: Vec<ContentBlock>,
    pub(super) task: Task,
    pub(super) name: String,
    pub(super) relay: Arc<Relay>,
    pub(super) slot: Slot,
    pub(super) registry: Arc<SubagentRegistry>,
    pub(super) log: PathBuf,
    /// The folder that it has for itself.
    pub(super) place: Option<Box<dyn OwnPlace>>,
    /// Its place in a team, if it is a teammate.
    pub(super) seat: Option<Seat>,
}

/// Result of a subagent.
struct SubagentResult {
    ending: TaskEnding,
    /// Its report, or the error.
    text: String,
    output: Output,
    spent: Vec<ModelUsage>,
}

/// Reports the end of a subagent when dropped, however it ends.
struct EndReporter {
    relay: Arc<Relay>,
    ended: Option<(TaskEnding, String, Vec<ModelUsage>)>,
    log: Option<PathBuf>,
}

impl Drop for EndReporter {
    fn drop(&mut self) {
        let stopped = || (TaskEnding::Stopped, "it was stopped".to_owned(), Vec::new());
        let (ending, summary, spent) = self.ended.take().unwrap_or_else(stopped);
        let update = TaskUpdate::Ended {
            ending,
            summary,
            output_file: self.log.take(),
            usage: self.relay.usage(),
            spent,
        };
        self.relay.sink.report(&self.relay.task, &update);
    }
}

impl SubagentRun {
    /// Runs it, or starts it in the background.
    pub(super) async fn start(self) -> Output {
        if !self.task.is_background {
            return self.run().await;
        }
        let (task, name) = (self.task.clone(), self.name.clone());
        let (registry, log) = (self.registry.clone(), self.log.display().to_string());
        let (who, when) = match &self.seat {
            Some(seat) => (
                format!("{TEAMMATE}`{}`", seat.name()),
                "at the end of each turn, after which it is idle until somebody writes to it",
            ),
            None => (format!("The subagent `{name}`"), "when it has ended"),
        };
        // Reported before it runs, so that the start always comes before the end.
        self.relay.sink.report(&task, &TaskUpdate::Started);
        let run = tokio::spawn(self.run());
        registry.set_handle(&task.id, run.abort_handle());
        Output::text(format!(
            "{who} works in the background as {}; it writes to {log}. You are told {when}.",
            task.id
        ))
        .with_details(json!({
            "isAsync": true,
            "status": LAUNCHED,
            "agentId": task.id,
            "description": task.description,
            "outputFile": log,
        }))
    }

    async fn run(self) -> Output {
        let Self {
            mut session,
            mut prompt,
            task,
            name,
            relay,
            slot,
            log,
            registry,
            mut place,
            seat,
        } = self;
        // Otherwise a subagent would keep the registry that aborts it alive.
        drop(registry);
        if !task.is_background {
            relay.sink.report(&task, &TaskUpdate::Started);
        }
        let stop = Stop::interrupt(slot.stop.clone());
        loop {
            let mut reporter = EndReporter {
                relay: relay.clone(),
                ended: None,
                log: task.is_background.then(|| log.clone()),
            };
            let ran = turn(
                &mut session,
                std::mem::take(&mut prompt),
                seat.as_ref(),
                &stop,
            )
            .await;
            let has_place = place.is_some();
            let left = match place.take() {
                Some(place) => place.leave().await,
                None => None,
            };
            let stopped = session.stop_subagents().await;
            let result = match ran {
                Ok(mut outcome) => {
                    for left in { left.into_iter() }
                        .chain(session.conflicts())
                        .chain(stopped)
                    {
                        outcome.answer = format!("{}\n\n{left}", outcome.answer.trim_end());
                    }
                    if !task.is_background {
                        session.spending.told_by(&task.id, &task.call);
                    }
                    SubagentResult::of(&session, &outcome, &task, &name, &relay)
                }
                Err(error) => SubagentResult::lost(&error, &task.id),
            };
            reporter.ended = Some((result.ending, result.text.clone(), result.spent));
            // Reported first, so that a caller waiting for the end finds the update.
            let report = || {
                drop(reporter);
                slot.report(result.ending, result.text);
            };
            // The parent session reports storage errors itself.
            match &seat {
                Some(seat) if result.ending != TaskEnding::Stopped => {
                    if !seat.rest(&slot.stop, report).await {
                        let _ = session.close("other").await;
                        return result.output;
                    }
                }
                _ => {
                    let _ = session.close("other").await;
                    if has_place {
                        relay.stop_commands();
                    }
                    report();
                    return result.output;
                }
            }
            slot.works();
        }
    }
}

/// Runs a prompt, or what a teammate was written, until neither the model nor a hook has more to do.
async fn turn(
    session: &mut Session,
    prompt: Vec<ContentBlock>,
    seat: Option<&Seat>,
    stop: &Stop,
) -> Result<RunOutcome, StoreError> {
    let mut outcome = match prompt.is_empty() {
        true => session.run_mail(stop).await?,
        false => Some(session.run(prompt, stop).await?),
    }
    .unwrap_or_else(|| RunOutcome::new(ExitReason::EndTurn));
    let Some(seat) = seat else {
        return Ok(outcome);
    };
    for _ in 0..MAX_DEMANDS {
        if !outcome.reason.is_end_of_turn() || outcome.failure.is_some() {
            break;
        }
        let Some(demand) = seat.demand(session).await else {
            break;
        };
        let before = outcome;
        outcome = session.run(vec![demand], stop).await?;
        for usage in before.models {
            ModelUsage::add(&mut outcome.models, usage);
        }
    }
    Ok(outcome)
}

impl SubagentResult {
    /// Returns that of a subagent whose conversation could not be stored.
    fn lost(error: &StoreError, id: &str) -> Self {
        let text = format!("{error}\n\nCalls that it was making may have run.");
        Self {
            ending: TaskEnding::Failed,
            output: Output::error(format!("{text}\n\n{ID}{id}{HOW_TO}")),
            text,
            spent: Vec::new(),
        }
    }

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
                format!("{answer}\n\n[it did not finish: {reason}]"),
            ),
        };
        let how_to = format!("{ID}{id}{HOW_TO}");
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
