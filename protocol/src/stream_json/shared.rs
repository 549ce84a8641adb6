//! State shared by the task that reads the host's input and the one that runs its prompts ([`worker`](super::worker)), and
//! the answers to control requests that need no session.

use std::sync::{Arc, OnceLock};

use ah_conversation::Cost;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::control::{Handles, unknown};
use super::initialize::Initialize;
use super::input::Line;
use super::introduction;
use super::link::Link;
use super::program::Request;
use super::queue::{Queue, Ticket};
use super::result::model_usage;
use super::speaker::Speaker;
use super::speaker::lifecycle::PromptState;
use super::totals::Totals;
use super::wire::{
    self, ControlRequest, Incoming, IntroductionPart, Priority, Prompt, RequestError, ResponseForm,
};
use crate::{Engine, Introduction};

/// Work in the order in which the host sent it.
pub(super) enum Work {
    /// `initialize`.
    Open(ReplyTo, Box<Initialize>),
    /// Another request that needs the session.
    OpenAnyhow,
    Prompt(Prompt, Arc<Ticket>),
}

/// Destination of the response to a request.
pub(super) enum ReplyTo {
    /// A line to the host.
    Line(ResponseForm),
    /// The caller in this program.
    Caller(oneshot::Sender<Result<Value, String>>),
}

/// State shared by the task that reads the host's input and the one that works.
pub(super) struct Shared {
    pub(super) link: Arc<Link>,
    pub(super) speaker: Arc<Speaker>,
    /// `None` after the end of the input.
    pub(super) work: Mutex<Option<mpsc::UnboundedSender<Work>>>,
    /// Handles of the open session.
    pub(super) open: Mutex<Option<Arc<Handles>>>,
    /// Requests from before the session was open; `None` since.
    pub(super) early: Mutex<Option<Vec<(ReplyTo, ControlRequest)>>>,
    /// Unanswered prompts.
    pub(super) queue: Queue,
    /// Set by a line that could not be parsed.
    pub(super) is_faulty: OnceLock<()>,
    pub(super) engine: Arc<dyn Engine>,
    /// The program's description, which is read from many files and therefore kept.
    pub(super) introduction: Mutex<Option<Arc<Introduction>>>,
    /// Usage of the session so far.
    pub(super) totals: Mutex<Totals>,
}

impl Shared {
    /// Reads the host's lines until there are no more.
    pub(super) async fn hear(self: Arc<Self>, mut lines: mpsc::Receiver<Line>) {
        let mut number = 0_usize;
        while let Some(line) = lines.recv().await {
            number += 1;
            let heard = match line {
                Line::Whole(line) => wire::read(&line),
                Line::TooLong => Err("it is longer than 64 MiB".to_owned()),
                Line::Broken(fault) => Err(fault),
            };
            match heard {
                Ok(incoming) => self.take(incoming),
                Err(fault) => self.complain(number, &fault),
            }
        }
        // Requests that are open now get no answer.
        self.link.close();
        self.end();
    }

    /// Takes the requests of this program until there are no more.
    pub(super) async fn follow(self: Arc<Self>, mut requests: mpsc::UnboundedReceiver<Request>) {
        while let Some(request) = requests.recv().await {
            match request {
                Request::Prompt(prompt) => self.prompt(prompt),
                Request::Control(wish, reply) => self.request(ReplyTo::Caller(reply), wish),
            }
        }
        self.end();
    }

    fn take(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Prompt(prompt) => {
                if prompt.priority == Priority::Now {
                    self.queue.interrupt(false);
                }
                self.prompt(prompt);
            }
            Incoming::Answer { id, answer } => self.link.answer(&id, answer),
            Incoming::Request(to, wish) => self.request(ReplyTo::Line(to), wish),
            Incoming::Withdrawal(_) | Incoming::Nothing => {}
        }
    }

    fn request(self: &Arc<Self>, to: ReplyTo, wish: ControlRequest) {
        match wish {
            ControlRequest::Interrupt { cancels_others } => {
                let told = self.queue.interrupt(cancels_others);
                let withdrawn = told["cancelled"].as_array().cloned();
                self.reply(to, Ok(told));
                for uuid in withdrawn.iter().flatten() {
                    self.speaker.follow(uuid.as_str(), PromptState::Cancelled);
                }
            }
            ControlRequest::Withdraw { prompt } => {
                let cancelled = self.queue.withdraw(&prompt);
                self.reply(to, Ok(json!({"cancelled": cancelled})));
                let withdrawn = cancelled.then_some(&*prompt);
                self.speaker.follow(withdrawn, PromptState::Cancelled);
            }
            ControlRequest::Introduction(listed) => {
                if listed.is_reread() {
                    self.reread();
                }
                let told = introduction::part(&self.introduction(), listed);
                self.reply(to, Ok(told));
            }
            ControlRequest::SessionCost => {
                let text = self.totals.lock().text(self.link.ids.now());
                self.reply(to, Ok(json!({"text": text})));
            }
            ControlRequest::Unknown { subtype, fault } => {
                self.reply(to, Err(unknown(&subtype, fault)));
            }
            ControlRequest::Initialize(wishes) if self.open.lock().is_none() => {
                self.put(Work::Open(to, wishes));
            }
            // A host that lost the response asks again; its options come too late.
            ControlRequest::Initialize(_) => {
                let told = introduction::part(&self.introduction(), IntroductionPart::All);
                self.reply(to, Ok(told));
            }
            wish => {
                let mut early = self.early.lock();
                if let Some(early) = &mut *early {
                    early.push((to, wish));
                    self.put(Work::OpenAnyhow);
                    return;
                }
                drop(early);
                let shared = self.clone();
                tokio::spawn(async move { shared.grant(to, wish).await });
            }
        }
    }

    /// Carries out a request that needs the session.
    pub(super) async fn grant(&self, to: ReplyTo, wish: ControlRequest) {
        let handles = self.open.lock().clone();
        let Some(handles) = handles else {
            let fault = RequestError::new("the session could not be opened");
            return self.reply(to, Err(fault));
        };
        if wish == ControlRequest::SessionUsage {
            return self.reply(to, Ok(self.usage(&handles)));
        }
        let mode = wish.mode();
        let outcome = handles.grant(wish).await;
        let mode = mode.filter(|_| outcome.is_ok());
        self.reply(to, outcome);
        mode.into_iter().for_each(|mode| handles.speaker.mode(mode));
    }

    /// Returns cost and usage of the session.
    fn usage(&self, handles: &Handles) -> Value {
        let describe = |provider: &str, name: &str| handles.models.describe(provider, name);
        let totals = self.totals.lock();
        let mut session = totals.durations(self.link.ids.now());
        session["total_cost_usd"] = json!(totals.cost().map(Cost::usd));
        session["model_usage"] = model_usage(&totals.shares, &describe);
        json!({
            "session": session,
            "subscription_type": null,
            "rate_limits_available": false,
            "rate_limits": null,
            "behaviors": null,
        })
    }

    /// Returns the program's description.
    pub(super) fn introduction(&self) -> Arc<Introduction> {
        let mut known = self.introduction.lock();
        known
            .get_or_insert_with(|| Arc::new(self.engine.introduction()))
            .clone()
    }

    /// Reads the description anew, and reports commands that have changed.
    fn reread(&self) {
        let new = Arc::new(self.engine.introduction());
        let old = self.introduction.lock().replace(new.clone());
        let handles = self.open.lock().clone();
        if let Some(handles) = handles
            && old.is_some_and(|old| old.commands != new.commands)
        {
            let commands = introduction::part(&new, IntroductionPart::Commands);
            handles
                .speaker
                .system("commands_changed", json!({"commands": commands}));
        }
    }

    pub(super) fn reply(&self, to: ReplyTo, outcome: Result<Value, RequestError>) {
        match to {
            ReplyTo::Line(to) => {
                self.link.sink.send_control(to.line(outcome));
            }
            // The caller may have dropped its future.
            ReplyTo::Caller(reply) => drop(reply.send(outcome.map_err(|fault| fault.text))),
        }
    }

    /// Queues a prompt.
    pub(super) fn prompt(&self, prompt: Prompt) {
        let Some(ticket) = self.queue.join(prompt.uuid.clone()) else {
            return;
        };
        // Before that the session has no id yet.
        if self.open.lock().is_some() {
            self.speaker.state("running");
        }
        self.speaker
            .follow(prompt.uuid.as_deref(), PromptState::Queued);
        self.put(Work::Prompt(prompt, ticket));
    }

    /// Reports a line of the host that could not be parsed.
    fn complain(&self, number: usize, fault: &str) {
        let _ = self.is_faulty.set(());
        let text = format!("line {number} of the input is ignored: {fault}");
        tracing::error!("{text}");
        self.link.sink.send(json!({
            "type": "system",
            "subtype": "informational",
            "level": "error",
            "content": text,
            "uuid": self.link.ids.fresh(),
            "session_id": "",
        }));
    }

    fn put(&self, work: Work) {
        if let Some(sender) = &*self.work.lock() {
            // The receiver lives as long as this.
            let _ = sender.send(work);
        }
    }

    pub(super) fn end(&self) {
        *self.work.lock() = None;
    }
}
