//! A tool of your own, with a schema derived from the type of its arguments. It needs no key: the model is a
//! scenario.
//!
//! `cargo run -p ah --example tool`

use std::path::Path;

use ah::schemars::{self, JsonSchema};
use ah::tool::{Output, Tool, tool};
use ah::{Agent, Error, Options};
use serde::Deserialize;

/// Answers of the scripted model; a real one is `.model("sonnet")`.
const SCENARIO: &str = r#"{"turns": [
    {"tools": [{"name": "convert", "input": {"celsius": 20}}]},
    {"text": "It is warm."}
]}"#;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Temperature in degrees Celsius.
    celsius: f64,
}

/// Returns a tool that converts temperatures.
fn convert() -> impl Tool {
    let run = |arguments: Arguments| async move {
        match arguments.celsius {
            // A failure is an answer to the model.
            celsius if celsius < -273.15 => Output::error("nothing is that cold"),
            celsius => Output::text(format!("{} °F", celsius * 1.8 + 32.0)),
        }
    };
    let description = "Converts a temperature to degrees Fahrenheit.";
    tool("convert", description, run).harmless()
}

/// Runs a prompt with the tool; returns the tool's output and the answer.
///
/// # Errors
///
/// If the scenario cannot be written to `folder`.
pub async fn run(folder: &Path) -> Result<(String, String), Error> {
    let scenario = folder.join("warm.json");
    std::fs::write(&scenario, SCENARIO).map_err(|error| Error::failure(error.to_string()))?;
    let options = Options::new()
        .model(format!("script:{}", scenario.display()))
        .tool(convert());
    let mut agent = Agent::with(options).open().await?;
    let answer = agent.run("How warm are 20 degrees?").await?.answer;
    let results = agent
        .messages()
        .iter()
        .flat_map(|message| message.tool_results());
    let output = results.map(|result| result.text()).collect();
    Ok((output, answer))
}

#[expect(clippy::print_stdout, reason = "an example shows its outcome")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (output, answer) = run(folder.path()).await?;
    println!("{output}\n{answer}");
    Ok(())
}
