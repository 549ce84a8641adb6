//! Resources of servers, which the protocol keeps apart from tools: two built-in tools list and read them, and hosts
//! reach them directly.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
    Truncation,
};
use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::{ReadResourceRequestParams, ResourceContents};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::remote::explain::explain;
use crate::remote::name::{clean, clean_line};
use crate::remote::page;
use crate::remote::result;
use crate::remote::server::{Server, Shared};
use crate::remote::tool::access;

const MOST_PAGES: usize = 64;
const MOST_RESOURCES: usize = 1_000;

/// Lists the resources and resource templates of a server.
pub(crate) async fn list(server: &Server, shared: &Shared) -> Result<Vec<Value>, String> {
    let peer = server.link().connected().await?.peer;
    within_timeout(pages(&peer, &server.name), shared).await
}

/// Reads the contents of a resource.
pub(crate) async fn read(
    server: &Server,
    uri: &str,
    shared: &Shared,
) -> Result<Vec<ResourceContents>, String> {
    let peer = server.link().connected().await?.peer;
    let response = peer.read_resource(ReadResourceRequestParams::new(uri));
    Ok(within_timeout(response, shared).await?.contents)
}

async fn within_timeout<T>(
    response: impl Future<Output = Result<T, ServiceError>>,
    shared: &Shared,
) -> Result<T, String> {
    match timeout(shared.options.call_timeout, response).await {
        Ok(response) => response.map_err(|error| explain(&error, None)),
        Err(_) => Err("the server did not respond in time".to_owned()),
    }
}

async fn pages(peer: &Peer<RoleClient>, server: &str) -> Result<Vec<Value>, ServiceError> {
    let mut resources = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = page::resources(peer, cursor).await?;
        for line in page.left_out {
            tracing::warn!(server, "resource left out: {line}");
        }
        for resource in page.entries {
            resources.push(object([
                ("server", Some(server.to_owned())),
                ("uri", Some(clean_line(&resource.uri, 2_000))),
                ("name", Some(clean_line(&resource.name, 200))),
                (
                    "mimeType",
                    resource.mime_type.map(|it| clean_line(&it, 100)),
                ),
                (
                    "description",
                    resource.description.map(|it| clean(&it, 500)),
                ),
            ]));
        }
        cursor = page.next;
        if cursor.is_none() || resources.len() > MOST_RESOURCES {
            break;
        }
    }
    // A server without templates need not implement the request.
    let templates = peer
        .list_resource_templates(None)
        .await
        .map(|page| page.resource_templates)
        .unwrap_or_default();
    for template in templates {
        resources.push(object([
            ("server", Some(server.to_owned())),
            (
                "uriTemplate",
                Some(clean_line(&template.uri_template, 2_000)),
            ),
            ("name", Some(clean_line(&template.name, 200))),
            (
                "description",
                template.description.map(|it| clean(&it, 500)),
            ),
        ]));
    }
    resources.truncate(MOST_RESOURCES);
    Ok(resources)
}

/// Returns an object of the fields that have a value.
fn object<const N: usize>(fields: [(&str, Option<String>); N]) -> Value {
    let known = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?))));
    Value::Object(known.collect::<Map<_, _>>())
}

/// Returns the specification of a built-in tool, whose input is an object of strings.
pub(crate) fn spec(
    name: &str,
    description: String,
    properties: &Value,
    required: &[&str],
) -> ToolSpec {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    ToolSpec {
        name: name.to_owned(),
        description,
        input_schema: Arc::new(schema),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: None,
    }
}

/// Resources of all servers.
#[derive(Clone)]
pub(crate) struct Resources {
    servers: Arc<[Arc<Server>]>,
    shared: Arc<Shared>,
}

/// Returns the two tools that list and read resources.
pub(crate) fn resource_tools(resources: &Resources, interface: Interface) -> [Arc<dyn Tool>; 2] {
    let (list, read) = match interface {
        Interface::Native => ("mcp_resources", "mcp_read"),
        Interface::AgentSdk => ("ListMcpResources", "ReadMcpResource"),
    };
    let server = json!({"type": "string", "description": "The server's name"});
    let uri = json!({"type": "string", "description": "The resource's URI"});
    let about_list = format!(
        "Lists the resources that MCP servers offer, of all servers or of one, each with the URI that `{read}` takes."
    );
    let about_read = "Reads a resource of an MCP server.".to_owned();
    [
        Arc::new(ListResources {
            spec: spec(list, about_list, &json!({"server": server}), &[]),
            resources: resources.clone(),
        }),
        Arc::new(ReadResource {
            spec: ToolSpec {
                key: Some(DisplayKey::Text("uri".to_owned())),
                ..spec(
                    read,
                    about_read,
                    &json!({"server": server, "uri": uri}),
                    &["server", "uri"],
                )
            },
            resources: resources.clone(),
        }),
    ]
}

impl Resources {
    pub(crate) fn new(servers: Arc<[Arc<Server>]>, shared: Arc<Shared>) -> Self {
        Self { servers, shared }
    }

    /// Returns the server of this name, or without a name all servers that have resources.
    fn servers(&self, name: Option<&str>) -> Result<Vec<&Arc<Server>>, String> {
        let with_resources = self.servers.iter().filter(|server| server.has_resources());
        let Some(name) = name else {
            return Ok(with_resources.collect());
        };
        let known: Vec<_> = with_resources.map(|server| server.name.as_str()).collect();
        let server = self.servers.iter().find(|server| server.name == name);
        server.map(|server| vec![server]).ok_or_else(|| {
            format!(
                "there is no server `{}`; servers with resources: {}",
                clean_line(name, 100),
                known.join(", ")
            )
        })
    }
}

struct ListResources {
    spec: ToolSpec,
    resources: Resources,
}

#[async_trait]
impl Tool for ListResources {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    /// Returns a line for each resource and template; the details are the resources without the templates.
    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let name = call.input.get("server").and_then(Value::as_str);
        let servers = match self.resources.servers(name) {
            Ok(servers) => servers,
            Err(reason) => return Output::error(reason),
        };
        let (mut lines, mut found) = (Vec::new(), Vec::new());
        for server in servers {
            match list(server, &self.resources.shared).await {
                Ok(resources) => {
                    lines.extend(resources.iter().map(Value::to_string));
                    found.extend(resources);
                }
                Err(reason) => lines.push(reason),
            }
        }
        found.retain(|resource| resource.get("uri").is_some());
        let text = if lines.is_empty() {
            "no resources".to_owned()
        } else {
            lines.join("\n")
        };
        Output::text(text).with_details(Value::Array(found))
    }
}

/// Returns the file that a URI names, without symbolic links if it exists; `None` for other URIs.
fn file_of(uri: &str) -> Option<PathBuf> {
    let (scheme, rest) = uri.trim().split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    // `file:///path`, `file://host/path` or `file:/path`.
    let path = match rest.strip_prefix("//") {
        Some(rest) => &rest[rest.find('/')?..],
        None => rest,
    };
    let path = path.split(['?', '#']).next()?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).ok()?);
                rest = ahead;
            }
            _ => bytes.push(byte),
        }
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    Some(std::fs::canonicalize(&path).unwrap_or(path))
}

struct ReadResource {
    spec: ToolSpec,
    resources: Resources,
}

impl ReadResource {
    async fn read(&self, input: &Input) -> Result<Output, String> {
        let argument = |name| input.get(name).and_then(Value::as_str).unwrap_or_default();
        let servers = self.resources.servers(Some(argument("server")))?;
        let server = servers.first().ok_or("there is no such server")?;
        let contents = read(server, argument("uri"), &self.resources.shared).await?;
        let details = result::resource_details(&contents);
        Ok(result::resource(contents).with_details(details))
    }
}

#[async_trait]
impl Tool for ReadResource {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// The model chooses the URI and sends it to the server; that reading changes nothing is only the protocol's claim.
    fn access(&self, input: &Input) -> Vec<Access> {
        let name = input.text("server");
        let server = self
            .resources
            .servers
            .iter()
            .find(|server| Some(server.name.as_str()) == name);
        let is_confined = server.is_some_and(|server| server.is_confined());
        // A file of this machine is read, whoever reads it: deny and ask rules know it.
        let file = input.text("uri").and_then(file_of).map(Access::Named);
        std::iter::once(access(is_confined, true))
            .chain(file)
            .collect()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        self.read(&call.input).await.unwrap_or_else(Output::error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_file() {
        for (uri, expected) in [
            ("file:///none/a%20b", Some("/none/a b")),
            ("FILE:///none/a%2Fb", Some("/none/a/b")),
            ("file://localhost/none/a?x#y", Some("/none/a")),
            ("file:/none/a", Some("/none/a")),
            ("file:///none/100%", Some("/none/100%")),
            ("file:///none/%zz", Some("/none/%zz")),
            ("file:///usr/../usr/.", Some("/usr")),
            ("file://host", None),
            ("note://one", None),
            ("x", None),
        ] {
            assert_eq!(file_of(uri), expected.map(PathBuf::from), "{uri}");
        }
    }
}
