//! The result of a command that has ended.

use ah_conversation::{CommandLine, Content, Interface, Output};
use ah_process::{CommandOutcome, Ending};
use bstr::ByteSlice;
use serde_json::{Value, json};

/// Maximum number of bytes of the output in the details.
const MAX_DETAILS: usize = 30_000;
/// Programs without output on success.
const SILENT: [&str; 12] = [
    "cd", "chgrp", "chmod", "chown", "cp", "export", "ln", "mkdir", "mv", "rm", "rmdir", "touch",
];

/// Returns the last line of the output of a command that did not succeed.
pub(super) fn note(ending: Ending) -> Option<String> {
    let code = ending.code();
    match ending {
        Ending::Exited(0) | Ending::Stopped => None,
        Ending::Exited(_) => Some(format!("exit code: {code}")),
        Ending::Killed(signal) => Some(format!("exit code: {code} (killed by signal {signal})")),
        Ending::TimedOut(time) => Some(format!("error: timed out after {} ms", time.as_millis())),
    }
}

/// Returns the output for the model, which is never empty.
pub(super) fn shown(output: Content) -> Content {
    match output {
        Content::Bytes(bytes) if bytes.is_empty() => Content::Bytes(b"(no output)".to_vec()),
        output => output,
    }
}

/// Returns the result of the command `line`, with details in the format of the official SDKs.
pub(super) fn report(outcome: CommandOutcome, line: &CommandLine, interface: Interface) -> Output {
    let CommandOutcome { ending, output } = outcome;
    let output = match (output, interface) {
        (Content::Bytes(bytes), Interface::AgentSdk) => Content::Bytes(code_first(&bytes, ending)),
        (output, _) => output,
    };
    let (stdout, file) = match &output {
        Content::Bytes(bytes) => (details_text(bytes), None),
        Content::Spool(spool) => (details_text(&spool.head), Some(spool)),
        Content::Blocks(_) => (String::new(), None),
    };
    let mut details = json!({
        "stdout": stdout,
        // `stdout` has both streams, in order of arrival.
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

/// Returns the words for the model that belong to details of this form: both streams, one behind the other.
pub(super) fn words_of(details: &Value) -> Option<String> {
    let stream = |name: &str| details.get(name).and_then(Value::as_str);
    let streams = [Some(stream("stdout")?), stream("stderr")];
    let texts = streams.into_iter().flatten().map(str::trim_end);
    let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
    Some(match &*texts.join("\n") {
        "" => "(no output)".to_owned(),
        text => text.to_owned(),
    })
}

/// Returns the output in the format of the official SDKs: without the last line end, and with the exit code of a
/// failure first. An output in a file keeps the code at its end.
fn code_first(bytes: &[u8], ending: Ending) -> Vec<u8> {
    let note = note(ending).unwrap_or_default();
    let output = bytes
        .strip_suffix(note.as_bytes())
        .unwrap_or(bytes)
        .trim_end_with(|c| c == '\n');
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
    let parts = [first.as_bytes(), output]
        .into_iter()
        .filter(|part| !part.is_empty());
    bstr::join("\n", parts)
}

fn details_text(bytes: &[u8]) -> String {
    let text = bytes.to_str_lossy();
    text[..text.floor_char_boundary(MAX_DETAILS)].to_owned()
}

/// Whether the line runs only programs without output on success.
fn is_silent(line: &CommandLine) -> bool {
    let is_silent =
        |word: &Option<String>| word.as_deref().is_some_and(|word| SILENT.contains(&word));
    let commands = line.commands.as_deref().unwrap_or_default();
    !commands.is_empty()
        && commands
            .iter()
            .all(|command| command.words.first().is_some_and(is_silent))
}
