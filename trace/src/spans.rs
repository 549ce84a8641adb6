//! Turns the events and updates of a session into spans. Pure but for the ids, which are random.
//!
//! A run is a span `invoke_agent`. Below it are its requests (`chat`) and its tool calls (`execute_tool`); below a call that
//! starts a subagent is the subagent's `invoke_agent`, with the same inside. A compaction's request is one as well.

mod content;

use std::collections::HashMap;

use ah_agent::SessionUpdate;
use ah_conversation::{
    Cost, EventKind, ExitReason, Message, Model, StreamEvent, Task, TaskEnding, TaskKind,
    TaskUpdate, ToolResult, ToolUse, ToolUseId,
};

use super::context::{SpanContext, SpanId};

/// Name of the main agent.
const AGENT: &str = "ah";

/// What a span is about, in the numbers of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// Work of this program.
    Internal = 1,
    /// A request to another one.
    Client = 3,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    Text(String),
    Texts(Vec<String>),
    Number(u64),
    Dollars(f64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// A span; times in nanoseconds since the Unix epoch. While it is open, its end is its start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub context: SpanContext,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: SpanKind,
    pub start: u64,
    pub end: u64,
    pub attributes: Vec<(&'static str, Attribute)>,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

impl Span {
    fn with(mut self, name: &'static str, value: impl Into<Attribute>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// Returns it with the end `now`, which is never before its start.
    fn ended(mut self, now: u64) -> Self {
        self.end = now.max(self.start);
        self
    }

    /// Returns it as one that failed, with a short name of the failure and a text.
    fn failed(self, kind: &str, text: &str) -> Self {
        Self {
            error: Some(text.to_owned()),
            ..self.with("error.type", kind)
        }
    }

    /// Returns it with its cost, if that is known.
    fn cost(self, usd: Option<f64>) -> Self {
        match usd {
            Some(usd) => self.with(COST, Attribute::Dollars(usd)),
            None => self,
        }
    }

    /// Returns it with one more time that its request was sent again.
    fn retried(mut self) -> Self {
        let known = { self.attributes.iter_mut() }.find(|(name, _)| *name == RETRIES);
        match known {
            Some((_, Attribute::Number(retries))) => {
                *retries += 1;
                self
            }
            _ => self.with(RETRIES, 1),
        }
    }

    fn tokens(self, input: u64, output: u64, read: u64) -> Self {
        self.with("gen_ai.usage.input_tokens", input)
            .with("gen_ai.usage.output_tokens", output)
            .with("gen_ai.usage.cache_read.input_tokens", read)
    }
}

/// Part of a session that makes requests and calls: its run, or a subagent by the id of its task.
type Owner = Option<String>;

/// The open spans of a session.
pub(crate) struct Spans {
    session: String,
    /// Span that runs are below, from outside.
    parent: Option<SpanContext>,
    has_content: bool,
    /// The run and the subagents.
    agents: HashMap<Owner, Span>,
    /// The request of each.
    chats: HashMap<Owner, Span>,
    calls: HashMap<ToolUseId, Span>,
    /// Spans of calls that were asked for before the calls started.
    coming: HashMap<ToolUseId, SpanContext>,
}

impl Spans {
    /// Creates the spans of a session with this UUID.
    pub fn new(session: &str, parent: Option<SpanContext>, has_content: bool) -> Self {
        Self {
            session: session.to_owned(),
            parent,
            has_content,
            agents: HashMap::new(),
            chats: HashMap::new(),
            calls: HashMap::new(),
            coming: HashMap::new(),
        }
    }

    /// Returns the span of a call that is about to start, or runs; `None` outside of a run.
    pub fn of_call(&mut self, call: &ToolUseId) -> Option<SpanContext> {
        if let Some(span) = self.calls.get(call) {
            return Some(span.context);
        }
        let trace = self.agents.get(&None)?.context.trace;
        let context = self.coming.entry(call.clone()).or_insert(SpanContext {
            trace,
            span: random(),
        });
        Some(*context)
    }

    /// Takes an event; returns the spans that it ends.
    pub fn event(&mut self, event: &EventKind, now: u64) -> Vec<Span> {
        match event {
            EventKind::AgentStart { model, prompt, .. } => {
                let mut run = self.agent(AGENT, None, now);
                run = run.with("gen_ai.request.model", model.as_str());
                if self.has_content {
                    run = run.with("gen_ai.input.messages", &*content::prompt(prompt));
                }
                self.agents.insert(None, run);
                Vec::new()
            }
            // Only a summary is asked for without an announcement.
            EventKind::ApiCallStart { .. } if !self.chats.contains_key(&None) => {
                let chat = self.below(None, SpanKind::Client, now);
                self.chats.extend(chat.map(|chat| (None, chat)));
                Vec::new()
            }
            EventKind::AgentEnd {
                stop_reason,
                total_input_tokens,
                total_output_tokens,
                total_cache_read_tokens,
                error,
                ..
            } => {
                let text = error.as_deref().unwrap_or_default();
                let mut ended = self.close_below(text, now);
                ended.extend(self.agents.remove(&None).map(|run| {
                    let run = run
                        .tokens(
                            *total_input_tokens,
                            *total_output_tokens,
                            *total_cache_read_tokens,
                        )
                        .with(
                            "gen_ai.response.finish_reasons",
                            Attribute::Texts(vec![stop_reason.as_str().to_owned()]),
                        )
                        .ended(now);
                    match stop_reason {
                        ExitReason::EndTurn | ExitReason::StopSequence => run,
                        reason => run.failed(reason.as_str(), text),
                    }
                }));
                ended
            }
            _ => Vec::new(),
        }
    }

    /// Takes an update; returns the spans that it ends.
    pub fn update(&mut self, update: SessionUpdate<'_>, now: u64) -> Vec<Span> {
        self.update_of(None, update, now).into_iter().collect()
    }

    fn update_of(&mut self, owner: Owner, update: SessionUpdate<'_>, now: u64) -> Option<Span> {
        match update {
            SessionUpdate::Asking { model, .. } => self.ask(owner, model, now),
            SessionUpdate::Piece(StreamEvent::Retry(_)) => {
                if let Some(chat) = self.chats.remove(&owner) {
                    self.chats.insert(owner, chat.retried());
                }
                None
            }
            SessionUpdate::Stored(message) => self.answered(&owner, message, now),
            SessionUpdate::Call(call, ..) => {
                self.call(&owner, call, now);
                None
            }
            SessionUpdate::Result(result, _) => self.result(result, now),
            SessionUpdate::Task(task, TaskUpdate::Ended { ending, .. }) => {
                self.task_ended(task, *ending, now)
            }
            SessionUpdate::Task(task, TaskUpdate::Started) => {
                self.subagent(task, now);
                None
            }
            SessionUpdate::Subagent(task, inner) => {
                self.subagent(task, now);
                self.update_of(Some(task.id.clone()), *inner, now)
            }
            _ => None,
        }
    }

    /// Begins a request; one that its owner had open was without an answer.
    fn ask(&mut self, owner: Owner, model: &Model, now: u64) -> Option<Span> {
        let provider = provider(&model.provider);
        if let Some(agent) = self.agents.get_mut(&owner) {
            let is_known = { agent.attributes.iter() }.any(|(name, _)| *name == PROVIDER);
            if !is_known {
                agent.attributes.push((PROVIDER, provider.into()));
            }
        }
        let chat = self.below(owner.as_deref(), SpanKind::Client, now)?;
        let chat = Span {
            name: format!("chat {}", model.name),
            ..chat
                .with("gen_ai.request.model", model.name.as_str())
                .with(PROVIDER, provider)
        };
        let former = self.chats.insert(owner, chat)?;
        Some(former.failed("_OTHER", "no answer").ended(now))
    }

    fn answered(&mut self, owner: &Owner, message: &Message, now: u64) -> Option<Span> {
        let response = message.response.as_ref()?;
        let mut chat = self.chats.remove(owner)?;
        // A request that was not announced is named by its answer.
        if chat.name.is_empty() {
            chat = chat
                .with("gen_ai.request.model", response.model.as_str())
                .with(PROVIDER, provider(&response.provider));
            chat.name = format!("chat {}", response.model);
        }
        let usage = &response.usage;
        let mut chat = chat
            .with("gen_ai.response.model", response.model.as_str())
            .with(
                "gen_ai.response.finish_reasons",
                Attribute::Texts(vec![response.stop_reason.as_str().to_owned()]),
            )
            .tokens(
                usage.effective_input(),
                usage.output_tokens,
                usage.cache_read_input_tokens,
            )
            .with(
                "gen_ai.usage.cache_creation.input_tokens",
                usage.cache_creation_input_tokens,
            )
            .cost(response.cost.map(Cost::usd));
        if let Some(id) = &response.request_id {
            chat = chat.with("gen_ai.response.id", id.as_str());
        }
        if self.has_content {
            chat = chat.with("gen_ai.output.messages", &*content::answer(message));
        }
        Some(chat.ended(now))
    }

    fn call(&mut self, owner: &Owner, call: &ToolUse, now: u64) {
        let Some(span) = self.below(owner.as_deref(), SpanKind::Internal, now) else {
            return;
        };
        let context = self.coming.remove(&call.id).unwrap_or(span.context);
        let mut span = Span {
            name: format!("execute_tool {}", call.name),
            context,
            ..span
        };
        span.attributes[0].1 = "execute_tool".into();
        span = span
            .with("gen_ai.tool.name", call.name.as_str())
            .with("gen_ai.tool.call.id", call.id.as_str())
            .with("gen_ai.tool.type", "function");
        if self.has_content {
            let arguments = call.input.to_value().to_string();
            span = span.with("gen_ai.tool.call.arguments", arguments.as_str());
        }
        self.calls.insert(call.id.clone(), span);
    }

    fn result(&mut self, result: &ToolResult, now: u64) -> Option<Span> {
        let span = self.calls.remove(&result.tool_use_id)?;
        let mut span = span.ended(now);
        if self.has_content {
            span = span.with("gen_ai.tool.call.result", &*content::result(result));
        }
        Some(if result.is_error {
            span.failed("tool_error", "the tool failed")
        } else {
            span
        })
    }

    /// Begins the span of a subagent, unless it has one.
    fn subagent(&mut self, task: &Task, now: u64) {
        let owner = Some(task.id.clone());
        let TaskKind::Agent { name, .. } = &task.kind else {
            return;
        };
        if self.agents.contains_key(&owner) {
            return;
        }
        let run = self.agents.get(&None);
        let call = self.calls.get(&task.call);
        let parent = call.or(run).map(|span| span.context);
        let span = self.agent(name, parent, now);
        self.agents.insert(owner, span);
    }

    fn task_ended(&mut self, task: &Task, ending: TaskEnding, now: u64) -> Option<Span> {
        let owner = Some(task.id.clone());
        self.chats.remove(&owner);
        let span = self.agents.remove(&owner)?.ended(now);
        Some(match ending {
            TaskEnding::Completed => span,
            TaskEnding::Failed | TaskEnding::Stopped => {
                span.failed(ending.as_str(), "the subagent did not finish")
            }
        })
    }

    /// Ends what a run has left open: a request without an answer, calls that were dropped. Subagents in the background go
    /// on.
    fn close_below(&mut self, text: &str, now: u64) -> Vec<Span> {
        self.coming.clear();
        let chat = self.chats.remove(&None);
        let calls = self.calls.drain().map(|(_, call)| call);
        let open = chat.into_iter().chain(calls);
        open.map(|mut span| {
            if span.name.is_empty() {
                "chat".clone_into(&mut span.name);
            }
            span.failed("_OTHER", text).ended(now)
        })
        .collect()
    }

    /// Returns a span `invoke_agent`, below `parent` or what the session is below.
    fn agent(&self, name: &str, parent: Option<SpanContext>, now: u64) -> Span {
        let parent = parent.or(self.parent);
        let span = Span {
            name: format!("invoke_agent {name}"),
            ..span(parent, SpanKind::Internal, now)
        };
        span.with("gen_ai.operation.name", "invoke_agent")
            .with("gen_ai.agent.name", name)
            .with("gen_ai.conversation.id", self.session.as_str())
    }

    /// Returns a span below the run or subagent of `owner`, for a request; `None` if it has none.
    fn below(&self, owner: Option<&str>, kind: SpanKind, now: u64) -> Option<Span> {
        let parent = self.agents.get(&owner.map(str::to_owned))?;
        let span = span(Some(parent.context), kind, now);
        Some(
            span.with("gen_ai.operation.name", "chat")
                .with("gen_ai.conversation.id", self.session.as_str()),
        )
    }

    /// Returns a span for tests.
    #[cfg(test)]
    pub fn example() -> Span {
        span(None, SpanKind::Internal, 1)
    }
}

/// Cost in US dollars, for which the conventions have no name.
const COST: &str = "ah.cost_usd";
/// How often a request was sent again, likewise.
const RETRIES: &str = "ah.retries";
const PROVIDER: &str = "gen_ai.provider.name";

/// Returns the convention's name of a provider.
fn provider(name: &str) -> &str {
    match name {
        "openai-responses" => "openai",
        "gemini-interactions" => "gemini",
        name => name,
    }
}

/// Returns a span without a name, in the trace of `parent` or a new one.
fn span(parent: Option<SpanContext>, kind: SpanKind, now: u64) -> Span {
    Span {
        context: SpanContext {
            trace: parent.map_or_else(random, |parent| parent.trace),
            span: random(),
        },
        parent: parent.map(|parent| parent.span),
        name: String::new(),
        kind,
        start: now,
        end: now,
        attributes: Vec::new(),
        error: None,
    }
}

/// Returns random bytes; without a source of them spans cannot be told apart, but nothing fails.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        bytes[N - 1] = 1;
    }
    bytes
}
