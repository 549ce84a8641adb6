//! Lines that shells read from their standard input.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use ah_process::{Behind, Command, Ending, ShellLine};
use proptest::prelude::*;

use crate::shell::{Scratch, text};

/// Returns the shells of this machine.
fn shells() -> Vec<PathBuf> {
    let names = ["bash", "sh", "dash", "ash", "ksh", "mksh", "zsh"];
    let folders = ["/bin", "/usr/bin", "/usr/local/bin"];
    let found = names.iter().filter_map(|name| {
        let mut paths = folders
            .iter()
            .map(|folder| PathBuf::from(folder).join(name));
        paths.find(|path| path.is_file())
    });
    found.collect()
}

fn command(scratch: &Scratch, shell: &Path, line: ShellLine) -> Command {
    Command {
        program: shell.to_owned(),
        arguments: line.arguments,
        stdin: line.stdin,
        ..scratch.command("")
    }
}

async fn run(scratch: &Scratch, shell: &Path, line: ShellLine) -> (Ending, String) {
    text(command(scratch, shell, line).run().await.unwrap())
}

#[tokio::test]
async fn a_line_does_what_it_does_as_an_argument() {
    let scratch = Scratch::new();
    for shell in shells() {
        for line in [
            "",
            "\n",
            "echo a\\\n",
            "echo a\\",
            "printf '%s\\n' 'a\\nb' \"$0\" \"$#\" \"$@\"",
            "echo $?; echo $-",
            "cat <<EOF\nx\n\n",
            "cat <<'EOF'\n  x\ty  \n\\E $a\nEOF\necho 'é€😀'",
            "cat; read x; echo $?",
            "set -e; false; echo no",
            "trap 'echo bye' EXIT; exit 4",
            "kill -9 $$",
            "f() { return 2; }; f",
            "exec printf x",
            "(exit 3) | cat; echo $?",
            "ls /proc/self/fd",
            "env | grep -c '^_*=.*read'; set | grep '^__'",
            "# nothing",
        ] {
            let mut results = Vec::new();
            for mut form in [
                ShellLine::as_argument(line),
                ShellLine::new(&shell, line, Behind::Nothing),
            ] {
                form.arguments.extend(["ah", "a b", "c"].map(Into::into));
                results.push(run(&scratch, &shell, form).await);
            }
            assert_eq!(results[1], results[0], "{} {line:?}", shell.display());
        }
    }
}

#[tokio::test]
async fn a_line_is_in_the_arguments_of_no_process() {
    let scratch = Scratch::new();
    // The line itself must start nothing that has the word among its arguments.
    let line = "for pid in $$ self $PPID; do tr '\\0' ' ' </proc/$pid/cmdline; done # canary";
    for shell in shells() {
        let (ending, output) = run(
            &scratch,
            &shell,
            ShellLine::new(&shell, line, Behind::Nothing),
        )
        .await;
        assert_eq!(ending, Ending::Exited(0));
        assert!(!output.is_empty() && !output.contains("canary"), "{output}");
    }
}

#[tokio::test]
async fn a_line_may_be_longer_than_an_argument() {
    let scratch = Scratch::new();
    for shell in shells() {
        for length in [131_071, 131_072, 1_000_000] {
            let text = format!("{}\n", "x".repeat(79)).repeat(length / 80);
            let line = format!("wc -c <<'EOF'\n{text}EOF\n# {}", "y".repeat(131_072));
            let (ending, output) = run(
                &scratch,
                &shell,
                ShellLine::new(&shell, &line, Behind::Nothing),
            )
            .await;
            assert_eq!(ending, Ending::Exited(0));
            assert_eq!(output.trim(), text.len().to_string(), "{}", shell.display());
        }
    }
}

#[tokio::test]
async fn what_is_behind_a_line_is_its_standard_input() {
    let scratch = Scratch::new();
    for shell in shells() {
        let line = "read -r one; echo \"$one\"; cat";
        let mut form = ShellLine::new(&shell, line, Behind::Input);
        form.stdin.extend(b"1\n2\n3");
        let recorded = run(&scratch, &shell, form.clone()).await;
        assert_eq!(recorded, (Ending::Exited(0), "1\n2\n3".to_owned()));
        // And through a pipe.
        let command = command(&scratch, &shell, form.clone());
        let (child, mut pipes) = command.converse().await.unwrap();
        pipes.stdin.write_all(&form.stdin).unwrap();
        drop(pipes.stdin);
        let mut output = String::new();
        pipes.stdout.read_to_string(&mut output).unwrap();
        assert_eq!(output, "1\n2\n3", "{}", shell.display());
        child.wait().await;
    }
}

#[tokio::test]
async fn a_line_with_a_nul_is_not_run() {
    let scratch = Scratch::new();
    for shell in shells() {
        let line = ShellLine::new(&shell, "touch made\0touch made", Behind::Nothing);
        assert!(command(&scratch, &shell, line).run().await.is_err());
        assert!(!scratch.path("made").exists());
    }
}

/// What is left of the line must not be run.
#[tokio::test]
async fn a_line_that_a_startup_file_has_read_is_not_run() {
    let scratch = Scratch::new();
    let shell = PathBuf::from("/bin/bash");
    if !shell.is_file() {
        return;
    }
    let line = "echo \\\ntouch made\ntouch made";
    for reads in ["read x", "read x; read x", "cat >/dev/null"] {
        fs::write(scratch.path("startup"), reads).unwrap();
        let line = ShellLine::new(&shell, line, Behind::Nothing);
        let mut command = command(&scratch, &shell, line);
        let startup = scratch.path("startup").display().to_string();
        command.environment.push(("BASH_ENV".to_owned(), startup));
        let (ending, _) = text(command.run().await.unwrap());
        assert_ne!(ending, Ending::Exited(0), "{reads}");
        assert!(!scratch.path("made").exists(), "{reads}");
    }
}

/// A shell of another language would not understand the words that read a line.
#[test]
fn other_shells_are_given_the_line() {
    for name in ["/usr/bin/fish", "/usr/bin/nu", "pwsh", "/", ""] {
        let line = ShellLine::new(name.as_ref(), "echo a", Behind::Input);
        assert_eq!(line, ShellLine::as_argument("echo a"), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_arrives_unchanged(words in "[^\0]{0,300}") {
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let line = format!("printf %s. '{}'", words.replace('\'', r"'\''"));
        for shell in shells() {
            let scratch = Scratch::new();
            let form = ShellLine::new(&shell, &line, Behind::Nothing);
            let (ending, output) = runtime.block_on(run(&scratch, &shell, form));
            prop_assert_eq!(ending, Ending::Exited(0));
            prop_assert_eq!(output, format!("{words}."));
        }
    }
}
