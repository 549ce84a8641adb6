//! What a project has to say that work is done: its tests, linters and builds, as its files name them. It is proposed to
//! people, and never run unasked.

use std::path::Path;

use ah_config::{found_file, stated};
use ah_conversation::json;
use serde_json::Value;

/// A command that passes when the work is done, and the file that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The command line.
    pub command: String,
    /// The file, relative to the project.
    pub source: &'static str,
}

/// Reads the commands from the content of a file.
type Reader = fn(&str) -> Vec<String>;

/// Files in which a project names its own commands. The first that names any counts.
const OWN: [(&str, Reader); 6] = [
    ("AGENTS.md", instructions),
    ("CLAUDE.md", instructions),
    ("Makefile", |text| targets("make", text)),
    ("makefile", |text| targets("make", text)),
    ("justfile", |text| targets("just", text)),
    ("package.json", scripts),
];

/// Files of languages, whose tools know what to run. All of them count where a project names nothing.
const USUAL: [(&str, Reader); 5] = [
    ("Cargo.toml", |_| vec!["cargo test".to_owned()]),
    ("go.mod", |_| {
        vec!["go vet ./...".to_owned(), "go test ./...".to_owned()]
    }),
    ("pyproject.toml", python),
    ("pytest.ini", |_| vec!["python3 -m pytest".to_owned()]),
    ("mix.exs", |_| vec!["mix test".to_owned()]),
];

/// Names of scripts and targets, in the order in which they are proposed.
const NAMES: [&str; 6] = ["check", "test", "tests", "lint", "typecheck", "build"];

/// Returns what a project has.
pub fn of(project: &Path) -> Vec<Condition> {
    proposed(|name| found_file::text(&project.join(name)).ok())
}

/// Returns the command line for all of them. What has more than plain words is in a shell of its own, on lines of its own: a
/// comment ends there, and `a || b` is one command.
pub fn joined(conditions: &[Condition]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " ._-/@+=:,".contains(c);
    let commands: Vec<_> = { conditions.iter().map(|it| &it.command) }
        .map(|command| match command.chars().all(is_plain) {
            true => command.clone(),
            false if conditions.len() == 1 => command.clone(),
            false => format!("(\n{command}\n)"),
        })
        .collect();
    commands.join(" && ")
}

/// Says what a project has, for a hint: ``this project has `make test` (Makefile)``.
pub fn hint(conditions: &[Condition]) -> Option<String> {
    let told = |it: &Condition| format!("`{}` ({})", it.command, it.source);
    let told: Vec<_> = conditions.iter().map(told).collect();
    (!told.is_empty()).then(|| format!("this project has {}", told.join(", ")))
}

fn proposed(read: impl Fn(&str) -> Option<String>) -> Vec<Condition> {
    let found = |(source, commands): &(&'static str, Reader)| {
        let text = read(source).unwrap_or_default();
        let commands = if text.is_empty() {
            Vec::new()
        } else {
            commands(&text)
        };
        let conditions = commands
            .into_iter()
            .map(|command| Condition { command, source });
        conditions.collect::<Vec<_>>()
    };
    let own = OWN.iter().map(found).find(|found| !found.is_empty());
    let mut all = own.unwrap_or_else(|| USUAL.iter().flat_map(found).collect());
    let mut seen = Vec::new();
    all.retain(|it| {
        let is_new = !seen.contains(&it.command);
        seen.push(it.command.clone());
        is_new
    });
    all
}

fn instructions(text: &str) -> Vec<String> {
    stated::below(text, &["test", "check", "verif"])
}

/// Returns the targets of a file for `make` or `just` that say whether all is well.
fn targets(program: &str, text: &str) -> Vec<String> {
    let has = |name: &&&str| {
        text.lines().any(|line| {
            let rest = line.strip_prefix(**name).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with(':') && !rest.starts_with(":="))
        })
    };
    let commands = NAMES.iter().filter(has);
    commands.map(|name| format!("{program} {name}")).collect()
}

/// Returns such scripts of a package.
fn scripts(text: &str) -> Vec<String> {
    let package: Value = json::from_str(text).unwrap_or_default();
    let is_meant = |name: &&&str| {
        let script = package["scripts"][**name].as_str();
        // What `npm init` writes.
        script.is_some_and(|script| !script.contains("no test specified"))
    };
    let commands = NAMES.iter().filter(is_meant);
    commands.map(|name| format!("npm run {name}")).collect()
}

fn python(text: &str) -> Vec<String> {
    let tools = [
        ("pytest", "python3 -m pytest"),
        ("[tool.ruff", "ruff check ."),
        ("[tool.mypy", "mypy ."),
    ];
    let named = tools.iter().filter(|(word, _)| text.contains(word));
    named.map(|(_, command)| (*command).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_what_the_project_names() {
        for (files, expected) in [
            (&[("README.md", "")][..], ""),
            (
                &[("Cargo.toml", "[package]"), ("go.mod", "module x")],
                "cargo test && go vet ./... && go test ./...",
            ),
            (
                &[
                    (
                        "Makefile",
                        "TEST := 1\nbuild:\n\tcc\ntest : build\ntests:=x\n",
                    ),
                    ("Cargo.toml", "[package]"),
                ],
                "make test && make build",
            ),
            (&[("justfile", "lint:\n  x\n")], "just lint"),
            (
                &[(
                    "AGENTS.md",
                    "# Tests\n```\ncargo test  # unit\ncargo clippy\na || b\n```\n",
                )],
                "(\ncargo test  # unit\n) && cargo clippy && (\na || b\n)",
            ),
            (&[("AGENTS.md", "# Tests\n```\na; b\n```\n")], "a; b"),
            (
                &[(
                    "package.json",
                    r#"{"scripts": {"build": "tsc", "test": "vitest", "start": "x"}}"#,
                )],
                "npm run test && npm run build",
            ),
            (
                &[(
                    "package.json",
                    r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#,
                )],
                "",
            ),
            (
                &[
                    ("pyproject.toml", "[tool.pytest.ini_options]\n[tool.ruff]\n"),
                    ("pytest.ini", "[pytest]"),
                ],
                "python3 -m pytest && ruff check .",
            ),
            (
                &[
                    (
                        "AGENTS.md",
                        "# Setup\n```\nnpm ci\n```\n## Testing\n```sh\n# all\n$ ./run-tests\n```\n",
                    ),
                    ("Makefile", "test:\n"),
                ],
                "./run-tests",
            ),
        ] {
            let read = |name: &str| {
                let file = files.iter().find(|(known, _)| *known == name);
                file.map(|(_, text)| (*text).to_owned())
            };
            assert_eq!(joined(&proposed(read)), expected, "{files:?}");
        }
        let found = proposed(|name| (name == "makefile").then(|| "test:\n".to_owned()));
        assert_eq!(
            hint(&found).unwrap(),
            "this project has `make test` (makefile)"
        );
        assert_eq!(hint(&[]), None);
    }
}
