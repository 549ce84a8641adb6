//! Hooks: programs and callbacks of the user that are told what a run does, and may have a say in it.
//!
//! They are asked one after the other, in their order. One that fails is told to the person and has no say; none ends a
//! run but by asking for it. What they say is read in `verdict`; what they change is done where it belongs: calls in
//! `permission` and `tool_call`, all else in `moments`.

mod command;
mod matcher;
mod setting;
mod verdict;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_conversation::{Content, Output, PermissionMode, ToolUse, ToolUseId};
use async_trait::async_trait;
pub use command::CommandHook;
pub use matcher::Matcher;
use serde_json::{Map, Value, json};
pub use setting::{HookGroup, HookSetting};
pub use verdict::{HookDecision, HookVerdict};

use crate::agents::Agent;
use crate::{Frontend, SessionUpdate};

/// When hooks are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the names are those of the protocol and say it"
)]
pub enum HookEvent {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    PostToolUse,
    PostToolUseFailure,
    Notification,
    PreCompact,
    Stop,
    SubagentStart,
    SubagentStop,
    SessionEnd,
    Setup,
    TaskCompleted,
    TeammateIdle,
}

impl HookEvent {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::Notification,
        Self::PreCompact,
        Self::Stop,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::SessionEnd,
        Self::Setup,
        Self::TaskCompleted,
        Self::TeammateIdle,
    ];

    /// The event as settings and payloads name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::Notification => "Notification",
            Self::PreCompact => "PreCompact",
            Self::Stop => "Stop",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::SessionEnd => "SessionEnd",
            Self::Setup => "Setup",
            Self::TaskCompleted => "TaskCompleted",
            Self::TeammateIdle => "TeammateIdle",
        }
    }
}

impl FromStr for HookEvent {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|event| event.as_str() == name);
        known.ok_or_else(|| format!("there is no hook event `{name}`"))
    }
}

/// Something that is asked at an event.
#[async_trait]
pub trait Hook: Send + Sync {
    /// When.
    fn event(&self) -> HookEvent;

    /// About which tools, or which kinds of the event.
    fn matcher(&self) -> &Matcher;

    /// What it is called where it failed.
    fn name(&self) -> &str;

    /// Asks. To withdraw the question, drop the future.
    async fn ask(&self, input: &Value, call: Option<&ToolUseId>) -> HookAnswer;
}

/// What came of asking, and how it was said.
#[derive(Debug, Clone, PartialEq)]
pub struct HookAnswer {
    /// What came of it.
    pub reply: HookReply,
    /// What a program has printed; `None` of what is no program, or did not come to its end.
    pub printed: Option<HookOutput>,
}

impl From<HookReply> for HookAnswer {
    fn from(reply: HookReply) -> Self {
        Self {
            reply,
            printed: None,
        }
    }
}

/// What a program has printed, and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookOutput {
    /// On standard output.
    pub stdout: String,
    /// On standard error.
    pub stderr: String,
    /// Its exit code.
    pub exit_code: i32,
}

/// One hook, asked once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCall {
    /// The how manieth of the session, from 1.
    pub number: usize,
    /// When it is asked.
    pub event: HookEvent,
    /// The tool that it is asked about, or the kind of the event; empty where there is none.
    pub kind: String,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub enum HookReply {
    /// It had nothing to say.
    Nothing,
    /// An object of the protocol.
    Object(Map<String, Value>),
    /// Words that are no object.
    Text(String),
    /// It blocks, for this reason.
    Block(String),
    /// It failed and has no say.
    Failed(String),
}

/// What every hook is told of its session.
#[derive(Debug, Clone, Default)]
pub struct HookSession {
    /// The session's id, as programs know it.
    pub session_id: String,
    /// Where the conversation is kept.
    pub transcript_path: PathBuf,
    /// The working directory.
    pub cwd: PathBuf,
}

/// The hooks of a session.
#[derive(Clone, Default)]
pub struct Hooks {
    hooks: Vec<Arc<dyn Hook>>,
    subject: HookSession,
    /// How many questions there were.
    asked: Arc<AtomicUsize>,
    /// The subagent whose hooks they are: its id and the name of its definition.
    agent: Option<Arc<(String, String)>>,
    /// How a hook that a definition writes is asked.
    maker: Option<Arc<Maker>>,
}

/// Makes a hook of what is written; `None`: it is left out.
type Maker = dyn Fn(&HookSetting) -> Option<Arc<dyn Hook>> + Send + Sync;

/// One moment at which hooks are asked.
pub(crate) struct HookMoment<'a> {
    pub(crate) event: HookEvent,
    /// What matchers look at: a tool, or the kind of the event.
    pub(crate) kind: &'a str,
    pub(crate) mode: PermissionMode,
    pub(crate) call: Option<&'a ToolUseId>,
    /// What the event adds to the payload, an object.
    pub(crate) more: Value,
}

impl Hooks {
    /// These hooks, asked in this order.
    pub fn new(hooks: Vec<Arc<dyn Hook>>, subject: HookSession) -> Self {
        Self {
            hooks,
            subject,
            asked: Arc::default(),
            agent: None,
            maker: None,
        }
    }

    /// The same; those that the definition of a subagent writes are made by `maker`.
    #[must_use]
    pub fn with_maker(
        self,
        maker: impl Fn(&HookSetting) -> Option<Arc<dyn Hook>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            maker: Some(Arc::new(maker)),
            ..self
        }
    }

    /// The same hooks as they are asked in the conversation of a subagent, and behind them those of its definition: it
    /// neither begins nor ends a session, and has no prompts of a person.
    pub(crate) fn of_agent(&self, id: &str, agent: &Agent) -> Self {
        let own = agent.hooks.iter().filter_map(|setting| {
            let event = match setting.event {
                HookEvent::Stop => HookEvent::SubagentStop,
                event => event,
            };
            let maker = self.maker.as_ref()?;
            maker(&HookSetting {
                event,
                ..setting.clone()
            })
        });
        Self {
            hooks: self.hooks.iter().cloned().chain(own).collect(),
            agent: Some(Arc::new((id.to_owned(), agent.name.clone()))),
            ..self.clone()
        }
    }

    /// What an event is called here; `None`: it is not asked about.
    fn event(&self, event: HookEvent) -> Option<HookEvent> {
        match (event, &self.agent) {
            (_, None) => Some(event),
            (
                HookEvent::SessionStart | HookEvent::SessionEnd | HookEvent::UserPromptSubmit,
                Some(_),
            ) => None,
            (HookEvent::Stop, Some(_)) => Some(HookEvent::SubagentStop),
            (event, Some(_)) => Some(event),
        }
    }

    /// Whether anything is asked at `event`.
    pub(crate) fn has(&self, event: HookEvent) -> bool {
        let event = self.event(event);
        self.hooks.iter().any(|hook| Some(hook.event()) == event)
    }

    /// Asks all whom it concerns, one after the other, and gives what they say together.
    pub(crate) async fn ask(&self, moment: HookMoment<'_>, frontend: &dyn Frontend) -> HookVerdict {
        let mut verdict = HookVerdict::default();
        let Some(event) = self.event(moment.event) else {
            return verdict;
        };
        let mut more = moment.more;
        let mut kind = moment.kind;
        if let Some(agent) = &self.agent {
            let (id, name) = &**agent;
            more["agent_id"] = json!(id);
            more["agent_type"] = json!(name);
            if event == HookEvent::SubagentStop {
                more["agent_transcript_path"] = json!(self.subject.transcript_path);
                kind = name;
            }
        }
        let concerned = { self.hooks.iter() }
            .filter(|hook| hook.event() == event && hook.matcher().matches(kind));
        for hook in concerned {
            let mut input = json!({
                "session_id": self.subject.session_id,
                "transcript_path": self.subject.transcript_path,
                "cwd": self.subject.cwd,
                "permission_mode": moment.mode.as_str(),
                "hook_event_name": event.as_str(),
            });
            merge(&mut input, &more);
            let asked = HookCall {
                number: 1 + self.asked.fetch_add(1, Ordering::Relaxed),
                event,
                kind: kind.to_owned(),
            };
            frontend.update(SessionUpdate::HookStarted(&asked));
            let answered = hook.ask(&input, moment.call).await;
            frontend.update(SessionUpdate::HookEnded(&asked, &answered));
            let say = match answered.reply {
                HookReply::Failed(fault) => {
                    let name = hook.name();
                    let event = event.as_str();
                    frontend.notice(&format!("the {event} hook `{name}` failed: {fault}"));
                    continue;
                }
                reply => HookVerdict::read(event, reply),
            };
            // The next one sees what this one has made of the input.
            if let Some(input) = &say.input {
                more["tool_input"] = input.to_value();
            }
            verdict.add(say);
            if verdict.ends.is_some() {
                break;
            }
        }
        verdict
    }
}

fn merge(input: &mut Value, more: &Value) {
    let more = more.as_object().into_iter().flatten();
    for (key, value) in more {
        input[key] = value.clone();
    }
}

/// What is told of a call before it runs.
pub(crate) fn of_call(call: &ToolUse) -> Value {
    json!({
        "tool_name": call.name,
        "tool_input": call.input.to_value(),
        "tool_use_id": call.id.as_str(),
    })
}

/// What is told of a call that has run.
pub(crate) fn of_output(call: &ToolUse, output: &Output, duration_ms: u64) -> Value {
    let mut told = of_call(call);
    told["duration_ms"] = json!(duration_ms);
    if output.is_error {
        told["error"] = json!(text_of(output));
        told["is_interrupt"] = json!(false);
    } else {
        let details = output.details.clone();
        told["tool_response"] = details.unwrap_or_else(|| json!({ "output": text_of(output) }));
    }
    told
}

/// The text of an output; of one that is in a file, its beginning and its end.
fn text_of(output: &Output) -> String {
    match &output.content {
        Content::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Content::Spool(spool) => {
            let ends = [spool.head.as_slice(), b"\n[...]\n", &spool.tail].concat();
            String::from_utf8_lossy(&ends).into_owned()
        }
        Content::Blocks(blocks) => {
            let texts = blocks.iter().filter_map(|block| match block {
                ah_conversation::ResultBlock::Text { text } => Some(text.as_str()),
                ah_conversation::ResultBlock::Image(_) => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}
