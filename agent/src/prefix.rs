//! What a branch's requests begin with, and what has to be told before the next one. Pure.
//!
//! The decision compares what the model was told, which is in the transcript, with what is true now. Sending the
//! difference is left to [`model_call`](crate::model_call).

use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Known, Message, Origin, PermissionMode, Prefix, PrefixBreak, Role, Thinking,
    ToolDefinition, ToolSpec, Transcript, Update, is_same_tool,
};

use crate::prompt::{Fact, SystemPrompt};

/// Marks updates, for the model and for readers of the database.
const MARKER: &str = "[UPDATE]";

/// What is true before a request.
pub(crate) struct Present<'a> {
    /// The system prompt as it would be built now.
    pub prompt: &'a SystemPrompt,
    /// The tools of the session.
    pub tools: &'a Arc<[ToolSpec]>,
    /// Beginnings of the names of tools that are no longer to be offered.
    pub withdrawn: &'a [String],
    /// Permission mode.
    pub mode: PermissionMode,
    /// Thinking setting.
    pub thinking: Thinking,
    /// Whether another one is told at the end of the conversation.
    pub appends_thinking: bool,
    /// What mode `plan` asks for, while it is active.
    pub plan: Option<Fact>,
}

/// What has to be stored before a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    /// Nothing: the request continues the earlier ones.
    Nothing,
    /// This beginning of all requests from now on.
    Begin(Prefix),
    /// A message with this update.
    Tell(Update, Vec<ContentBlock>),
}

/// Returns what has to be stored before the next request of the branch.
pub(crate) fn due(transcript: &Transcript, present: &Present<'_>) -> Due {
    let Some(prefix) = transcript.prefix() else {
        let broken = match transcript.summary() {
            Some(_) => Some(PrefixBreak::Summary),
            None => has_answer(transcript.messages()).then_some(PrefixBreak::Unrecorded),
        };
        return Due::Begin(present.prefix(broken));
    };
    if let Some(broken) = present.breaks(prefix) {
        return Due::Begin(present.prefix(Some(broken)));
    }
    let known = told_tools(transcript, prefix);
    let is_withdrawn = |tool: &ToolDefinition| {
        let mut withdrawn = present.withdrawn.iter();
        withdrawn.any(|start| tool.name.starts_with(start))
            && present.tools.iter().all(|other| other.name != tool.name)
    };
    if known.iter().any(is_withdrawn) {
        return Due::Begin(present.prefix(Some(PrefixBreak::Withdrawn)));
    }
    // Nothing can be said between the parts of an answer that the server paused.
    if transcript
        .last()
        .is_none_or(|last| last.role == Role::Assistant)
    {
        return Due::Nothing;
    }
    let facts = present.changed_facts(&told_facts(transcript, prefix), prefix);
    let mode = transcript.updates().filter_map(|update| update.mode).last();
    let mode = (mode.unwrap_or(prefix.mode) != present.mode).then_some(present.mode);
    let thinking = transcript.updates().filter_map(|update| update.thinking);
    let is_other = thinking.last().unwrap_or(prefix.thinking) != present.thinking;
    let thinking = (present.appends_thinking && is_other).then_some(present.thinking);
    let tools: Vec<_> = present
        .tools
        .iter()
        .map(ToolDefinition::from)
        .filter(|tool| !known.contains(tool))
        .collect();
    let update = Update {
        facts: facts.iter().map(|(known, _)| known.clone()).collect(),
        mode,
        tools,
        thinking,
    };
    if update.is_empty() {
        return Due::Nothing;
    }
    let texts: Vec<_> = facts.into_iter().map(|(_, text)| text).collect();
    let content = content(&update, &texts, &known);
    Due::Tell(update, content)
}

/// Returns the tools that `updates` tell of and that are not among those of the beginning.
pub(crate) fn added<'a>(
    prefix: &Prefix,
    updates: impl Iterator<Item = &'a Update>,
) -> Arc<[ToolSpec]> {
    let mut added: Vec<ToolSpec> = Vec::new();
    for tool in updates.flat_map(|update| &update.tools) {
        let is_known = |known: &ToolSpec| known.name == tool.name;
        if !prefix.tools.iter().any(is_known) && !added.iter().any(is_known) {
            added.push(tool.clone().into());
        }
    }
    added.into()
}

/// Whether updates since the last answer bring tools that the model has not known by name. They are told again with each
/// request until one is answered.
pub(crate) fn brings_names(transcript: &Transcript) -> bool {
    let Some(prefix) = transcript.prefix() else {
        return false;
    };
    let latest = transcript.messages().iter().rev();
    let unanswered = latest.take_while(|message| message.role == Role::User);
    let new: Vec<_> = unanswered
        .filter_map(|message| match &message.origin {
            Origin::Update(update) => Some(&update.tools),
            _ => None,
        })
        .flatten()
        .collect();
    let before = transcript.updates().flat_map(|update| &update.tools);
    let is_known = |name: &str| {
        let mut before = before
            .clone()
            .filter(|tool| !new.iter().any(|new| std::ptr::eq(*new, *tool)));
        prefix.tools.iter().any(|tool| tool.name == name) || before.any(|tool| tool.name == name)
    };
    new.iter().any(|tool| !is_known(&tool.name))
}

/// Returns whether another model than this one has written the last answer of the branch.
pub(crate) fn is_other_model(transcript: &Transcript, provider: &str, model: &str) -> bool {
    let mut answers = transcript.messages().iter().rev();
    let last = answers.find(|message| message.role == Role::Assistant);
    last.is_some_and(|last| last.response.is_some() && !last.was_written_by(provider, model))
}

impl Present<'_> {
    fn prefix(&self, broken: Option<PrefixBreak>) -> Prefix {
        Prefix {
            system: self.prompt.system.clone(),
            tools: self.tools.clone(),
            opening: self.prompt.opening.clone(),
            facts: { self.facts() }
                .filter(|fact| !fact.is_apart)
                .map(Fact::known)
                .collect(),
            options: self.prompt.options.clone(),
            mode: self.mode,
            thinking: self.thinking,
            broken,
        }
    }

    fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.prompt.facts.iter().chain(&self.plan)
    }

    /// Returns why the requests cannot continue those that begin with `prefix`. Options that are not given again stay
    /// in force.
    fn breaks(&self, prefix: &Prefix) -> Option<PrefixBreak> {
        let options = self.prompt.options.as_ref();
        if options.is_some() && options != prefix.options.as_ref() {
            return Some(PrefixBreak::Options);
        }
        let has = |name: &str| self.tools.iter().any(|tool| tool.name == name);
        let is_renamed = |known: &ToolSpec| {
            let mut tools = self.tools.iter();
            !has(&known.name) && tools.any(|tool| is_same_tool(&tool.name, &known.name))
        };
        let is_renamed = prefix.tools.iter().any(is_renamed);
        is_renamed.then_some(PrefixBreak::Interface)
    }

    /// Returns the parts of the prompt that differ from `told`, each with the words that say so.
    fn changed_facts(&self, told: &[Known], prefix: &Prefix) -> Vec<(Known, String)> {
        // A prompt of the user's own stands alone, and stays so if the option is not given again.
        let stands_alone = prefix.options.is_some() && prefix.facts.is_empty();
        let value = |name: &str| {
            let known = told.iter().rev().find(|known| known.name == name);
            known.map_or("", |known| known.value.as_str())
        };
        let mut changed: Vec<_> = self
            .facts()
            .filter(|fact| fact.is_apart || !stands_alone)
            .map(|fact| (fact.known(), fact))
            .filter(|(known, _)| value(&known.name) != known.value)
            .map(|(known, fact)| {
                let text = fact.change(value(&known.name));
                (known, text)
            })
            .collect();
        for known in told {
            let is_gone = !known.value.is_empty()
                && value(&known.name) == known.value
                && self.facts().all(|fact| fact.name != known.name);
            if is_gone {
                let gone = Known {
                    name: known.name.clone(),
                    value: String::new(),
                };
                let text = format!("`{}` no longer applies.", known.name);
                changed.push((gone, text));
            }
        }
        changed
    }
}

fn has_answer(messages: &[Arc<Message>]) -> bool {
    messages
        .iter()
        .any(|message| message.role == Role::Assistant)
}

/// Returns the parts of the prompt as told, the newest state of each last.
fn told_facts(transcript: &Transcript, prefix: &Prefix) -> Vec<Known> {
    let since = transcript.updates().flat_map(|update| &update.facts);
    let mut told: Vec<Known> = Vec::new();
    for known in prefix.facts.iter().chain(since) {
        told.retain(|earlier| earlier.name != known.name);
        told.push(known.clone());
    }
    told
}

/// Returns the tools as the model knows them.
fn told_tools(transcript: &Transcript, prefix: &Prefix) -> Vec<ToolDefinition> {
    let mut told: Vec<_> = prefix.tools.iter().map(ToolDefinition::from).collect();
    for tool in transcript.updates().flat_map(|update| &update.tools) {
        match told.iter_mut().find(|known| known.name == tool.name) {
            Some(known) => *known = tool.clone(),
            None => told.push(tool.clone()),
        }
    }
    told
}

/// Returns the text of an update: a block for each of its fields that says something.
fn content(update: &Update, facts: &[String], known: &[ToolDefinition]) -> Vec<ContentBlock> {
    let mut blocks = Vec::new();
    if !facts.is_empty() {
        blocks.push(format!(
            "{MARKER} This has changed since you were last told:\n\n{}",
            facts.join("\n\n")
        ));
    }
    if let Some(mode) = update.mode {
        blocks.push(mode_text(mode));
    }
    if !update.tools.is_empty() {
        blocks.push(tools_text(&update.tools, known));
    }
    blocks.extend(update.thinking.map(thinking_text));
    blocks.into_iter().map(ContentBlock::text).collect()
}

fn mode_text(mode: PermissionMode) -> String {
    let meaning = match mode {
        PermissionMode::Default => "reading is allowed, other calls may need approval",
        PermissionMode::Sandboxed => {
            "what the sandbox confines is allowed, other calls may need approval"
        }
        PermissionMode::AcceptEdits => {
            "reading, and editing files in the working directories, is allowed; other calls may need approval"
        }
        PermissionMode::Plan => "only reading is allowed until the user has approved a plan",
        PermissionMode::DontAsk => "calls that would need approval are denied",
        PermissionMode::Delegate => "only starting subagents is allowed",
        PermissionMode::BypassPermissions => "all calls are allowed",
    };
    format!(
        "{MARKER} The permission mode is now `{}`: {meaning}.",
        mode.as_str()
    )
}

fn thinking_text(thinking: Thinking) -> String {
    match thinking {
        Thinking {
            effort: Some(effort),
            ..
        } => format!(
            "{MARKER} The reasoning effort is now `{}`.",
            effort.as_str()
        ),
        Thinking {
            budget: Some(budget),
            ..
        } => format!("{MARKER} There are now {budget} tokens for thinking."),
        _ => format!("{MARKER} The reasoning effort is now the usual one."),
    }
}

/// A tool that the model knows by name is described in full, since its description at the beginning stays as it was.
fn tools_text(tools: &[ToolDefinition], known: &[ToolDefinition]) -> String {
    let is_known = |tool: &&ToolDefinition| known.iter().any(|known| known.name == tool.name);
    let new: Vec<_> = tools
        .iter()
        .filter(|tool| !is_known(tool))
        .map(|tool| tool.name.as_str())
        .collect();
    let mut text = String::new();
    if !new.is_empty() {
        text.push_str(&format!(
            "{MARKER} Further tools are available: {}.",
            new.join(", ")
        ));
    }
    for tool in tools.iter().filter(is_known) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&format!(
            "{MARKER} The tool `{}` has changed. Its input schema is now {}. Its description is now:\n\n{}",
            tool.name, tool.input_schema, tool.description
        ));
    }
    text
}
