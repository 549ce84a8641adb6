//! How each vendor is reached: as its row in the table of servers says, at the address of a test server.

use std::sync::LazyLock;

use ah_testkit::provider::presets::{self, Preset};
use ah_testkit::server::vendor::Vendor;

/// A server with the models that are asked there.
pub struct Route {
    pub preset: &'static Preset,
    /// Vendor whose rules it has; without one, it is as strict as the API.
    pub vendor: Option<&'static Vendor>,
    pub models: Vec<&'static str>,
}

/// Models that are asked besides the example of a row.
const MODELS: [(&str, &[&str]); 14] = [
    ("anthropic", &["claude-sonnet-4-5"]),
    ("azure", &["gpt-6-astra", "gpt-5.6-terra"]),
    ("bedrock", &["anthropic.claude-haiku-4-5"]),
    ("cerebras", &["qwen-3.8-27b"]),
    ("deepseek", &["deepseek-flash"]),
    ("gemini", &["gemini-4-argon"]),
    ("groq", &["qwen/qwen3.8-27b"]),
    ("litellm", &["anthropic/claude-sonnet-4-5"]),
    ("mistral", &["mistral-large-4"]),
    ("moonshot", &["kimi-k2.7-code"]),
    ("openai", &["gpt-5.6-terra"]),
    ("openrouter", &["google/gemini-3.8-flash"]),
    ("vertex", &["claude-sonnet-4-5@20250929"]),
    ("xai", &["grok-4.3"]),
];

pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let of = |preset: &'static Preset| {
        let name = preset.name.as_str();
        let more = MODELS.iter().find(|(row, _)| *row == name);
        let example = std::iter::once(preset.example.as_str());
        Route {
            preset,
            vendor: Vendor::of_row(name),
            models: example
                .chain(more.iter().flat_map(|(_, models)| models.iter().copied()))
                .collect(),
        }
    };
    presets::servers().map(of).collect()
});
