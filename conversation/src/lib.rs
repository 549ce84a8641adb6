//! The conversation between a person, a model and its tools, and the decisions that follow from it.
//!
//! This crate holds the types of the conversation ([`Message`], [`ContentBlock`], [`Event`]), the one decision of a
//! run ([`next`]), and the ports ([`Provider`], [`Tool`], [`Servers`], [`Store`], [`Clock`]) through which the rest
//! of the program reaches the outside. It does no I/O, reads no clock and makes no random numbers: time and ids are
//! arguments, so everything here can be tested as a table. Vendors' formats, SQL, processes and terminals live in the
//! crates around it and never meet each other.

mod caller;
mod check;
mod checkpoint;
mod clock;
mod command_line;
mod dots;
mod elicitation;
mod embedded;
pub mod encoding;
mod environment;
mod estimate;
mod event;
mod excerpt;
pub mod front_matter;
mod goal;
mod head;
mod host;
mod id;
mod interaction;
mod interface;
pub mod json;
mod json_text;
mod layer;
mod limits;
mod live_output;
mod message;
mod model;
mod model_usage;
mod models;
mod neutral;
mod next;
mod opaque;
mod output;
mod permission;
mod prefix;
mod provider;
mod question;
mod reach;
mod repair;
mod repetition;
mod servers;
mod shortened;
mod steering;
mod store;
mod task;
#[cfg(test)]
mod testing;
mod thinking;
mod title;
mod tool;
mod tool_name;
mod tool_spec;
mod transcript;
mod update;
mod usage;
mod verification;
mod words;

pub use caller::Caller;
pub use check::{Check, CheckInForce, CheckRun, Taken, TellSealed, first_of};
pub use checkpoint::{
    FileCause, FileChange, FileState, FileStep, FilesLeft, cut_off, left_at, place_of, redo,
    states_at, undo,
};
pub use clock::{Clock, Time};
pub use command_line::{CommandLine, Effect, PossibleFiles, SimpleCommand};
pub use dots::without_dots;
pub use elicitation::{Elicitation, ElicitationAnswer, Wanted};
pub use embedded::{Embedded, EmbeddedEntry, EmbeddedError, EmbeddedFile};
pub use environment::Environment;
pub use estimate::{estimate_block, estimate_message, estimate_prefix, estimate_text};
pub use event::{CallReason, Event, EventKind, LoopAction};
pub use excerpt::{Excerpt, LeftOut, LineCount, WholeOutput, lines_between};
pub use goal::Goal;
pub use head::Head;
pub use host::{
    Editor, Host, HostPermission, Nobody, PermissionAnswer, PermissionRequest, Rulebook,
};
pub use id::{MessageId, SessionId, ToolUseId};
pub use interaction::{Choice, ChoiceOption, Interaction};
pub use interface::Interface;
pub use json_text::JsonText;
pub use layer::Layer;
pub use limits::{CompactAt, ExitReason, Limits, Spent};
pub use live_output::LiveOutput;
pub use message::{
    Audio, ContentBlock, HOOK_NOTE, Image, Input, Message, NOTE, Origin, Response, ResultBlock,
    Role, StopReason, ToolResult, ToolUse, called, command_in, is_note, said_in, text_of,
};
pub use model::Model;
pub use model_usage::ModelUsage;
pub use models::Models;
pub use neutral::neutralise;
pub use next::{Skip, Step, next};
pub use opaque::{Fields, Opaque, said, says_nothing};
pub use output::{Content, Output, Spool};
pub use permission::{
    Behavior, Decision, Denied, Destination, HiddenFiles, Inquiry, PatternRoots, PermissionMode,
    PermissionUpdate, Permissions, Rule, RuleError, RuleValue, is_same_tool,
};
pub use prefix::{Prefix, PrefixBreak};
pub use provider::{
    BlockStart, CacheMiss, Connecting, ConnectsEarly, Continuity, Delta, DemandedAnswer,
    ErrorClass, EventStream, FallbackNotice, Findings, Hit, Provider, ProviderError,
    ProviderExtras, Request, RetryNotice, Sampling, SearchesWeb, Searching, SkipDelay, StreamEvent,
    UnseenUse, WebSearch,
};
pub use question::{Hunk, Proposal, Question, Verdict};
pub use reach::Reach;
pub use repair::{close_open_calls, extend_sendable, interrupted, sendable, without_advice};
pub use repetition::{Repetition, chant, repetition, signature};
pub use servers::{
    Completion, PromptArgument, ServerPrompt, ServerScope, ServerState, ServerStatus, ServerTool,
    Servers, ServersChange, Software,
};
pub use shortened::shortened;
pub use steering::{Steered, may_hold_steering, steered_by, steered_in, steering_names};
pub use store::{
    Branch, CallFinish, CallStart, Mail, MailKind, Mailbox, OutputPage, Record, SharedState, Store,
    StoreError, StoreLayer,
};
pub use task::{Task, TaskEnding, TaskKind, TaskSink, TaskTail, TaskUpdate, TaskUsage, Tasks};
pub use thinking::{Effort, Thinking};
pub use title::title_of;
pub use tool::{
    Access, Context, Foresight, Progress, ProgressSink, StandsFor, Tool, ToolExtras, Unsaved,
};
pub use tool_name::ToolName;
pub use tool_spec::{DisplayKey, ToolSpec, Truncation};
pub use transcript::{CallState, RunTotals, Transcript, trimmed};
pub use update::{Known, ToolDefinition, Update};
pub use usage::{Cost, Price, Usage};
pub use verification::{ChangedSeal, Evidence, Verdicts, Verification};
pub use words::split_words;
