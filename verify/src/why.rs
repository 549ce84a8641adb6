//! What the output of a check says about its failure.

use ah_conversation::{Content, Truncation, WholeOutput};

/// How much of an output the model is shown: most failures are told at the end, some at the beginning.
const SHOWN: Truncation = Truncation {
    bytes: 6_000,
    lines: Some(80),
};

/// Words of programs that the sandbox keeps from something.
const REFUSED: [&str; 8] = [
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "ENOTFOUND",
    "EAI_AGAIN",
];

/// Returns the part of an output that says why a check failed.
pub(crate) fn of(output: &Content) -> String {
    let Some(whole) = WholeOutput::of_content(output) else {
        return String::new();
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match whole.excerpt(SHOWN) {
        Some(excerpt) => format!(
            "{}\n[{}]\n{}",
            text(excerpt.head).trim_end(),
            excerpt.left_out,
            text(excerpt.tail)
        ),
        None => output.text(),
    }
}

/// Returns what to do about a check that the sandbox may have kept from something.
pub(crate) fn hint(output: &Content) -> Option<String> {
    let text = of(output);
    if text.contains("not a git repository") {
        return Some("The check runs in a copy of the project without `.git`.".to_owned());
    }
    REFUSED.iter().any(|words| text.contains(words)).then(|| {
        "The check runs in the sandbox: its copy of the project and temporary folders are writable, and there is no network. \
         What it needs besides, the user can allow: `--allow-host HOST:PORT`, `--unveil PATH`, `--env NAME`; `--no-sandbox` runs \
         it without."
            .to_owned()
    })
}
