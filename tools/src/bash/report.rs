//! What is told of a command that has ended.

use ah_conversation::{CommandLine, Content, Interface, Output};
use ah_process::{CommandOutcome, Ending};
use bstr::ByteSlice;
use serde_json::json;

/// How many bytes of the output stand in the details too.
const TOLD: usize = 30_000;
/// Programs that say nothing where they succeed.
const SILENT: [&str; 12] = [
    "cd", "chgrp", "chmod", "chown", "cp", "export", "ln", "mkdir", "mv", "rm", "rmdir", "touch",
];

/// The last line of a command's output.
pub(super) fn note(ending: Ending) -> Option<String> {
    let code = ending.code();
    match ending {
        Ending::Exited(0) | Ending::Stopped => None,
        Ending::Exited(_) => Some(format!("exit code: {code}")),
        Ending::Killed(signal) => Some(format!("exit code: {code} (killed by signal {signal})")),
        Ending::TimedOut(time) => Some(format!("error: timed out after {} ms", time.as_millis())),
    }
}

/// An output as the model gets it: never nothing.
pub(super) fn shown(output: Content) -> Content {
    match output {
        Content::Bytes(bytes) if bytes.is_empty() => Content::Bytes(b"(no output)".to_vec()),
        output => output,
    }
}

/// The result of the command `line`, with details in the shape that the hosts of the official SDKs know.
pub(super) fn report(outcome: CommandOutcome, line: &CommandLine, interface: Interface) -> Output {
    let CommandOutcome { ending, output } = outcome;
    let output = match (output, interface) {
        (Content::Bytes(bytes), Interface::AgentSdk) => Content::Bytes(code_first(&bytes, ending)),
        (output, _) => output,
    };
    let (stdout, file) = match &output {
        Content::Bytes(bytes) => (told(bytes), None),
        Content::Spool(spool) => (told(&spool.head), Some(spool)),
        Content::Blocks(_) => (String::new(), None),
    };
    let mut details = json!({
        "stdout": stdout,
        // Both are one stream, in the order in which they came.
        "stderr": "",
        "interrupted": matches!(ending, Ending::TimedOut(_) | Ending::Stopped),
        "isImage": false,
        "noOutputExpected": is_silent(line),
        "exit_code": ending.code(),
    });
    if let Some(spool) = file {
        details["persistedOutputPath"] = json!(spool.path.to_string_lossy());
        details["persistedOutputSize"] = json!(spool.len);
    }
    Output {
        is_error: ending != Ending::Exited(0),
        details: Some(details),
        content: shown(output),
    }
}

/// The output as hosts of the official SDKs know it: without the last line end, and what has failed begins with its
/// exit code. An output in a file keeps the code where it was written, at the end.
fn code_first(bytes: &[u8], ending: Ending) -> Vec<u8> {
    let note = note(ending).unwrap_or_default();
    let output = bytes.strip_suffix(note.as_bytes()).unwrap_or(bytes);
    let output = output.trim_end_with(|c| c == '\n');
    let code = ending.code();
    let first = match ending {
        Ending::Exited(0) => return output.to_vec(),
        Ending::Exited(_) | Ending::Stopped => format!("Exit code {code}"),
        Ending::Killed(signal) => format!("Exit code {code}\n[killed by signal {signal}]"),
        Ending::TimedOut(time) => format!(
            "Exit code {code}\n[timed out after {} ms]",
            time.as_millis()
        ),
    };
    let parts = [first.as_bytes(), output];
    let said = parts.into_iter().filter(|part| !part.is_empty());
    bstr::join("\n", said)
}

fn told(bytes: &[u8]) -> String {
    let text = bytes.to_str_lossy();
    text[..text.floor_char_boundary(TOLD)].to_owned()
}

/// Whether the line runs nothing but programs that say nothing where they succeed.
fn is_silent(line: &CommandLine) -> bool {
    let is_silent =
        |word: &Option<String>| word.as_deref().is_some_and(|word| SILENT.contains(&word));
    let commands = line.commands.as_deref().unwrap_or_default();
    !commands.is_empty()
        && commands
            .iter()
            .all(|command| command.words.first().is_some_and(is_silent))
}
