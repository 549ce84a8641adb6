//! A hook that runs a shell command: the payload is its standard input; exit code and output are the answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Rule, ToolUseId, encoding, json};
use ah_process::{Behind, Child, Command, Ending, Keep, Pipes, Sandbox, ShellLine};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::{Hook, HookAnswer, HookEvent, HookOutput, HookReply, HookSetting, Matcher, OnFailure};

/// Maximum number of bytes read from a command's output.
const MAX_OUTPUT: u64 = 1024 * 1024;
/// Exit code that blocks.
const BLOCKING_EXIT_CODE: i32 = 2;

/// Line for a shell that runs its arguments, which it does not read as text of its own.
const RUN_ARGUMENTS: &str = r#"exec "$0" "$@""#;

/// A shell command that is called at an event.
#[derive(Debug, Clone)]
pub struct CommandHook {
    /// The setting.
    pub setting: HookSetting,
    /// The command line; with arguments, the program.
    pub command: String,
    /// The arguments, which no shell reads.
    pub arguments: Option<Vec<String>>,
    /// Time limit.
    pub timeout: Duration,
    /// Whether it runs in the background.
    pub is_async: bool,
    /// The shell.
    pub shell: PathBuf,
    /// Working directory.
    pub cwd: PathBuf,
    /// All its environment variables.
    pub environment: Vec<(String, String)>,
    /// Sandbox; without one, it has the user's permissions.
    pub sandbox: Option<Arc<Sandbox>>,
}

/// First output of a command.
enum FirstOutput {
    /// A request to continue in the background, with the time limit.
    Async(Option<Duration>),
    /// The whole output of a command that has ended.
    Done(Vec<u8>),
}

#[async_trait]
impl Hook for CommandHook {
    fn event(&self) -> HookEvent {
        self.setting.event
    }

    fn matcher(&self) -> &Matcher {
        &self.setting.matcher
    }

    fn kind(&self) -> &'static str {
        "hook"
    }

    fn condition(&self) -> Option<&Rule> {
        self.setting.condition.as_ref()
    }

    fn on_failure(&self) -> Option<OnFailure> {
        self.setting.on_failure
    }

    fn name(&self) -> &str {
        &self.command
    }

    async fn ask(&self, input: &Value, _: Option<&ToolUseId>) -> HookAnswer {
        let line = match &self.arguments {
            None => ShellLine::new(&self.shell, &self.command, Behind::Input),
            Some(arguments) => {
                let mut line = ShellLine::as_argument(RUN_ARGUMENTS);
                let words = std::iter::once(&self.command).chain(arguments);
                line.arguments.extend(words.map(Into::into));
                line
            }
        };
        let command = Command {
            program: self.shell.clone(),
            arguments: line.arguments,
            cwd: self.cwd.clone(),
            environment: self.environment.clone(),
            stdin: Vec::new(),
            deadline: None,
            keep: Keep::new(PathBuf::new(), 0),
            sandbox: self.sandbox.clone(),
            bounds: None,
            note: |_| None,
        };
        let (child, pipes) = match command.converse().await {
            Ok(started) => started,
            Err(error) => return HookReply::no_answer(error.to_string()).into(),
        };
        let (first, stderr) = converse(
            pipes,
            [line.stdin, (json::line(input) + "\n").into_bytes()].concat(),
        );
        if self.is_async {
            run_in_background(child, self.timeout);
            return HookReply::Nothing.into();
        }
        let output = tokio::time::timeout(self.timeout, async {
            match first.await {
                Ok(FirstOutput::Async(time)) => Err(time),
                Ok(FirstOutput::Done(text)) => Ok((text, stderr.await.unwrap_or_default())),
                Err(_) => Ok(Default::default()),
            }
        });
        match output.await {
            // Dropping the child ends it.
            Err(_) => {
                let seconds = self.timeout.as_secs_f64();
                HookReply::no_answer(format!("it timed out after {seconds} s")).into()
            }
            Ok(Err(time)) => {
                run_in_background(child, time.unwrap_or(self.timeout));
                HookReply::Nothing.into()
            }
            Ok(Ok((stdout, stderr))) => {
                match tokio::time::timeout(self.timeout, child.wait()).await {
                    Ok(outcome) => HookAnswer {
                        reply: reply(self.setting.event, outcome.ending, &stdout, &stderr),
                        printed: Some(HookOutput {
                            stdout: encoding::text_of(&stdout),
                            stderr,
                            exit_code: outcome.ending.code(),
                        }),
                    },
                    Err(_) => {
                        HookReply::no_answer("it closed its output but did not exit".to_owned())
                            .into()
                    }
                }
            }
        }
    }
}

/// Writes the payload and reads both streams, on threads, since a command may block its ends of the pipes.
fn converse(
    pipes: Pipes,
    payload: Vec<u8>,
) -> (oneshot::Receiver<FirstOutput>, oneshot::Receiver<String>) {
    let Pipes {
        mut stdin,
        stdout,
        stderr,
    } = pipes;
    tokio::task::spawn_blocking(move || {
        // A command may ignore its input.
        let _ = stdin.write_all(&payload);
    });
    let (send_first, first) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let mut stdout = BufReader::new(stdout.take(MAX_OUTPUT));
        let mut bytes = Vec::new();
        let _ = stdout.read_until(b'\n', &mut bytes);
        if let Some(time) = parse_async_request(&bytes) {
            let _ = send_first.send(FirstOutput::Async(time));
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
            return;
        }
        let _ = stdout.read_to_end(&mut bytes);
        let _ = send_first.send(FirstOutput::Done(bytes));
    });
    let (send_stderr, stderr_text) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        let _ = stderr.take(MAX_OUTPUT).read_to_end(&mut bytes);
        let _ = send_stderr.send(encoding::text_of(&bytes));
    });
    (first, stderr_text)
}

/// Parses a first line that asks to continue in the background, with the time limit.
fn parse_async_request(line: &[u8]) -> Option<Option<Duration>> {
    let object: Map<String, Value> = json::from_slice(line).ok()?;
    (object.get("async") == Some(&Value::Bool(true))).then(|| {
        let seconds = object.get("asyncTimeout").and_then(Value::as_f64)?;
        Duration::try_from_secs_f64(seconds).ok()
    })
}

/// Lets a command continue in the background for a limited time; its output is ignored.
fn run_in_background(child: Child, time: Duration) {
    tokio::spawn(async move {
        // Dropping the child ends it.
        let _ = tokio::time::timeout(time, child.wait()).await;
    });
}

/// Returns the reply of a command that has ended. What it said as an object counts whatever its exit code is, since a script
/// may fail after its answer; only the code that blocks is above it.
fn reply(event: HookEvent, ending: Ending, stdout: &[u8], stderr: &str) -> HookReply {
    let said = HookReply::of_output(event, stdout);
    match (ending, said) {
        (Ending::Exited(BLOCKING_EXIT_CODE), _) => {
            HookReply::Block(words(stderr, "no reason given"))
        }
        (Ending::Exited(0), said) | (_, said @ HookReply::Object(_)) => said,
        _ => {
            let code = ending.code();
            HookReply::no_answer(words(stderr, &format!("exit code {code}")))
        }
    }
}

fn words(text: &str, otherwise: &str) -> String {
    match text.trim() {
        "" => otherwise.to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_counts_before_the_exit_code() {
        for (code, stdout, expected) in [
            (0, "{\"a\": 1}", "Object"),
            (0, "words", "Text"),
            (0, " ", "Nothing"),
            (1, "{\"a\": 1}", "Object"),
            (1, "words", "Failed(NoAnswer("),
            (2, "{\"a\": 1}", "Block"),
            (2, "words", "Block"),
        ] {
            let event = HookEvent::PreToolUse;
            let reply = reply(event, Ending::Exited(code), stdout.as_bytes(), "why");
            let reply = format!("{reply:?}");
            assert!(reply.starts_with(expected), "{code} {stdout}: {reply}");
        }
    }
}
