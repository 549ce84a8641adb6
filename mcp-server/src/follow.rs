//! A run, followed until it ends or waits for an answer that this call cannot get.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_conversation::Question;
use ah_desk::{Ended, RunEvent, Running};
use parking_lot::Mutex;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::task_manager::TaskContext;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::caller::{Caller, Way};
use crate::question::{filled_in, listed};

/// A run that waits for an answer.
pub(crate) struct Waiting {
    run: Run,
    pub(crate) question: Question,
    answer: oneshot::Sender<Option<BTreeMap<String, String>>>,
}

impl Waiting {
    /// Answers the question, with `None` if nobody does; the run goes on.
    pub(crate) fn answer(self, answers: Option<BTreeMap<String, String>>) -> Run {
        // A run that was stopped takes no answer; its end comes.
        let _ = self.answer.send(answers);
        self.run
    }

    /// Returns the id of the session.
    pub(crate) fn session(&self) -> &str {
        &self.run.session
    }
}

/// A run in progress.
pub(crate) struct Run {
    running: Running,
    /// Session that was asked for; empty for a new one.
    wanted: String,
    /// Session of the run; empty until it has begun.
    session: String,
    /// Number of questions so far.
    questions: u32,
    stops: Arc<Stops>,
}

/// What follows from a run.
pub(crate) enum Outcome {
    /// It has ended.
    Ended(CallToolResult),
    /// It waits.
    Waiting(Box<Waiting>),
}

/// The ends of all runs, by session.
#[derive(Default)]
pub(crate) struct Stops(Mutex<BTreeMap<String, CancellationToken>>);

impl Stops {
    /// Interrupts the run of a session; returns whether there is one.
    pub(crate) fn stop(&self, session: &str) -> bool {
        let stops = self.0.lock();
        let stop = stops.get(session);
        stop.inspect(|stop| stop.cancel()).is_some()
    }

    /// Whether there is a run of a session.
    pub(crate) fn has(&self, session: &str) -> bool {
        let stops = self.0.lock();
        stops.contains_key(session)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut stops = self.stops.0.lock();
        stops.remove(&self.session);
    }
}

impl Run {
    /// Begins to follow a run of the session `wanted`, of a new one if that is empty.
    pub(crate) fn new(running: Running, wanted: String, stops: Arc<Stops>) -> Self {
        Self {
            running,
            wanted,
            session: String::new(),
            questions: 0,
            stops,
        }
    }

    /// Returns what interrupts the run; its end still comes.
    pub(crate) fn stopper(&self) -> CancellationToken {
        self.running.stop.clone()
    }

    /// Follows the run until it ends, or asks what `caller` cannot be asked now.
    pub(crate) async fn follow(mut self, caller: &Caller, task: Option<&TaskContext>) -> Outcome {
        loop {
            match self.running.events.recv().await {
                Some(RunEvent::Began(session)) => self.begun(session),
                Some(RunEvent::Step(step)) => caller.tell(&step, task).await,
                // Callers have no place for it.
                Some(
                    RunEvent::Answering
                    | RunEvent::Piece(_)
                    | RunEvent::Model(_)
                    | RunEvent::Mode(_)
                    | RunEvent::Called(_)
                    | RunEvent::Returned(_),
                ) => {}
                Some(RunEvent::Asked(question, answer)) => {
                    self.questions += 1;
                    let is_kept = match caller.way {
                        Way::Rounds => true,
                        Way::No => !question.is_permission,
                        Way::Request(_) | Way::Task(_) => false,
                    };
                    if is_kept {
                        return Outcome::Waiting(Box::new(Waiting {
                            run: self,
                            question,
                            answer,
                        }));
                    }
                    let stop = self.running.stop.clone();
                    let filled = tokio::select! {
                        filled = caller.ask(&question, self.questions) => filled,
                        () = stop.cancelled() => None,
                    };
                    let answers = filled.and_then(|filled| filled_in(&question, &filled));
                    // A run that was stopped takes no answer.
                    let _ = answer.send(answers);
                }
                Some(RunEvent::Ended(ended)) => {
                    return Outcome::Ended(result(&self.session, &ended));
                }
                Some(RunEvent::Refused(refusal)) => return self.failed(refusal.text),
                None => return self.failed("the run ended unexpectedly".to_owned()),
            }
        }
    }

    fn failed(&self, text: String) -> Outcome {
        let ended = Ended {
            text,
            is_error: true,
            ..Ended::default()
        };
        let session = match self.session.as_str() {
            "" => &self.wanted,
            session => session,
        };
        Outcome::Ended(result(session, &ended))
    }

    fn begun(&mut self, session: String) {
        let mut stops = self.stops.0.lock();
        stops.insert(session.clone(), self.running.stop.clone());
        drop(stops);
        self.session = session;
    }
}

/// Returns the result of a run that has ended.
fn result(session: &str, ended: &Ended) -> CallToolResult {
    let status = match (ended.is_stopped, ended.is_error) {
        (true, _) => "stopped",
        (false, true) => "failed",
        (false, false) => "completed",
    };
    let mut told = json!({
        "session": session,
        "status": status,
        "answer": ended.text,
        "turns": ended.turns,
    });
    if let Some(cost) = ended.cost_usd {
        told["costUsd"] = cost.into();
    }
    let mut note = match session {
        "" => String::new(),
        session => format!("\n\n[session {session}: {status}]"),
    };
    if let Some(verification) = &ended.verification {
        told["verification"] = json!(verification);
        note.push_str(&format!("\n[{}]", verification.line()));
    }
    let content = vec![ContentBlock::text(format!("{}{note}", ended.text))];
    let mut result = match ended.is_error && !ended.is_stopped {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = Some(told);
    result
}

/// Returns the result of a call that wants a run of a session whose run waits for an answer.
pub(crate) fn still_waiting(session: &str, question: &Question) -> CallToolResult {
    let next = match question.is_permission {
        true => "its user has to answer",
        false => "answer with `answer`",
    };
    let refused = format!(
        "This prompt was not given: the session has a run that waits for an answer; {next}, or end that run with `stop`.\n\n"
    );
    let mut result = asks(&refused, session, question);
    result.is_error = Some(true);
    result
}

/// Returns the result of a call that wants a run of a session which has one.
pub(crate) fn still_running(session: &str) -> CallToolResult {
    let ended = Ended {
        text: "This prompt was not given: a run of the session is in progress; `steer` tells it something, `stop` ends it."
            .to_owned(),
        is_error: true,
        ..Ended::default()
    };
    result(session, &ended)
}

/// Returns the result of a run that waits for an answer by the calling agent.
pub(crate) fn waiting(session: &str, question: &Question) -> CallToolResult {
    asks("", session, question)
}

/// Returns the questions of a run that waits, behind `before`.
fn asks(before: &str, session: &str, question: &Question) -> CallToolResult {
    let told = json!({"session": session, "status": "waiting", "questions": listed(question)});
    let mut text = format!("{before}The agent asks:\n");
    for choice in &question.choices {
        text.push_str(&format!("- {}\n", choice.question));
        for option in &choice.options {
            text.push_str(&format!("  - {}: {}\n", option.label, option.description));
        }
    }
    text.push_str(&format!(
        "\n[session {session}: waiting; answer with `answer`]"
    ));
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(told);
    result
}
