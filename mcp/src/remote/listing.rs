//! The tools of a server, checked and limited for the model. A vendor refuses a whole request for one invalid tool, so
//! such a tool is left out, and reported by name.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{ServerTool, ToolSpec, Truncation};
use rmcp::RoleClient;
use rmcp::model::Tool;
use rmcp::service::Peer;
use serde_json::{Map, Value};

use crate::remote::argument_names::{self, OwnNames};
use crate::remote::error::ServerError;
use crate::remote::name::{clean, clean_line, tool_name};
use crate::remote::page;

/// Maximum number of tools of one server.
const MOST_TOOLS: usize = 256;
/// Maximum size of all tools of one server, in bytes of names, descriptions and schemas.
const MOST_BYTES: usize = 512 * 1024;
const MOST_PAGES: usize = 64;
const LONGEST_DESCRIPTION: usize = 2_048;
const LONGEST_SCHEMA: usize = 64 * 1024;

/// Usable tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolListing {
    pub(crate) tools: Vec<ToolDefinition>,
    /// Unusable tools, one line each: name and reason.
    pub(crate) left_out: Vec<String>,
    /// Size of all tools in bytes.
    bytes: usize,
}

/// A usable tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolDefinition {
    pub(crate) spec: ToolSpec,
    /// The server's own names of arguments that the model sees under others.
    pub(crate) own_names: OwnNames,
    /// Schema of its structured results, if it declares one.
    pub(crate) output_schema: Option<Value>,
    /// The tool as the server describes it.
    pub(crate) status: ServerTool,
}

/// Requests the tools of a server, all pages within `time_limit`.
pub(crate) async fn request(
    peer: &Peer<RoleClient>,
    server: &str,
    time_limit: Duration,
) -> Result<ToolListing, ServerError> {
    tokio::time::timeout(time_limit, pages(peer, server))
        .await
        .map_err(|_| ServerError::transient("it did not list its tools in time"))?
}

async fn pages(peer: &Peer<RoleClient>, server: &str) -> Result<ToolListing, ServerError> {
    let mut listing = ToolListing::default();
    let has_tools = peer
        .peer_info()
        .is_some_and(|info| info.capabilities.tools.is_some());
    if !has_tools {
        return Ok(listing);
    }
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = page::tools(peer, cursor)
            .await
            .map_err(|error| ServerError::of_request(&error))?;
        for tool in &page.entries {
            listing.add(server, tool);
        }
        for line in page.left_out {
            listing.leave_out(line);
        }
        cursor = page.next;
        if cursor.is_none() || listing.is_full() {
            break;
        }
    }
    if cursor.is_some() {
        listing.leave_out("the rest of the list, which is too long".to_owned());
    }
    Ok(listing)
}

impl ToolListing {
    /// Appends a tool of the server if it is usable.
    fn add(&mut self, server: &str, tool: &Tool) {
        match self.check(server, tool) {
            Ok((definition, bytes)) => {
                self.tools.push(definition);
                self.bytes += bytes;
            }
            Err(reason) => self.leave_out(format!("{}: {reason}", clean_line(&tool.name, 100))),
        }
    }

    /// Returns the tool and its size, or why it is unusable.
    fn check(&self, server: &str, tool: &Tool) -> Result<(ToolDefinition, usize), String> {
        let definition = definition(server, tool)?;
        let spec = &definition.spec;
        let bytes = spec.name.len() + spec.description.len() + spec.input_schema.to_string().len();
        if self.tools.len() == MOST_TOOLS {
            return Err(format!("more than {MOST_TOOLS} tools"));
        }
        if self.bytes + bytes > MOST_BYTES {
            return Err(format!("more than {MOST_BYTES} bytes of tools"));
        }
        if self.tools.iter().any(|known| known.spec.name == spec.name) {
            return Err(format!("duplicate name `{}`", spec.name));
        }
        Ok((definition, bytes))
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

fn definition(server: &str, tool: &Tool) -> Result<ToolDefinition, String> {
    if tool.name.is_empty() {
        return Err("it has no name".to_owned());
    }
    let described = tool.description.as_deref().or(tool.title.as_deref());
    let description = clean(described.unwrap_or_default(), LONGEST_DESCRIPTION);
    let name = tool_name(server, &tool.name);
    let hints = tool.annotations.as_ref();
    let promised = tool.output_schema.as_ref();
    let (input_schema, own_names) = schema(&tool.input_schema)?;
    Ok(ToolDefinition {
        own_names,
        output_schema: promised.map(|schema| Value::Object((**schema).clone())),
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
            input_schema: Arc::new(input_schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        },
    })
}

/// Returns a schema that every vendor accepts: JSON Schema 2020-12, of an object, without alternatives at the top
/// level, which the server checks itself; and the names that were replaced for that.
fn schema(offered: &Map<String, Value>) -> Result<(Value, OwnNames), String> {
    let mut schema = offered.clone();
    schema.insert("type".to_owned(), "object".into());
    for key in ["$schema", "anyOf", "oneOf", "allOf"] {
        schema.shift_remove(key);
    }
    let own_names = argument_names::replace(&mut schema);
    let schema = Value::Object(schema);
    if schema.to_string().len() > LONGEST_SCHEMA {
        return Err(format!("its schema is longer than {LONGEST_SCHEMA} bytes"));
    }
    match ah_schema::check(&schema) {
        Ok(()) => Ok((schema, own_names)),
        Err(_) => Err("its schema is not valid JSON Schema".to_owned()),
    }
}
