//! A hook that is a shell command of the settings: it reads the payload, and answers by its exit code and its output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::ToolUseId;
use ah_process::{Child, Command, Ending, Keep, Pipes, Sandbox};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::{Hook, HookAnswer, HookEvent, HookOutput, HookReply, Matcher};

/// How much of what a command says is read.
const MOST: u64 = 1024 * 1024;
/// The exit code that blocks.
const BLOCK: i32 = 2;

/// A command that is asked at an event.
#[derive(Debug, Clone)]
pub struct CommandHook {
    /// When.
    pub event: HookEvent,
    /// About which tools.
    pub matcher: Matcher,
    /// The command line.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether nobody waits for it.
    pub is_async: bool,
    /// The shell.
    pub shell: PathBuf,
    /// Where it runs.
    pub cwd: PathBuf,
    /// All variables that it sees.
    pub environment: Vec<(String, String)>,
    /// What it runs in; without it, it may do what we may.
    pub sandbox: Option<Arc<Sandbox>>,
}

/// What a command says first.
enum First {
    /// That nobody need wait, and for how long it may go on.
    Async(Option<Duration>),
    /// It has ended: what it wrote.
    Said(String),
}

#[async_trait]
impl Hook for CommandHook {
    fn event(&self) -> HookEvent {
        self.event
    }

    fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    fn name(&self) -> &str {
        &self.command
    }

    async fn ask(&self, input: &Value, _: Option<&ToolUseId>) -> HookAnswer {
        let command = Command {
            program: self.shell.clone(),
            arguments: vec!["-c".into(), self.command.clone().into()],
            cwd: self.cwd.clone(),
            environment: self.environment.clone(),
            stdin: Vec::new(),
            deadline: None,
            keep: Keep::new(PathBuf::new(), 0),
            sandbox: self.sandbox.clone(),
            note: |_| None,
        };
        let (child, pipes) = match command.converse().await {
            Ok(started) => started,
            Err(fault) => return HookReply::Failed(fault.to_string()).into(),
        };
        let (first, stderr) = converse(pipes, format!("{input}\n"));
        if self.is_async {
            beside(child, self.timeout);
            return HookReply::Nothing.into();
        }
        let answered = tokio::time::timeout(self.timeout, async {
            match first.await {
                Ok(First::Async(time)) => Err(time),
                Ok(First::Said(text)) => Ok((text, stderr.await.unwrap_or_default())),
                Err(_) => Ok(Default::default()),
            }
        });
        match answered.await {
            // Dropping the child ends it.
            Err(_) => {
                let seconds = self.timeout.as_secs_f64();
                HookReply::Failed(format!("it took more than {seconds} s")).into()
            }
            Ok(Err(time)) => {
                beside(child, time.unwrap_or(self.timeout));
                HookReply::Nothing.into()
            }
            Ok(Ok((stdout, stderr))) => {
                match tokio::time::timeout(self.timeout, child.wait()).await {
                    Ok(outcome) => HookAnswer {
                        reply: reply(outcome.ending, &stdout, &stderr),
                        printed: Some(HookOutput {
                            stdout,
                            stderr,
                            exit_code: outcome.ending.code(),
                        }),
                    },
                    Err(_) => {
                        HookReply::Failed("it closed its output and did not end".to_owned()).into()
                    }
                }
            }
        }
    }
}

/// Writes the payload and reads both streams, on threads: what a command does with its ends of the pipes is its own.
fn converse(
    pipes: Pipes,
    payload: String,
) -> (oneshot::Receiver<First>, oneshot::Receiver<String>) {
    let Pipes {
        mut stdin,
        stdout,
        stderr,
    } = pipes;
    tokio::task::spawn_blocking(move || {
        // A command that does not read its input is none the worse.
        let _ = stdin.write_all(payload.as_bytes());
    });
    let (tell_first, first) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let mut stdout = BufReader::new(stdout.take(MOST));
        let mut bytes = Vec::new();
        let _ = stdout.read_until(b'\n', &mut bytes);
        if let Some(time) = asks_for_patience(&bytes) {
            let _ = tell_first.send(First::Async(time));
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
            return;
        }
        let _ = stdout.read_to_end(&mut bytes);
        let _ = tell_first.send(First::Said(String::from_utf8_lossy(&bytes).into_owned()));
    });
    let (tell_stderr, said) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        let _ = stderr.take(MOST).read_to_end(&mut bytes);
        let _ = tell_stderr.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    (first, said)
}

/// Whether the first line says that nobody need wait, and for how long the command may go on.
fn asks_for_patience(line: &[u8]) -> Option<Option<Duration>> {
    let object: Map<String, Value> = serde_json::from_slice(line).ok()?;
    (object.get("async") == Some(&Value::Bool(true))).then(|| {
        let seconds = object.get("asyncTimeout").and_then(Value::as_f64)?;
        Duration::try_from_secs_f64(seconds).ok()
    })
}

/// Lets a command go on for a while; what it says later is heard by nobody.
fn beside(child: Child, time: Duration) {
    tokio::spawn(async move {
        // Dropping the child ends it.
        let _ = tokio::time::timeout(time, child.wait()).await;
    });
}

fn reply(ending: Ending, stdout: &str, stderr: &str) -> HookReply {
    match ending {
        Ending::Exited(0) => {}
        Ending::Exited(BLOCK) => return HookReply::Block(words(stderr, "no reason was given")),
        _ => {
            let code = ending.code();
            return HookReply::Failed(words(stderr, &format!("exit code {code}")));
        }
    }
    let text = stdout.trim();
    if text.is_empty() {
        return HookReply::Nothing;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => HookReply::Object(object),
        Ok(_) | Err(_) => HookReply::Text(text.to_owned()),
    }
}

fn words(text: &str, otherwise: &str) -> String {
    match text.trim() {
        "" => otherwise.to_owned(),
        text => text.to_owned(),
    }
}
