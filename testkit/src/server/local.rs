//! Programs that serve models on the user's own machine: the window that they give a model, where they say it, and what
//! they do with a conversation that does not fit.

use std::sync::atomic::{AtomicU64, Ordering};

use ah_conversation::StreamEvent;
use ah_provider::script::play::Step;
use serde_json::{Value, json};

use super::refusal::Refusal;

/// A program that serves one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// llama.cpp: the list and `/props` say the window, and the refusal says both numbers (b11549, 28 November 2026).
    LlamaCpp,
    /// llama.cpp with a chat template that shows no tools and raises for two calls in an answer, as `/props` says (b11549).
    LlamaCppPlain,
    /// llama.cpp that serves several models, of which this one is not loaded: the list says only its options (b11434).
    LlamaCppRouter,
    /// vLLM: the list says the window, and the output counts as well (0.23).
    Vllm,
    /// Ollama: it says the window of a loaded model, and drops the beginning of a conversation without a word (0.20).
    Ollama,
    /// LM Studio: its own list says the window that it has loaded a model with (0.4).
    LmStudio,
    /// A proxy that says nothing, and whose refusal has no numbers.
    Silent,
}

/// A program with its one model.
#[derive(Debug)]
pub struct Local {
    program: Program,
    model: String,
    window: AtomicU64,
}

impl Local {
    /// Returns a program that serves `model` with this window.
    pub fn new(program: Program, model: &str, window: u64) -> Self {
        Self {
            program,
            model: model.to_owned(),
            window: window.into(),
        }
    }

    /// Changes the window, as a restart with other options does.
    pub fn set_window(&self, window: u64) {
        self.window.store(window, Ordering::SeqCst);
    }

    fn window(&self) -> u64 {
        self.window.load(Ordering::SeqCst)
    }

    /// Returns the answer to a question about the server; `None` if there is nothing at the path.
    pub fn about(&self, path: &str, is_used: bool) -> Option<Value> {
        let (window, model) = (self.window(), &self.model);
        let path = path.strip_prefix("/v1").unwrap_or(path);
        let list = |about: Value| {
            let mut entry = json!({"id": model, "object": "model"});
            if let (Some(entry), Value::Object(about)) = (entry.as_object_mut(), about) {
                entry.extend(about);
            }
            Some(json!({"object": "list", "data": [entry]}))
        };
        match (self.program, path) {
            (Program::LlamaCpp | Program::LlamaCppPlain, "/models") => {
                list(json!({"meta": {"n_ctx": window, "n_ctx_train": 131_072}}))
            }
            (Program::LlamaCppRouter, "/models") => list(json!({"status": {
                "value": "unloaded", "args": ["llama-server", "--model", "m.gguf", "--ctx-size", window.to_string()],
            }})),
            (Program::LlamaCpp, "/props") => Some(json!({
                "default_generation_settings": {"n_ctx": window, "params": {}}, "total_slots": 1,
            })),
            (Program::LlamaCppPlain, "/props") => Some(json!({
                "default_generation_settings": {"n_ctx": window, "params": {}}, "total_slots": 1,
                "chat_template_caps": {
                    "supports_tools": false, "supports_tool_calls": true, "supports_parallel_tool_calls": false,
                },
            })),
            (Program::Vllm, "/models") => list(json!({"max_model_len": window})),
            (Program::Ollama | Program::LmStudio | Program::Silent, "/models") => list(json!({})),
            (Program::Ollama, "/api/tags") => {
                Some(json!({"models": [{"name": model, "model": model}]}))
            }
            (Program::Ollama, "/api/show") => Some(
                json!({"capabilities": ["completion", "tools"], "model_info": {"qwen3.context_length": 262_144}}),
            ),
            (Program::Ollama, "/api/ps") if is_used => {
                Some(json!({"models": [{"name": model, "model": model, "context_length": window}]}))
            }
            (Program::Ollama, "/api/ps") => Some(json!({"models": []})),
            (Program::LmStudio, "/api/v0/models") => Some(json!({"object": "list", "data": [{
                "id": model, "state": "loaded", "max_context_length": 262_144, "loaded_context_length": window,
            }]})),
            _ => None,
        }
    }

    /// Returns what happens to a request that does not fit: a refusal, or what is lost.
    pub fn check(&self, body: &Value) -> Result<Option<String>, Refusal> {
        let (window, input) = (self.window(), tokens(body));
        let output = ["max_tokens", "max_completion_tokens"]
            .into_iter()
            .find_map(|name| body[name].as_u64())
            .unwrap_or(0);
        if self.program == Program::LlamaCppPlain && has_two_calls(body) {
            return Err(Refusal::invalid(
                "Unable to generate parser for this template. Automatic parser generation failed"
                    .to_owned(),
            ));
        }
        match self.program {
            Program::Vllm if input + output > window => Err(Refusal::invalid(format!(
                "This model's maximum context length is {window} tokens. However, you requested {} tokens ({input} in \
                 the messages, {output} in the completion). Please reduce the length of the messages or completion.",
                input + output
            ))),
            _ if input < window => Ok(None),
            Program::LlamaCpp | Program::LlamaCppPlain | Program::LlamaCppRouter => Err(Refusal {
                status: 400,
                kind: "exceed_context_size_error",
                message: format!(
                    "request ({input} tokens) exceeds the available context size ({window} tokens), try increasing it"
                ),
                code: None,
            }),
            Program::LmStudio => Err(Refusal::invalid(format!(
                "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: {input}>= \
                 n_ctx: {window}). Try to load the model with a larger context length"
            ))),
            Program::Silent => Err(Refusal::invalid("The prompt is too long.".to_owned())),
            Program::Ollama => Ok(Some(format!(
                "the beginning of {input} tokens is dropped in a window of {window}"
            ))),
            Program::Vllm => Ok(None),
        }
    }
}

/// Whether an answer in the conversation has two calls.
fn has_two_calls(body: &Value) -> bool {
    let mut messages = body["messages"].as_array().into_iter().flatten();
    messages.any(|message| {
        message["tool_calls"]
            .as_array()
            .is_some_and(|calls| calls.len() > 1)
    })
}

/// Counts the tokens of a request as a small model's tokenizer does: 3.2 bytes each.
pub fn tokens(body: &Value) -> u64 {
    let parts = ["messages", "system", "tools", "input", "instructions"];
    let bytes: usize = parts
        .into_iter()
        .filter_map(|part| body.get(part))
        .map(|part| part.to_string().len())
        .sum();
    bytes as u64 * 10 / 32
}

/// Says in an answer how many tokens its request had.
pub fn count(steps: &mut [Step], input_tokens: u64) {
    for step in steps {
        if let Step::Event(
            StreamEvent::Started { usage, .. } | StreamEvent::Stopping { usage, .. },
        ) = step
        {
            usage.input_tokens = input_tokens;
        }
    }
}
