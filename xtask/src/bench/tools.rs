//! What the tools of MCP servers take of each request: all definitions, and with tool search.
//!
//! Nothing here is a time of this machine. A token is taken for four bytes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use super::answer::says;
use super::process::Pair;
use super::table::{Figure, Row};

/// Servers and tools of each, as in a usual setup of seven servers.
const SERVERS: usize = 7;
const TOOLS: usize = 10;

/// Measures the first request of sessions with 70 tools, less that of one without.
pub fn tools(pair: &Pair) -> Result<Vec<Row>> {
    let agent = &pair.agent;
    let folder = agent.folder()?;
    let servers: Result<serde_json::Map<_, _>> = (0..SERVERS)
        .map(|number| Ok((format!("s{number}"), server(&folder, number)?)))
        .collect();
    let servers = Value::Object(servers?);
    let tokens = |settings: &Value| -> Result<usize> {
        let settings = settings.to_string();
        let script = Arc::new(|_| says("Done."));
        let bodies = agent.requests(&folder, &settings, &["-n", "go"], 1, script)?;
        Ok(bodies[0].len() / 4)
    };
    let without = tokens(&json!({}))?;
    let of = |search: &str| -> Result<usize> {
        let with = tokens(&json!({"mcpServers": servers, "toolSearch": search}))?;
        Ok(with.saturating_sub(without))
    };
    Ok(vec![Row {
        what: "70 tools of seven MCP servers in a request: all definitions, with tool search",
        figures: vec![
            Figure::tokens(of("off")?, 12_000.0),
            Figure::tokens(of("auto")?, 800.0),
        ],
        best: None,
    }])
}

/// Writes a server as a shell script, and returns its entry in the settings.
fn server(folder: &Path, number: usize) -> Result<Value> {
    let tools: Vec<_> = (0..TOOLS).map(|tool| definition(number, tool)).collect();
    let list = json!({"tools": tools});
    let greeting = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "bench", "version": "1"},
    });
    let script = format!(
        r#"while read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case $line in
*'"method":"initialize"'*) result='{greeting}' ;;
*'"method":"tools/list"'*) result='{list}' ;;
*) continue ;;
esac
printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$result"
done
"#
    );
    let path = folder.join(format!("server-{number}.sh"));
    fs::write(&path, script)?;
    Ok(json!({"command": "sh", "args": [path]}))
}

/// Returns a definition of about 600 bytes, as those of usual servers are.
fn definition(server: usize, tool: usize) -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    json!({
        "name": format!("update_record_{server}_{tool}"),
        "description": "Updates a record in the register. Fields that are left out stay as they are. Returns the whole \
                        record after the change, with the time and the author of its last change.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": text("The id of the record, as a search returns it"),
                "title": text("The new title of the record"),
                "body": text("The new text of the record, in Markdown"),
                "labels": {"type": "array", "items": {"type": "string"}, "description": "Labels; they replace all others"},
            },
            "required": ["id"],
        },
    })
}
