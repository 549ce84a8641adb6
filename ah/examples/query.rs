//! Runs a prompt with a tool, a permission callback and a hook of your own, and prints the messages. It needs no key:
//! the model is a scenario.
//!
//! `cargo run -p ah --example query`

use std::path::Path;
use std::sync::{Arc, Mutex};

use ah::schemars::{self, JsonSchema};
use ah::serde_json::json;
use ah::tool::{Output, Tool, tool};
use ah::{Decision, Error, HookCallback, HookEvent, Message, Options, ToolRequest, query};
use serde::Deserialize;

const SCENARIO: &str = r#"{"turns": [
    {"text": "Two tries.", "tools": [
        {"name": "weather", "input": {"city": "Oslo"}},
        {"name": "weather", "input": {"city": "Atlantis"}}
    ]},
    {"text": "It rains in Oslo."}
]}"#;

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// Name of a city.
    city: String,
}

/// Returns a tool that reports the weather.
fn weather() -> impl Tool {
    let run = |place: Place| async move { Output::text(format!("rain in {}", place.city)) };
    tool("weather", "Tells the weather of a city.", run)
}

/// Allows calls about existing cities.
async fn decide(request: ToolRequest) -> Decision {
    match request.input["city"].as_str() {
        Some("Atlantis") => Decision::deny("there is no such city"),
        _ => Decision::Allow,
    }
}

/// Runs the query in `folder`; returns the messages and the tool results that the hook saw, one line each.
///
/// # Errors
///
/// If the query cannot begin.
pub async fn run(folder: &Path) -> Result<Vec<String>, Error> {
    let scenario = folder.join("weather.json");
    std::fs::write(scenario, SCENARIO).map_err(|error| Error::failure(error.to_string()))?;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let tell = |line: String| {
        if let Ok(mut lines) = lines.lock() {
            lines.push(line);
        }
    };
    let watched = lines.clone();
    let watch = HookCallback::new(HookEvent::PostToolUse, move |input| {
        let watched = watched.clone();
        async move {
            let response = &input.payload["tool_response"];
            if let Ok(mut lines) = watched.lock() {
                lines.push(format!("hook: {response}"));
            }
            json!({})
        }
    });
    let options = Options::new()
        .model("script:weather.json")
        .tool(weather())
        .can_use_tool(decide)
        .hook(watch)
        .cwd(folder)
        .ephemeral(true)
        .setting_sources([""; 0]);
    let mut query = query("How is the weather?", options);
    while let Some(message) = query.next().await {
        match message? {
            Message::Assistant(said) if !said.text().is_empty() => {
                tell(format!("model: {}", said.text()));
            }
            Message::User(told) => tell(format!("told: {}", told.message["content"][0]["content"])),
            Message::Result(result) => {
                tell(format!("{}: {} turns", result.subtype, result.num_turns));
            }
            _ => {}
        }
    }
    let lines = lines.lock().map(|lines| lines.clone());
    Ok(lines.unwrap_or_default())
}

#[expect(clippy::print_stdout, reason = "what came of it is shown")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    for line in run(folder.path()).await? {
        println!("{line}");
    }
    Ok(())
}
