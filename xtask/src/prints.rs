//! Writing to standard streams, which only the crates in [`PRINTING`] and a few files may do. All others return values,
//! emit events or use `tracing`; subcommands print through one function, which makes foreign text harmless.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::{Token, tokens};
use crate::tidy;

/// Folders of the crates that may print.
const PRINTING: [&str; 4] = ["terminal", "xtask", "testkit", "sim"];

/// Files elsewhere that may write to a standard stream, each with its reason.
const ALLOWED: [(&str, &str); 11] = [
    ("acp/src/stdio.rs", "lines of JSON for an editor"),
    (
        "cli/src/commands/output.rs",
        "the output of subcommands, which writes out control characters",
    ),
    (
        "cli/src/commands/logs.rs",
        "follows a log and writes out control characters",
    ),
    (
        "cli/src/commands/tree.rs",
        "copies an output to a pipe as it is, and to a terminal written out",
    ),
    (
        "cli/src/commands/mcp/serve.rs",
        "messages for a client, which are JSON",
    ),
    (
        "cli/src/commands/run.rs",
        "the structured answer, which is JSON",
    ),
    ("cli/src/commands/run/serve.rs", "lines of JSON for a host"),
    ("cli/src/input.rs", "the prompt of a plain conversation"),
    (
        "cli/src/lib.rs",
        "texts of the argument parser, and the question about trust",
    ),
    (
        "engine/src/log.rs",
        "the log, which goes to standard error if it is asked for without a file",
    ),
    (
        "sandbox/src/linux/check.rs",
        "runs in the confined child and reports to its parent through a pipe",
    ),
];

const MACROS: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];

/// Returns every place that prints and may not, one line each.
pub fn faults(root: &Path, folders: &[String]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for folder in folders {
        if PRINTING.contains(&folder.as_str()) {
            continue;
        }
        let source = Path::new(folder).join("src");
        for path in tidy::files(root, &source)? {
            let shown = path.to_string_lossy();
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            if is_rust && !shown.ends_with("/tests.rs") {
                let text = fs::read_to_string(root.join(&path))
                    .with_context(|| format!("reading {shown}"))?;
                faults.extend(faults_of(&shown, &text));
            }
        }
    }
    let unneeded = ALLOWED
        .iter()
        .filter(|(path, _)| !root.join(path).is_file());
    faults.extend(unneeded.map(|(path, _)| {
        format!("xtask/src/prints.rs: there is no `{path}`; remove it from the list")
    }));
    Ok(faults)
}

fn faults_of(path: &str, text: &str) -> Vec<String> {
    let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == path);
    // Most files have none of these words and need no scan.
    let may_print = ["print", "dbg", "stdout", "stderr", "anstream"];
    if is_allowed || !may_print.iter().any(|word| text.contains(word)) {
        return Vec::new();
    }
    let tokens = tokens(text);
    let places = (0..tokens.len()).filter_map(|at| {
        let what = printing(&tokens, at)?;
        let line = tokens[at].line;
        Some(format!(
            "{path}: line {line}: `{what}` prints, which only {} may; return the text, emit an event or use `tracing`",
            PRINTING.join(", ")
        ))
    });
    places.collect()
}

/// Returns the name of the macro, function or crate at `at` if it prints.
fn printing<'a>(tokens: &[Token<'a>], at: usize) -> Option<&'a str> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let before = at.checked_sub(1).map_or("", text);
    let name = text(at);
    let is_macro = MACROS.contains(&name) && text(at + 1) == "!";
    let is_asked = (text(at + 3), text(at + 4)) == (".", "is_terminal");
    let is_stream = matches!(name, "stdout" | "stderr")
        && (text(at + 1), text(at + 2)) == ("(", ")")
        && !matches!(before, "." | "fn")
        && !is_asked;
    let is_crate = name == "anstream" && text(at + 1) == "::";
    (is_macro || is_stream || is_crate).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_to_a_standard_stream_is_refused() {
        for (text, expected) in [
            ("fn f() { println!(\"x\"); }", 1),
            ("fn f() { eprint!(\"x\"); dbg!(1); }", 2),
            (
                "use std::io::stderr;\nfn f() { stderr().write_all(b\"x\"); }",
                1,
            ),
            ("fn f() { std::io::stdout().lock(); }", 1),
            ("use anstream::AutoStream;", 1),
            (
                "fn f(command: Command) { command.stdout(pipe); child.stdout(); }",
                0,
            ),
            (
                "fn f() { text.push_str(\"println!()\"); } // eprintln!()",
                0,
            ),
            ("#[cfg(test)]\nmod tests { fn f() { println!(); } }", 0),
            ("macro_rules! shown { () => { println }; }", 0),
        ] {
            assert_eq!(faults_of("agent/src/x.rs", text).len(), expected, "{text}");
        }
    }

    #[test]
    fn a_line_says_where_and_what_to_do() {
        let faults = faults_of("agent/src/x.rs", "\nfn f() { println!(\"x\"); }");
        assert_eq!(
            faults,
            [
                "agent/src/x.rs: line 2: `println` prints, which only terminal, xtask, testkit, sim may; return the \
                 text, emit an event or use `tracing`"
            ]
        );
    }
}
