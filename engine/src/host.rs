//! The other end of the protocol, in this process: answers what the engine asks of its host by closures, and asks the
//! engine in turn.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as blocking};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::message::Message;
use super::options::{HookInput, Options, ToolRequest};
use ah_config::Error;

/// How many lines may wait before the engine does.
const WAITING: usize = 64;

/// The host's side of a talk.
pub(super) struct Host {
    options: Options,
    /// Gone when the engine is to hear no more.
    input: Mutex<Option<blocking::Sender<Vec<u8>>>>,
    numbers: AtomicU64,
    open: Mutex<HashMap<String, oneshot::Sender<Result<Value, String>>>>,
}

/// The engine's ends of the talk.
pub(super) struct Ends {
    pub(super) input: Input,
    pub(super) output: Output,
    /// What the engine says, line by line.
    pub(super) lines: mpsc::Receiver<Vec<u8>>,
}

impl Host {
    /// Begins the talk: says who is there, and what is asked.
    pub(super) fn begin(options: Options, prompt: &str) -> (Arc<Self>, Ends) {
        let (input, heard) = blocking::channel();
        let (output, lines) = mpsc::channel(WAITING);
        let host = Arc::new(Self {
            input: Mutex::new(Some(input)),
            numbers: AtomicU64::new(0),
            open: Mutex::default(),
            options,
        });
        // Nobody waits for what it answers: what matters of it comes in the first message.
        drop(host.ask(&host.introduction()));
        host.say(&json!({
            "type": "user",
            "message": {"role": "user", "content": prompt},
        }));
        let ends = Ends {
            input: Input {
                heard,
                rest: io::Cursor::default(),
            },
            output: Output(output),
            lines,
        };
        (host, ends)
    }

    /// Asks the engine for something.
    pub(super) fn ask(&self, request: &Value) -> oneshot::Receiver<Result<Value, String>> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let id = format!("host_{number}");
        let (answer, answered) = oneshot::channel();
        lock(&self.open).insert(id.clone(), answer);
        self.say(&json!({"type": "control_request", "request_id": id, "request": request}));
        answered
    }

    /// Lets the engine end when it has answered the prompt.
    pub(super) fn end(&self) {
        *lock(&self.input) = None;
    }

    /// Takes a line of the engine. Gives the message that it is, if it is one.
    pub(super) fn take(self: &Arc<Self>, line: &[u8]) -> Option<Message> {
        let mut value: Value = serde_json::from_slice(line).ok()?;
        match value["type"].as_str() {
            Some("control_response") => {
                self.answered(&value["response"]);
                None
            }
            Some("control_request") => {
                let id = value["request_id"].as_str().unwrap_or_default().to_owned();
                let request = value["request"].take();
                let host = self.clone();
                tokio::spawn(async move { host.answer(&id, request).await });
                None
            }
            // A question that nobody has to answer any more: its closure is left to itself.
            Some("control_cancel_request" | "keep_alive") => None,
            _ => Some(serde_json::from_value(value.clone()).unwrap_or(Message::Other(value))),
        }
    }

    fn answered(&self, response: &Value) {
        let id = response["request_id"].as_str().unwrap_or_default();
        if let Some(answer) = lock(&self.open).remove(id) {
            // Whoever has asked may have gone.
            let _ = answer.send(match response["error"].as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok(response["response"].clone()),
            });
        }
    }

    async fn answer(&self, id: &str, request: Value) {
        let response = match self.answer_to(request).await {
            Ok(answer) => {
                json!({"subtype": "success", "request_id": id, "response": answer})
            }
            Err(fault) => json!({"subtype": "error", "request_id": id, "error": fault}),
        };
        self.say(&json!({"type": "control_response", "response": response}));
    }

    async fn answer_to(&self, request: Value) -> Result<Value, String> {
        match Question::deserialize(&request).map_err(|fault| fault.to_string())? {
            Question::CanUseTool(asked) => {
                let decide = { self.options.can_use_tool.as_ref() }.ok_or("nobody is asked")?;
                let input = asked.input.clone();
                let request = ToolRequest {
                    tool_name: asked.tool_name,
                    input: asked.input,
                    tool_use_id: asked.tool_use_id,
                    suggestions: { asked.permission_suggestions.into_iter() }
                        .filter_map(|update| serde_json::from_value(update).ok())
                        .collect(),
                };
                Ok(decide(request).await.told(input))
            }
            Question::HookCallback {
                callback_id,
                input,
                tool_use_id,
            } => {
                let number: Option<usize> = callback_id.parse().ok();
                let hook = number.and_then(|number| self.options.hooks.get(number));
                let hook = hook.ok_or("there is no such hook")?;
                let input = HookInput {
                    payload: input,
                    tool_use_id,
                };
                Ok((hook.ask)(input).await)
            }
        }
    }

    fn introduction(&self) -> Value {
        let mut hooks = Map::new();
        for (number, hook) in self.options.hooks.iter().enumerate() {
            let listed = hooks.entry(hook.event.as_str()).or_insert(json!([]));
            if let Value::Array(listed) = listed {
                listed.push(json!({
                    "matcher": hook.matcher,
                    "hookCallbackIds": [number.to_string()],
                }));
            }
        }
        let agents = (!self.options.agents.is_empty()).then_some(&self.options.agents);
        json!({"subtype": "initialize", "hooks": hooks, "agents": agents})
    }

    fn say(&self, line: &Value) {
        if let Some(input) = &*lock(&self.input) {
            // An engine that has ended hears nothing.
            let _ = input.send(format!("{line}\n").into_bytes());
        }
    }
}

/// What the engine asks of its host.
#[derive(Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum Question {
    CanUseTool(Asked),
    HookCallback {
        callback_id: String,
        input: Value,
        tool_use_id: Option<String>,
    },
}

#[derive(Deserialize)]
struct Asked {
    tool_name: String,
    input: Map<String, Value>,
    tool_use_id: String,
    #[serde(default)]
    permission_suggestions: Vec<Value>,
}

/// What the engine reads: lines of the host, until it says no more.
pub(super) struct Input {
    heard: blocking::Receiver<Vec<u8>>,
    rest: io::Cursor<Vec<u8>>,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.rest.read(buffer)? {
                0 => match self.heard.recv() {
                    Ok(line) => self.rest = io::Cursor::new(line),
                    Err(_) => return Ok(0),
                },
                length => return Ok(length),
            }
        }
    }
}

/// What the engine writes: a line at a time, from a thread that may wait.
pub(super) struct Output(mpsc::Sender<Vec<u8>>);

impl Write for Output {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(line.to_vec());
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the engine has done what it was asked for.
pub(super) fn granted(
    answer: Result<Result<Value, String>, oneshot::error::RecvError>,
) -> Result<(), Error> {
    match answer {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(fault)) => Err(Error::failure(fault)),
        Err(_) => Err(Error::failure("the query has ended")),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
