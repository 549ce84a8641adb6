//! The tools that a server offers, as the model may be told of them. One that no vendor would accept costs itself and
//! not the whole request, so it is left out, by name.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{ToolSpec, Truncation};
use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, Tool};
use rmcp::service::Peer;
use serde_json::{Map, Value};

use crate::connection::Fault;
use crate::name::{clean, clean_line, tool_name};

/// How many tools of one server the model is told of.
const MOST_TOOLS: usize = 256;
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
}

/// One tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    /// Its name at the server.
    pub(crate) name: String,
    pub(crate) spec: ToolSpec,
    /// Whether the server says that it changes nothing.
    pub(crate) is_read_only: bool,
}

/// Asks a server for its tools.
pub(crate) async fn ask(
    peer: &Peer<RoleClient>,
    server: &str,
    patience: Duration,
) -> Result<Listing, Fault> {
    let all = tokio::time::timeout(patience, pages(peer)).await;
    let all = all.map_err(|_| Fault::failed("it did not list its tools in time"))?;
    Ok(listing(server, all?))
}

async fn pages(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, Fault> {
    let mut tools = Vec::new();
    let has_tools = peer
        .peer_info()
        .is_some_and(|info| info.capabilities.tools.is_some());
    if !has_tools {
        return Ok(tools);
    }
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(page)).await;
        let page = page.map_err(|fault| Fault::of(&fault))?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() > MOST_TOOLS {
            break;
        }
    }
    Ok(tools)
}

/// The tools that can be used, in the server's order.
fn listing(server: &str, offered: Vec<Tool>) -> Listing {
    let mut listing = Listing::default();
    let mut names = BTreeSet::new();
    for tool in offered {
        let reason = match definition(server, &tool) {
            Err(reason) => reason,
            Ok(_) if listing.tools.len() == MOST_TOOLS => format!("more than {MOST_TOOLS} tools"),
            Ok(definition) if names.insert(definition.spec.name.clone()) => {
                listing.tools.push(definition);
                continue;
            }
            Ok(definition) => format!("there is another `{}`", definition.spec.name),
        };
        if listing.left_out.len() < MOST_TOOLS {
            let name = clean_line(&tool.name, 100);
            listing.left_out.push(format!("{name}: {reason}"));
        }
    }
    listing
}

fn definition(server: &str, tool: &Tool) -> Result<Definition, String> {
    if tool.name.is_empty() {
        return Err("it has no name".to_owned());
    }
    let title = tool.title.as_deref();
    let description = tool.description.as_deref().or(title).unwrap_or_default();
    let hints = tool.annotations.as_ref();
    Ok(Definition {
        name: tool.name.to_string(),
        spec: ToolSpec {
            name: tool_name(server, &tool.name),
            description: clean(description, LONGEST_DESCRIPTION),
            input_schema: Arc::new(schema(&tool.input_schema)?),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        },
        is_read_only: hints.and_then(|hints| hints.read_only_hint) == Some(true),
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
