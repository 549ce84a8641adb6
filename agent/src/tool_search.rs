//! Tool search: many tools of servers are listed by name, and the model asks for the definitions that it needs.
//!
//! Neither searching nor calling changes what earlier requests said. A model that takes tools at the end of a conversation
//! gets what was found like any other new tool, and calls it itself. For others the definition is part of the result of the
//! search, and the tool is called through a second tool of ours; the call counts under the found tool's own name: for rules,
//! hooks, the journal and the display.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_conversation::{
    Access, Context, Input, Interface, Output, ResultBlock, Role, Tool, ToolExtras, ToolName,
    ToolSpec, ToolUse, Transcript, is_same_tool, json,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::own_spec::own_spec;

/// Largest number of tools of servers that are all sent with their definitions.
const MOST_TOOLS: usize = 30;
/// Largest size in bytes of the definitions of servers' tools that are all sent.
const MOST_BYTES: usize = 20_000;
/// Maximum size of the list of tools, in bytes.
const LIST_BYTES: usize = 1_400;
/// Length in characters from which a description in the list is worth its place.
const WORTHWHILE: usize = 16;
/// Maximum number of definitions that a search by words returns.
const MOST_FOUND: usize = 5;
/// Name of the tool that searches, in the own interface.
const SEARCH: &str = "tool_search";
/// First line of a result whose further lines name tools that are added to the conversation.
const AVAILABLE: &str = "These tools are available from now on:";

/// Condition for tool search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolSearchMode {
    /// All definitions are sent.
    Off,
    /// Servers with more than 30 tools, or more than 20,000 bytes of definitions, are searched.
    #[default]
    Auto,
    /// All servers' tools are searched.
    On,
}

impl ToolSearchMode {
    /// Returns whether these tools of servers are listed only.
    fn defers<'a>(self, tools: impl Iterator<Item = &'a ToolSpec>) -> bool {
        let sizes: Vec<_> = tools.map(size).collect();
        match self {
            Self::Off => false,
            Self::Auto => sizes.len() > MOST_TOOLS || sizes.iter().sum::<usize>() > MOST_BYTES,
            Self::On => !sizes.is_empty(),
        }
    }
}

/// Returns whether a tool of this name can be left to tool search.
pub(crate) fn is_searchable(name: &str) -> bool {
    ToolName(name).is_of_server()
}

fn size(spec: &ToolSpec) -> usize {
    spec.name.len() + spec.description.len() + spec.input_schema.to_string().len()
}

/// Returns the descriptions that a first request has, of all `specs` of a session, for a model that takes tools only at
/// the beginning.
pub fn sent(mode: ToolSearchMode, interface: Interface, specs: Vec<ToolSpec>) -> Vec<ToolSpec> {
    let mut search = ToolSearch::new(mode, interface);
    let (searchable, mut sent): (Vec<_>, Vec<_>) =
        { specs.iter().cloned() }.partition(|spec| is_searchable(&spec.name));
    if !search.takes(searchable.iter()) {
        return specs;
    }
    let tools = search.tools(searchable.into());
    sent.extend(tools.iter().map(|tool| tool.spec().clone()));
    sent
}

/// Returns the names of the tools that searches since the last answer have found and that are to be added.
pub(crate) fn announced(transcript: &Transcript) -> Vec<&str> {
    let messages = transcript.messages();
    let Some(answer) = { messages.iter() }.rposition(|message| message.role == Role::Assistant)
    else {
        return Vec::new();
    };
    let calls = messages[answer].tool_uses();
    let searches: Vec<_> = calls
        .filter(|call| call.name == SEARCH || is_same_tool(&call.name, SEARCH))
        .map(|call| &call.id)
        .collect();
    let results = messages[answer..]
        .iter()
        .flat_map(|message| message.tool_results())
        .filter(|result| searches.contains(&&result.tool_use_id));
    let texts = results.flat_map(|result| &result.content);
    let lists = texts.filter_map(|block| match block {
        ResultBlock::Text { text } => text.strip_prefix(AVAILABLE),
        ResultBlock::Image(_) | ResultBlock::Audio(_) => None,
    });
    lists.flat_map(str::lines).collect()
}

/// The tools, which share the definitions that they find and call.
pub(crate) struct ToolSearch {
    pub(crate) mode: ToolSearchMode,
    pub(crate) interface: Interface,
    /// Whether the model takes found tools at the end of the conversation.
    pub(crate) appends: bool,
    /// Whether tools were left to the search before: then later ones are as well.
    pub(crate) is_on: bool,
    found: Arc<Mutex<Arc<[ToolSpec]>>>,
}

impl ToolSearch {
    pub(crate) fn new(mode: ToolSearchMode, interface: Interface) -> Self {
        Self {
            mode,
            interface,
            appends: false,
            is_on: false,
            found: Arc::new(Mutex::new(Arc::new([]))),
        }
    }

    /// Returns whether these tools of servers are left to the search.
    pub(crate) fn takes<'a>(&mut self, tools: impl Iterator<Item = &'a ToolSpec>) -> bool {
        self.is_on = self.is_on || self.mode.defers(tools);
        self.is_on
    }

    /// Sets the tools that can be found, and returns the tools for it. They are the same as before unless the list in the
    /// description differs.
    pub(crate) fn tools(&self, specs: Arc<[ToolSpec]>) -> Vec<Arc<dyn Tool>> {
        let call = self.interface.tool_name("tool_call");
        let purpose = match self.appends {
            true => "Makes servers' tools available for calling.".to_owned(),
            false => {
                format!("Returns definitions of servers' tools, which are called with `{call}`.")
            }
        };
        let description = format!(
            "{purpose} `query`: words, or names.{}",
            list(&specs, LIST_BYTES)
        );
        *self.found.lock() = specs;
        let search = FindTool {
            spec: own_spec(
                &self.interface.tool_name(SEARCH),
                description,
                &json!({"query": {"type": "string"}}),
                &["query"],
            ),
            call: (!self.appends).then(|| call.clone()),
            tools: self.found.clone(),
        };
        if self.appends {
            return vec![Arc::new(search)];
        }
        let call = CallTool(own_spec(
            &call,
            "Calls a tool that was found, with `input` as its definition says.".to_owned(),
            &json!({"name": {"type": "string"}, "input": {"type": "object"}}),
            &["name", "input"],
        ));
        vec![Arc::new(search), Arc::new(call)]
    }
}

/// Tool that finds tools.
struct FindTool {
    spec: ToolSpec,
    /// The tool that calls what was found; `None` if it is added to the conversation.
    call: Option<String>,
    tools: Arc<Mutex<Arc<[ToolSpec]>>>,
}

#[async_trait]
impl Tool for FindTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let query = call.input.text("query").unwrap_or_default();
        let tools = self.tools.lock().clone();
        let found = find(&tools, query);
        if found.is_empty() {
            return Output::error(format!(
                "no tool matches `{query}`; the tools are:{}",
                list(&tools, 10 * LIST_BYTES)
            ));
        }
        let Some(call) = &self.call else {
            let names: Vec<_> = found.iter().map(|spec| spec.name.as_str()).collect();
            return Output::text(format!("{AVAILABLE}\n{}", names.join("\n")));
        };
        let definitions = found.iter().map(|spec| {
            json!({
                "name": spec.name,
                "description": spec.description,
                "input_schema": *spec.input_schema,
            })
            .to_string()
        });
        let definitions: Vec<_> = definitions.collect();
        Output::text(format!(
            "Call these with `{call}`:\n{}",
            definitions.join("\n")
        ))
    }
}

/// Tool that stands for a call of another tool, see [`ToolExtras::stands_for`]; it never runs itself.
struct CallTool(ToolSpec);

#[async_trait]
impl Tool for CallTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            stands_for: Some(stands_for),
            ..ToolExtras::default()
        }
    }

    async fn run(&self, _: &ToolUse, _: &Context) -> Output {
        Output::error("`name` must be the name of another tool")
    }
}

/// Returns the name and the input of the call that a call with this input stands for.
fn stands_for(input: &Input) -> Option<(String, Input)> {
    let name = input.text("name")?.to_owned();
    let input = match input.get("input") {
        // Some models send the object as text.
        Some(Value::String(text)) => {
            json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(input) => input.clone(),
        None => json!({}),
    };
    Some((name, input.into()))
}

/// Returns the tools that `query` names, else those that match its words best.
fn find<'a>(tools: &'a [ToolSpec], query: &str) -> Vec<&'a ToolSpec> {
    let query = query.trim();
    let names = query.strip_prefix("select:").unwrap_or(query);
    let names: Vec<_> = names
        .split([',', ' ', '\n'])
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    let is_named = |spec: &&ToolSpec| {
        let own = own_name(&spec.name);
        names
            .iter()
            .any(|name| spec.name.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(name))
    };
    let named: Vec<_> = tools.iter().filter(is_named).collect();
    if !named.is_empty() {
        return named;
    }
    let words = query.to_lowercase();
    let words: Vec<_> = words
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let mut scored: Vec<_> = tools
        .iter()
        .map(|spec| (score(spec, &words), spec))
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let found = scored.into_iter().take(MOST_FOUND);
    found.map(|(_, spec)| spec).collect()
}

/// Returns how well a tool matches: words of its name count most, then those of its description and its arguments.
fn score(spec: &ToolSpec, words: &[&str]) -> usize {
    let texts = [
        (4, spec.name.to_lowercase()),
        (2, spec.description.to_lowercase()),
        (1, spec.input_schema.to_string().to_lowercase()),
    ];
    let points = |word: &&str| {
        let holding = texts.iter().filter(|(_, text)| text.contains(*word));
        holding.map(|(points, _)| points).sum::<usize>()
    };
    words.iter().map(points).sum()
}

/// Splits the name of a server's tool into the server's part and its own.
fn split_name(name: &str) -> (&str, &str) {
    let rest = ToolName(name).plain();
    match rest.split_once("__") {
        Some((_, own)) => (&name[..name.len() - own.len()], own),
        None => ("", name),
    }
}

fn own_name(name: &str) -> &str {
    split_name(name).1
}

/// Returns the list of tools by server, at most `limit` bytes long: as much of each description as there is place for,
/// else the names alone, else as many names as fit.
fn list(tools: &[ToolSpec], limit: usize) -> String {
    let mut servers: BTreeMap<&str, Vec<&ToolSpec>> = BTreeMap::new();
    for spec in tools {
        let server = split_name(&spec.name).0;
        servers.entry(server).or_default().push(spec);
    }
    let heads: usize = servers.keys().map(|server| server.len() + 3).sum();
    let names: usize = { tools.iter() }
        .map(|spec| own_name(&spec.name).len() + 3)
        .sum();
    let place = limit.saturating_sub(heads + names) / tools.len().max(1);
    let mut list = String::new();
    for (server, tools_of_it) in servers {
        let share = match heads + names > limit {
            true => limit * tools_of_it.len() / tools.len(),
            false => limit,
        };
        let mut part = format!("\n{server}*:");
        for (at, spec) in tools_of_it.iter().enumerate() {
            let own = own_name(&spec.name);
            let entry = match place >= WORTHWHILE {
                true => format!("\n{own}: {}", start_of(&spec.description, place)),
                false => format!(" {own}"),
            };
            let more = format!(" and {} more", tools_of_it.len() - at);
            let is_last = at + 1 == tools_of_it.len();
            let needed = entry.len() + if is_last { 0 } else { more.len() };
            let is_shorter = !is_last || more.len() < entry.len();
            if part.len() + needed > share && is_shorter {
                part.push_str(&more);
                break;
            }
            part.push_str(&entry);
        }
        list.push_str(&part);
    }
    list
}

/// Returns the beginning of a text in one line, at most `limit` bytes.
fn start_of(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = line.split_once(". ").map_or(&*line, |(first, _)| first);
    let mut end = sentence.len().min(limit);
    while !sentence.is_char_boundary(end) {
        end -= 1;
    }
    sentence[..end].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
