//! Proposes a setup from what a project already has: the steps for another agent, a dev container, the instructions for
//! agents, or lock files. Pure; people read the proposal before it counts.

use serde_json::Value;

use crate::settings::SetupSettings;

/// Proposed setup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proposal {
    /// Setup.
    pub setup: SetupSettings,
    /// File that the commands are from; empty if they follow from lock files.
    pub source: String,
    /// Commands of the file that cannot run in the sandbox.
    pub left_out: Vec<String>,
}

/// Returns what a project needs, as far as its files say. `read` returns the content of a file.
pub fn proposed(read: impl Fn(&str) -> Option<String>) -> Proposal {
    let mut proposal = Proposal::default();
    let mut is_known = false;
    for (file, commands) in SOURCES {
        let Some(text) = read(file) else { continue };
        if *file == STEPS {
            proposal.setup.submodules = has_option(&text, "submodules");
            proposal.setup.lfs = has_option(&text, "lfs");
        }
        let found = commands(&text);
        if !found.is_empty() {
            let (kept, left_out) = found.into_iter().partition(|line| runs(line));
            proposal.setup.commands = kept;
            proposal.left_out = left_out;
            (*file).clone_into(&mut proposal.source);
            is_known = true;
            break;
        }
    }
    if !is_known {
        for (file, command) in TOOLS {
            if read(file).is_some() {
                proposal.setup.commands.push((*command).to_owned());
            }
        }
    }
    let setup = &mut proposal.setup;
    setup.submodules |= read(".gitmodules").is_some();
    setup.lfs |= read(".gitattributes").is_some_and(|text| text.contains("filter=lfs"));
    if !setup.commands.is_empty() {
        let there = FILES.iter().filter(|file| read(file).is_some());
        setup.files = there.map(|file| (*file).to_owned()).collect();
        setup.allow_hosts = hosts(&setup.commands);
    }
    proposal
}

/// Reads the commands from the content of a file.
type Reader = fn(&str) -> Vec<String>;

const STEPS: &str = ".github/workflows/copilot-setup-steps.yml";
/// Files that say how a project is set up, the most specific one first.
const SOURCES: &[(&str, Reader)] = &[
    (STEPS, steps),
    (".devcontainer/devcontainer.json", container),
    (".devcontainer.json", container),
    ("AGENTS.md", instructions),
];

/// Lock files, and the commands that fetch what they name into the project's folder.
const TOOLS: &[(&str, &str)] = &[
    ("package-lock.json", "npm ci"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
    ("uv.lock", "uv sync"),
    (
        "requirements.txt",
        "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
    ),
    ("go.sum", "go mod vendor"),
    (
        "Cargo.lock",
        "mkdir -p .cargo && cargo vendor --quiet >> .cargo/config.toml",
    ),
];

/// Files that say what a project depends on.
const FILES: &[&str] = &[
    STEPS,
    ".devcontainer/devcontainer.json",
    ".devcontainer.json",
    "package.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "pyproject.toml",
    "uv.lock",
    "poetry.lock",
    "requirements.txt",
    "requirements-dev.txt",
    "go.mod",
    "go.sum",
    "Cargo.toml",
    "Cargo.lock",
    "Gemfile",
    "Gemfile.lock",
    "composer.lock",
];

/// Words of commands, and the hosts that they fetch from.
const HOSTS: &[(&str, &[&str])] = &[
    ("npm npx pnpm corepack", &["registry.npmjs.org"]),
    ("yarn", &["registry.yarnpkg.com", "registry.npmjs.org"]),
    (
        "pip pip3 uv poetry pipx",
        &["pypi.org", "files.pythonhosted.org"],
    ),
    ("cargo", &["index.crates.io", "static.crates.io"]),
    ("go", &["proxy.golang.org", "sum.golang.org"]),
    ("bundle gem", &["rubygems.org", "index.rubygems.org"]),
    ("composer", &["repo.packagist.org"]),
    ("mvn gradle gradlew", &["repo.maven.apache.org"]),
    ("dotnet", &["api.nuget.org"]),
];

fn hosts(commands: &[String]) -> Vec<String> {
    let is_end = |c: char| c.is_whitespace() || ";&|()/".contains(c);
    let mut hosts = Vec::new();
    for word in commands.iter().flat_map(|line| line.split(is_end)) {
        let known = HOSTS
            .iter()
            .find(|(tools, _)| tools.split(' ').any(|tool| tool == word));
        for host in known.into_iter().flat_map(|(_, hosts)| *hosts) {
            let host = format!("{host}:443");
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
    }
    hosts
}

/// Returns whether a command can run without being root and without a service.
fn runs(line: &str) -> bool {
    let is_end = |c: char| c.is_whitespace() || ";&|()".contains(c);
    let barred = [
        "sudo",
        "apt",
        "apt-get",
        "apk",
        "dnf",
        "yum",
        "docker",
        "systemctl",
    ];
    // An expression of the workflow has no value here.
    !line.contains("${{") && !line.split(is_end).any(|word| barred.contains(&word))
}

/// Returns whether a step of a workflow switches an option of the checkout on.
fn has_option(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let value = line
            .trim()
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(':'));
        value.is_some_and(|value| matches!(unquoted(value), "true" | "recursive"))
    })
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\''])
}

/// Returns the commands of a workflow's steps.
fn steps(text: &str) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut commands = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let key = line.trim_start().trim_start_matches("- ");
        let Some(value) = key.strip_prefix("run:") else {
            continue;
        };
        let value = value.trim();
        if !value.starts_with(['|', '>']) {
            commands.push(unquoted(value).to_owned());
            continue;
        }
        let depth = line.len() - key.len();
        let mut block = Vec::new();
        while let Some(line) = lines.next_if(|line| line.trim().is_empty() || indent(line) > depth)
        {
            block.push(line.trim());
        }
        let is_line = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let block = block.into_iter().filter(is_line);
        if value.starts_with('>') {
            commands.push(block.collect::<Vec<_>>().join(" "));
        } else {
            commands.extend(joined(block));
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Joins lines that end with a backslash with the next.
fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all = Vec::new();
    let mut open = String::new();
    for line in lines {
        match line.strip_suffix('\\') {
            Some(part) => open.push_str(part),
            None => all.push(std::mem::take(&mut open) + line),
        }
    }
    all.extend((!open.is_empty()).then_some(open));
    all
}

/// Returns the commands that a dev container runs when it is created.
fn container(text: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(&without_comments(text)).unwrap_or_default();
    let names = [
        "onCreateCommand",
        "updateContentCommand",
        "postCreateCommand",
    ];
    let commands = names.iter().flat_map(|name| line_of(&value[*name]));
    commands.collect()
}

/// Returns the commands in one of the forms that a dev container may write them in.
fn line_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(line) if !line.trim().is_empty() => vec![line.trim().to_owned()],
        Value::Array(words) => {
            let quoted = |word: &Value| {
                let word = word.as_str()?;
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@".contains(c);
                Some(if !word.is_empty() && word.chars().all(is_plain) {
                    word.to_owned()
                } else {
                    format!("'{}'", word.replace('\'', r"'\''"))
                })
            };
            vec![
                words
                    .iter()
                    .filter_map(quoted)
                    .collect::<Vec<_>>()
                    .join(" "),
            ]
        }
        Value::Object(named) => named.values().flat_map(line_of).collect(),
        _ => Vec::new(),
    }
}

/// Removes comments and trailing commas from JSON.
fn without_comments(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text.chars().peekable();
    let mut is_string = false;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some(_)) if is_string => {
                clean.push(c);
                clean.extend(rest.next());
                continue;
            }
            ('"', _) => is_string = !is_string,
            ('/', Some('/')) if !is_string => {
                while rest.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            ('/', Some('*')) if !is_string => {
                let mut last = ' ';
                for c in rest.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
                continue;
            }
            ('}' | ']', _) if !is_string => {
                let length = clean.trim_end().strip_suffix(',').map(str::len);
                clean.truncate(length.unwrap_or(clean.len()));
            }
            _ => {}
        }
        clean.push(c);
    }
    clean
}

/// Returns the commands of the first block of code below a heading about the setup.
fn instructions(text: &str) -> Vec<String> {
    let is_about = |line: &str| {
        let title = line.to_ascii_lowercase();
        let words = [
            "setup",
            "set up",
            "install",
            "dependencies",
            "getting started",
        ];
        line.starts_with('#') && words.iter().any(|word| title.contains(word))
    };
    let mut lines = text.lines().skip_while(|line| !is_about(line)).skip(1);
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    let Some(fence) = lines
        .by_ref()
        .find(|line| is_fence(line) || line.starts_with('#'))
    else {
        return Vec::new();
    };
    let language = fence.trim_start().trim_start_matches('`').trim();
    if !is_fence(fence) || !matches!(language, "" | "sh" | "bash" | "shell" | "console") {
        return Vec::new();
    }
    let block = lines.take_while(|line| !is_fence(line)).map(str::trim);
    let block = block.map(|line| line.trim_start_matches("$ "));
    joined(block.filter(|line| !line.is_empty() && !line.starts_with('#')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKFLOW: &str = r#"
on: workflow_dispatch
jobs:
  copilot-setup-steps:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
        with:
          submodules: recursive
      - name: Dependencies
        run: npm ci
      - run: |
          # the compiler
          sudo apt-get install -y gcc
          python3 -m venv .venv
          .venv/bin/pip install \
            -r requirements.txt
      - run: >
          cargo fetch
          --locked
      - run: echo ${{ secrets.TOKEN }}
"#;

    fn check(files: &[(&str, &str)], commands: &str, hosts: &str) -> Proposal {
        let read = |name: &str| {
            let mut files = files.iter();
            let file = files.find(|(known, _)| *known == name);
            file.map(|(_, text)| (*text).to_owned())
        };
        let proposal = proposed(read);
        assert_eq!(proposal.setup.commands.join("; "), commands, "{files:?}");
        let known = proposal.setup.allow_hosts.join(" ").replace(":443", "");
        assert_eq!(known, hosts, "{files:?}");
        proposal
    }

    #[test]
    fn lock_files_say_what_to_fetch() {
        let pypi = "pypi.org files.pythonhosted.org";
        check(&[("README.md", "")], "", "");
        let found = check(
            &[("package-lock.json", ""), ("package.json", "")],
            "npm ci",
            "registry.npmjs.org",
        );
        assert_eq!(found.setup.files, ["package.json", "package-lock.json"]);
        check(&[("uv.lock", "")], "uv sync", pypi);
    }

    #[test]
    fn the_steps_for_another_agent_are_taken_over() {
        let found = check(
            &[(STEPS, WORKFLOW), ("package-lock.json", "")],
            "npm ci; python3 -m venv .venv; .venv/bin/pip install -r requirements.txt; cargo fetch --locked",
            "registry.npmjs.org pypi.org files.pythonhosted.org index.crates.io static.crates.io",
        );
        assert!(found.setup.submodules && !found.setup.lfs);
        assert_eq!(found.source, STEPS);
        let left_out = ["sudo apt-get install -y gcc", "echo ${{ secrets.TOKEN }}"];
        assert_eq!(found.left_out, left_out);
        assert_eq!(found.setup.files, [STEPS, "package-lock.json"]);
    }

    #[test]
    fn the_commands_of_a_dev_container_are_taken_over() {
        let text = r#"{
            // made by hand
            "image": "https://example.org/image", /* and more */
            "onCreateCommand": ["npm", "ci", "--cache", "a b"],
            "postCreateCommand": {"a": "uv sync", "b": ["bundle", "install"],},
        }"#;
        check(
            &[(".devcontainer/devcontainer.json", text)],
            "npm ci --cache 'a b'; uv sync; bundle install",
            "registry.npmjs.org pypi.org files.pythonhosted.org rubygems.org index.rubygems.org",
        );
        check(
            &[(".devcontainer.json", "not JSON"), ("go.sum", "")],
            "go mod vendor",
            "proxy.golang.org sum.golang.org",
        );
    }

    #[test]
    fn the_instructions_for_agents_are_taken_over() {
        let text = "# Notes\n```sh\nmake\n```\n## Setup\nRun:\n```bash\n# first\n$ npm ci\nyarn build\n```\n";
        check(
            &[("AGENTS.md", text)],
            "npm ci; yarn build",
            "registry.npmjs.org registry.yarnpkg.com",
        );
        let without = "## Setup\nNothing.\n## Tests\n```sh\nmake test\n```\n";
        check(&[("AGENTS.md", without)], "", "");
        check(
            &[("AGENTS.md", "## Install\n```toml\na = 1\n```\n")],
            "",
            "",
        );
    }

    #[test]
    fn large_files_are_filled_in() {
        let found = check(&[(".gitattributes", "*.bin filter=lfs diff=lfs\n")], "", "");
        assert!(found.setup.lfs);
    }
}
