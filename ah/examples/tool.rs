//! A tool of your own, with a schema derived from the type of its arguments. It needs no key: the model is a
//! scenario.
//!
//! `cargo run -p ah --example tool`

use std::path::Path;
use std::sync::Arc;

use ah::conversation::{Access, Context, Input, Output, Tool, ToolSpec, ToolUse, Truncation};
use ah::{Agent, Error};
use async_trait::async_trait;
use schemars::{JsonSchema, schema_for};
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

/// Converts temperatures.
struct Convert(ToolSpec);

impl Convert {
    fn new() -> Self {
        Self(ToolSpec {
            name: "convert".to_owned(),
            description: "Converts a temperature to degrees Fahrenheit.".to_owned(),
            input_schema: Arc::new(schema_for!(Arguments).to_value()),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        })
    }
}

#[async_trait]
impl Tool for Convert {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        // It reads and writes nothing.
        Vec::new()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        match serde_json::from_value::<Arguments>(call.input.to_value()) {
            Ok(arguments) => Output::text(format!("{} °F", arguments.celsius * 1.8 + 32.0)),
            // A failure is an answer to the model.
            Err(error) => Output::error(error.to_string()),
        }
    }
}

/// Runs a prompt with the tool; returns the tool's output and the answer.
///
/// # Errors
///
/// If the scenario cannot be written to `folder`.
pub async fn run(folder: &Path) -> Result<(String, String), Error> {
    let scenario = folder.join("warm.json");
    std::fs::write(&scenario, SCENARIO).map_err(|error| Error::failure(error.to_string()))?;
    let mut agent = Agent::builder()
        .model(format!("script:{}", scenario.display()))
        .tool(Convert::new())
        .build()
        .await?;
    let answer = agent.run("How warm are 20 degrees?").await?.answer;
    let results = agent
        .transcript()
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
