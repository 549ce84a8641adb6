//! The tools that a server offers, as the model may be told of them. One that no vendor would accept costs itself and
//! not the whole request, so it is left out, by name.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{ServerTool, ToolSpec, Truncation};
use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, Tool};
use rmcp::service::Peer;
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::name::{clean, clean_line, tool_name};

/// How many tools of one server the model is told of.
const MOST_TOOLS: usize = 256;
/// How many bytes the tools of one server may have together, in names, descriptions and schemas.
const MOST_BYTES: usize = 512 * 1024;
const MOST_PAGES: usize = 64;
const LONGEST_DESCRIPTION: usize = 2_048;
const LONGEST_SCHEMA: usize = 64 * 1024;
/// The longest name of an argument that every vendor takes.
const LONGEST_ARGUMENT: usize = 64;

/// What a server offers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<Definition>,
    /// Tools that cannot be used, with the reason.
    pub(crate) left_out: Vec<String>,
    /// What the tools have together.
    bytes: usize,
}

/// One tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) spec: ToolSpec,
    /// What the server says of it.
    pub(crate) status: ServerTool,
}

/// Asks a server for its tools.
pub(crate) async fn ask(
    peer: &Peer<RoleClient>,
    server: &str,
    patience: Duration,
) -> Result<Listing, Fault> {
    let all = tokio::time::timeout(patience, pages(peer, server)).await;
    all.map_err(|_| Fault::failed("it did not list its tools in time"))?
}

async fn pages(peer: &Peer<RoleClient>, server: &str) -> Result<Listing, Fault> {
    let mut listing = Listing::default();
    let has_tools = peer
        .peer_info()
        .is_some_and(|info| info.capabilities.tools.is_some());
    if !has_tools {
        return Ok(listing);
    }
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(page)).await;
        let page = page.map_err(|fault| Fault::of(&fault))?;
        page.tools
            .iter()
            .for_each(|tool| listing.offer(server, tool));
        cursor = page.next_cursor;
        if cursor.is_none() || listing.is_full() {
            break;
        }
    }
    if cursor.is_some() {
        listing.leave_out("the list goes on and was not read on".to_owned());
    }
    Ok(listing)
}

impl Listing {
    /// Takes up a tool of the server, behind those before it, if it can be used.
    fn offer(&mut self, server: &str, tool: &Tool) {
        match self.check(server, tool) {
            Ok((definition, bytes)) => {
                self.tools.push(definition);
                self.bytes += bytes;
            }
            Err(reason) => self.leave_out(format!("{}: {reason}", clean_line(&tool.name, 100))),
        }
    }

    /// The tool and its bytes; the reason, where it cannot be used.
    fn check(&self, server: &str, tool: &Tool) -> Result<(Definition, usize), String> {
        let definition = definition(server, tool)?;
        let spec = &definition.spec;
        let bytes = spec.name.len() + spec.description.len() + spec.input_schema.to_string().len();
        if self.tools.len() == MOST_TOOLS {
            return Err(format!("more than {MOST_TOOLS} tools"));
        }
        if self.bytes + bytes > MOST_BYTES {
            return Err(format!("more than {MOST_BYTES} bytes of tools"));
        }
        let mut known = self.tools.iter().map(|known| &known.spec.name);
        match known.any(|name| *name == spec.name) {
            true => Err(format!("there is another `{}`", spec.name)),
            false => Ok((definition, bytes)),
        }
    }

    fn leave_out(&mut self, line: String) {
        if self.left_out.len() < MOST_TOOLS {
            self.left_out.push(line);
        }
    }

    fn is_full(&self) -> bool {
        self.tools.len() == MOST_TOOLS || self.left_out.len() == MOST_TOOLS
    }
}

fn definition(server: &str, tool: &Tool) -> Result<Definition, String> {
    if tool.name.is_empty() {
        return Err("it has no name".to_owned());
    }
    let title = tool.title.as_deref();
    let description = tool.description.as_deref().or(title).unwrap_or_default();
    let description = clean(description, LONGEST_DESCRIPTION);
    let name = tool_name(server, &tool.name);
    let hints = tool.annotations.as_ref();
    Ok(Definition {
        status: ServerTool {
            name: name.clone(),
            own_name: tool.name.to_string(),
            description: description.clone(),
            read_only: hints.and_then(|hints| hints.read_only_hint),
            destructive: hints.and_then(|hints| hints.destructive_hint),
            open_world: hints.and_then(|hints| hints.open_world_hint),
        },
        spec: ToolSpec {
            name,
            description,
            input_schema: Arc::new(schema(&tool.input_schema)?),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        },
    })
}

/// A schema that every vendor takes: one of the present draft, of an object, without alternatives at its top, which
/// the server checks itself.
fn schema(offered: &Map<String, Value>) -> Result<Value, String> {
    let mut schema = offered.clone();
    schema.insert("type".to_owned(), "object".into());
    for key in ["$schema", "anyOf", "oneOf", "allOf"] {
        schema.shift_remove(key);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut names = properties.into_iter().flatten().map(|(name, _)| name);
    if let Some(name) = names.find(|name| !is_argument(name)) {
        return Err(format!(
            "no model takes an argument `{}`",
            clean_line(name, 100)
        ));
    }
    let schema = Value::Object(schema);
    if schema.to_string().len() > LONGEST_SCHEMA {
        return Err(format!("its schema has more than {LONGEST_SCHEMA} bytes"));
    }
    match jsonschema::draft202012::meta::is_valid(&schema) {
        true => Ok(schema),
        false => Err("its schema is none".to_owned()),
    }
}

fn is_argument(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=LONGEST_ARGUMENT).contains(&name.len()) && name.bytes().all(is_plain)
}
