//! An MCP server, whose messages go through channels: it dies, falls silent and comes back.

use std::collections::BTreeMap;
use std::future;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ah_conversation::{Environment, Interface, Servers, ToolName, ToolUse};
use ah_mcp::{Granted, Options, RemoteServers, SdkHost, SdkPipe, ServerEntry};
use futures_util::{sink, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::law::Law;
use crate::laws::written;
use crate::plant::PlantedFault;
use crate::world::World;

const NAME: &str = "simulated";
/// Time after which a server that says nothing has failed.
const PATIENCE: Duration = Duration::from_secs(100);

/// Returns the name of its tool.
pub(crate) fn tool() -> &'static str {
    static TOOL: LazyLock<String> = LazyLock::new(|| ToolName::of_server(NAME) + "act");
    &TOOL
}

/// Starts the server of a process.
pub(crate) fn start(world: &Arc<World>) -> Arc<dyn Servers> {
    let world = world.clone();
    let host = SdkHost::new(move |_| {
        let (sender, receiver) = mpsc::unbounded_channel();
        let world = world.clone();
        let to_host = sink::unfold(sender, move |sender, message: Value| {
            if let Some(said) = answer(&world, &message) {
                // A client that has gone needs no answer.
                let _ = sender.send(said);
            }
            future::ready(Ok(sender))
        });
        let from_host = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await??, receiver))
        });
        SdkPipe {
            to_host: Box::pin(to_host),
            from_host: Box::pin(from_host),
        }
    });
    let options = Options {
        environment: Environment::new([], PathBuf::from("/")),
        http: ah_http::Options::default(),
        credentials: None,
        outputs: None,
        host: Some(host),
        confined: None,
        start_timeout: PATIENCE,
        call_timeout: PATIENCE,
        denied: Vec::new(),
        asked: None,
        reserved: None,
        granted: Granted::All,
        interface: Interface::Native,
    };
    let entry: ServerEntry =
        serde_json::from_value(json!({"type": "sdk", "name": NAME})).expect("it is an entry");
    let config = entry.resolve(&|_| None).expect("it has no variables");
    let servers = BTreeMap::from([(NAME.to_owned(), config)]);
    Arc::new(RemoteServers::start(servers, options))
}

/// Returns the answer to a message, or the end of the server; `None` if it says nothing.
fn answer(world: &World, message: &Value) -> Option<Option<Value>> {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": NAME, "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [
            {"name": "act", "description": "acts", "inputSchema": {"type": "object"}},
        ]}),
        Some("tools/call") => return called(world, message),
        _ => json!({}),
    };
    Some(Some(
        json!({"jsonrpc": "2.0", "id": message.get("id")?, "result": result}),
    ))
}

/// What a server does when it is called.
fn called(world: &World, message: &Value) -> Option<Option<Value>> {
    let params = &message["params"];
    let call = ToolUse {
        id: params["_meta"]["claudecode/toolUseId"]
            .as_str()
            .unwrap_or_default()
            .into(),
        name: tool().to_owned(),
        input: params["arguments"].clone().into(),
    };
    let id = &call.id;
    let mut state = world.state();
    if let Some(fault) = state.permits.fault(&call) {
        state.fail(Law::Permitted.broken(fault));
    }
    let how = state.chance.below(12);
    let how = if state.is_calm { 11 } else { how };
    if how != 0 && how != 1 {
        state.ledger.push(id.clone());
        state.tell(format!("effect of {id} in a server"));
    }
    match how {
        0 | 2 | 3 => {
            state.tell("the server dies".to_owned());
            let is_hidden = how != 0 && state.planted(PlantedFault::DeathHidden, 1);
            Some(is_hidden.then(|| {
                let error = json!({"code": -32000, "message": "It was not called."});
                json!({"jsonrpc": "2.0", "id": message["id"], "error": error})
            }))
        }
        1 | 4 => {
            state.tell("the server falls silent".to_owned());
            None
        }
        _ => {
            let content = json!([{"type": "text", "text": written(id)}]);
            let result = json!({"content": content, "isError": how == 5});
            Some(Some(
                json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
            ))
        }
    }
}
