//! Our own tools about servers: what there is, and their resources, which the protocol keeps apart from their tools.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, ServerState, Tool, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, ReadResourceRequestParams};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::name::{clean, clean_line};
use crate::remote_tool::explain;
use crate::result;
use crate::servers::{Naming, Server, Shared, settled};

const MOST_PAGES: usize = 64;
const MOST_RESOURCES: usize = 1_000;

fn spec(name: &str, description: String, properties: &Value, required: &[&str]) -> ToolSpec {
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

/// How the servers are. It waits for those that start, so that a model that needs their tools can.
pub(crate) struct Overview {
    spec: ToolSpec,
    servers: Arc<[Arc<Server>]>,
}

impl Overview {
    pub(crate) fn new(servers: Arc<[Arc<Server>]>, naming: Naming) -> Self {
        let name = match naming {
            Naming::Own => "mcp_servers",
            Naming::Sdk => "McpServers",
        };
        let names: Vec<_> = servers
            .iter()
            .map(|server| clean_line(&server.name, 100))
            .collect();
        let mut description = format!(
            "Waits until the MCP servers of this session have started, then lists them with their tools. Servers: {}. \
             Their tools are called mcp__SERVER__TOOL; while a server starts they are not in your list of tools. Use \
             this when you need a tool of a server and do not have it.",
            names.join(", ")
        );
        for (server, name) in servers.iter().zip(names) {
            let instructions = server.instructions();
            if !instructions.trim().is_empty() {
                description.push_str(&format!("\n\nInstructions of {name}:\n{instructions}"));
            }
        }
        Self {
            spec: spec(name, description, &json!({}), &[]),
            servers,
        }
    }
}

#[async_trait]
impl Tool for Overview {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    async fn run(&self, _: &ToolUse, _: &Context) -> Output {
        settled(&self.servers).await;
        let lines: Vec<_> = self.servers.iter().map(|server| line(server)).collect();
        Output::text(lines.join("\n"))
    }
}

fn line(server: &Server) -> String {
    let status = server.status();
    let state = status.state.as_str();
    let name = clean_line(&status.name, 100);
    match (status.state, status.error) {
        (_, Some(error)) => format!("{name}: {state}: {error}"),
        (ServerState::Connected, None) if status.tools.is_empty() => {
            format!("{name}: {state}, without tools")
        }
        (_, None) => format!("{name}: {state}: {}", status.tools.join(", ")),
    }
}

/// A tool of a server that is still starting.
pub(crate) struct Awaited {
    spec: ToolSpec,
    server: Arc<Server>,
}

impl Awaited {
    pub(crate) fn new(server: Arc<Server>, name: &str) -> Self {
        Self {
            spec: spec(name, String::new(), &json!({}), &[]),
            server,
        }
    }
}

#[async_trait]
impl Tool for Awaited {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        vec![Access::Unknown]
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        if let Err(reason) = self.server.line().peer().await {
            return Output::error(reason);
        }
        match self.server.tool(&self.spec.name) {
            Some(tool) => tool.run(call, context).await,
            None => {
                let tools = self.server.status().tools.join(", ");
                Output::error(format!(
                    "there is no tool `{}`; those of its server are: {tools}",
                    clean_line(&self.spec.name, 200)
                ))
            }
        }
    }
}

/// The resources of all servers that have some.
#[derive(Clone)]
pub(crate) struct Resources {
    servers: Arc<[Arc<Server>]>,
    shared: Arc<Shared>,
}

/// The two tools that give them.
pub(crate) fn resource_tools(resources: &Resources, naming: Naming) -> [Arc<dyn Tool>; 2] {
    let (list, read) = match naming {
        Naming::Own => ("mcp_resources", "mcp_read"),
        Naming::Sdk => ("ListMcpResources", "ReadMcpResource"),
    };
    let server = json!({"type": "string", "description": "The server's name"});
    let uri = json!({"type": "string", "description": "The resource's URI"});
    let about_list = format!(
        "Lists the resources that MCP servers offer, of all servers or of one, each with the URI that `{read}` takes."
    );
    let about_read = "Reads a resource of an MCP server.".to_owned();
    [
        Arc::new(List {
            spec: spec(list, about_list, &json!({"server": server}), &[]),
            resources: resources.clone(),
        }),
        Arc::new(Read {
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

    /// The servers of this name, or all.
    fn of(&self, name: Option<&str>) -> Result<Vec<&Arc<Server>>, String> {
        let with_resources = self.servers.iter().filter(|server| server.has_resources());
        let Some(name) = name else {
            return Ok(with_resources.collect());
        };
        let known: Vec<_> = with_resources.map(|server| server.name.as_str()).collect();
        let server = self.servers.iter().find(|server| server.name == name);
        server.map(|server| vec![server]).ok_or_else(|| {
            format!(
                "there is no server `{}`; those with resources are {}",
                clean_line(name, 100),
                known.join(", ")
            )
        })
    }

    async fn within<T>(
        &self,
        answer: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, String> {
        match timeout(self.shared.options.call_timeout, answer).await {
            Ok(answer) => answer.map_err(|fault| explain(&fault)),
            Err(_) => Err("the server did not answer in time".to_owned()),
        }
    }

    async fn list(&self, server: &Server) -> Result<Vec<Value>, String> {
        let peer = server.line().peer().await?;
        self.within(list(&peer, &server.name)).await
    }
}

async fn list(peer: &Peer<RoleClient>, server: &str) -> Result<Vec<Value>, ServiceError> {
    let mut resources = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_resources(Some(page)).await?;
        for resource in page.resources {
            resources.push(json!({
                "server": server,
                "uri": clean_line(&resource.uri, 2_000),
                "name": clean_line(&resource.name, 200),
                "mimeType": resource.mime_type.map(|it| clean_line(&it, 100)),
                "description": resource.description.map(|it| clean(&it, 500)),
            }));
        }
        cursor = page.next_cursor;
        if cursor.is_none() || resources.len() > MOST_RESOURCES {
            break;
        }
    }
    // A server without templates need not know the question.
    let templates = peer.list_resource_templates(None).await;
    for template in templates
        .map(|page| page.resource_templates)
        .unwrap_or_default()
    {
        resources.push(json!({
            "server": server,
            "uriTemplate": clean_line(&template.uri_template, 2_000),
            "name": clean_line(&template.name, 200),
            "description": template.description.map(|it| clean(&it, 500)),
        }));
    }
    resources.truncate(MOST_RESOURCES);
    Ok(resources)
}

struct List {
    spec: ToolSpec,
    resources: Resources,
}

#[async_trait]
impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let servers = match self
            .resources
            .of(call.input.get("server").and_then(Value::as_str))
        {
            Ok(servers) => servers,
            Err(reason) => return Output::error(reason),
        };
        let mut lines = Vec::new();
        for server in servers {
            match self.resources.list(server).await {
                Ok(resources) => lines.extend(resources.iter().map(Value::to_string)),
                Err(reason) => lines.push(reason),
            }
        }
        match lines.is_empty() {
            true => Output::text("no resources"),
            false => Output::text(lines.join("\n")),
        }
    }
}

struct Read {
    spec: ToolSpec,
    resources: Resources,
}

impl Read {
    async fn read(&self, input: &Input) -> Result<Output, String> {
        let argument = |name| input.get(name).and_then(Value::as_str).unwrap_or_default();
        let servers = self.resources.of(Some(argument("server")))?;
        let server = servers.first().ok_or("there is no such server")?;
        let peer = server.line().peer().await?;
        let params = ReadResourceRequestParams::new(argument("uri"));
        let answer = self.resources.within(peer.read_resource(params)).await?;
        Ok(result::resource(answer.contents))
    }
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// The URI is the model's and goes to somebody else; that reading changes nothing is what the protocol promises.
    fn access(&self, _: &Input) -> Vec<Access> {
        vec![Access::Promised]
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        self.read(&call.input).await.unwrap_or_else(Output::error)
    }
}
