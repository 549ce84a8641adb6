//! A setup from what a project already has: the steps for another agent, a dev container, the instructions for agents, or
//! lock files. It is proposed to people, and without `work.setup` a reduced one ([`Proposal::by_default`]) is run.

use ah_conversation::json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::artifact::Artifacts;
use ah_config::settings::work::SetupSettings;
use ah_config::stated::{self, is_command, script};

/// Name of the setting.
pub const SETTING: &str = "work.setup";
/// Value of the setting that does nothing.
pub const OFF: &str = "`{}`";
/// File with what was done, relative to `o/work`.
pub(crate) const PLAN: &str = "setup/setup.json";

/// Proposed setup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Setup.
    pub setup: SetupSettings,
    /// What the commands are from: a file, or several lock files.
    pub source: String,
    /// Commands of the file, and other needs, that are not met.
    pub left_out: Vec<String>,
}

impl Proposal {
    /// Returns what was done to prepare the agents' repository of the current work, if anything was.
    pub fn done(artifacts: &Artifacts) -> Option<Self> {
        json::from_str(&artifacts.read(PLAN)?).ok()
    }

    /// Returns what programs are told of it: where it is from, and what runs.
    pub fn to_json(&self) -> Value {
        json!({
            "source": self.source,
            "commands": self.setup.commands,
            "left_out": self.left_out,
        })
    }

    /// Returns what may be done without being asked for: nothing with the user's access to other repositories, whose
    /// addresses the project names.
    pub fn by_default(mut self) -> Self {
        let wanted = [
            ("submodules", self.setup.submodules),
            ("lfs", self.setup.lfs),
        ];
        let wanted = wanted.iter().filter(|(_, is_wanted)| *is_wanted);
        let options = wanted.map(|(name, _)| format!("the option `{name}` of `work.setup`"));
        self.left_out.extend(options);
        self.setup.submodules = false;
        self.setup.lfs = false;
        self
    }
}

/// Returns what a project needs, as far as its files say. `read` returns the content of a file, of those in [`names`];
/// `has` says whether a program is there.
pub fn proposed(read: impl Fn(&str) -> Option<String>, has: impl Fn(&str) -> bool) -> Proposal {
    let mut proposal = Proposal::default();
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
            break;
        }
    }
    if proposal.source.is_empty() {
        from_locks(&mut proposal, |file| read(file).is_some(), has);
    }
    let setup = &mut proposal.setup;
    setup.submodules |= read(".gitmodules").is_some();
    setup.lfs |= read(".gitattributes").is_some_and(|text| text.contains("filter=lfs"));
    if !setup.commands.is_empty() {
        let there = FILES.iter().filter(|(file, _)| read(file).is_some());
        let there: Vec<_> = there.collect();
        setup.files = there.iter().map(|(file, _)| (*file).to_owned()).collect();
        setup.allow_hosts = hosts(&setup.commands, there.iter().map(|(_, tool)| *tool));
    }
    proposal
}

/// Returns the names of all files that are looked at.
pub fn names() -> impl Iterator<Item = &'static str> {
    let sources = SOURCES.iter().map(|(file, _)| *file);
    let files = FILES.iter().map(|(file, _)| *file);
    let files = files.filter(|name| SOURCES.iter().all(|(file, _)| file != name));
    sources
        .chain(files)
        .chain([".gitmodules", ".gitattributes"])
}

/// Adds the commands for the project's lock files, one for each chain of tools that is there.
fn from_locks(
    proposal: &mut Proposal,
    is_there: impl Fn(&str) -> bool,
    has: impl Fn(&str) -> bool,
) {
    let mut chain = "";
    let mut sources = Vec::new();
    for lock in LOCKS.iter().filter(|lock| is_there(lock.file)) {
        if lock.chain == std::mem::replace(&mut chain, lock.chain) {
            continue;
        }
        if has(lock.program) {
            proposal.setup.commands.push(lock.command.to_owned());
            sources.push(lock.file);
        } else {
            let (file, program) = (lock.file, lock.program);
            let reason = format!("what `{file}` names, since there is no program `{program}`");
            proposal.left_out.push(reason);
        }
    }
    proposal.source = sources.join(", ");
}

/// Reads the commands from the content of a file.
type Reader = fn(&str) -> Vec<String>;

const STEPS: &str = ".github/workflows/copilot-setup-steps.yml";
/// Files that say how a project is set up, the most specific one first.
const SOURCES: &[(&str, Reader)] = &[
    (STEPS, steps),
    (".devcontainer/devcontainer.json", container),
    (".devcontainer.json", container),
    ("AGENTS.md", |text| stated::below(text, &SETUP)),
];

/// Words of headings about the setup.
const SETUP: [&str; 5] = [
    "setup",
    "set up",
    "install",
    "dependencies",
    "getting started",
];

/// A lock file, and the command that fetches what it names into the project's folder.
struct Lock {
    file: &'static str,
    /// Tools that fetch the same; the first lock file of a chain counts.
    chain: &'static str,
    program: &'static str,
    command: &'static str,
}

const fn lock(
    file: &'static str,
    chain: &'static str,
    program: &'static str,
    command: &'static str,
) -> Lock {
    Lock {
        file,
        chain,
        program,
        command,
    }
}

const LOCKS: &[Lock] = &[
    lock("package-lock.json", "node", "npm", "npm ci"),
    lock(
        "pnpm-lock.yaml",
        "node",
        "pnpm",
        "pnpm install --frozen-lockfile",
    ),
    lock(
        "yarn.lock",
        "node",
        "yarn",
        "yarn install --frozen-lockfile",
    ),
    lock("uv.lock", "python", "uv", "uv sync"),
    lock(
        "poetry.lock",
        "python",
        "poetry",
        "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",
    ),
    lock(
        "requirements.txt",
        "python",
        "python3",
        "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
    ),
    lock("go.sum", "go", "go", "go mod vendor"),
    lock(
        "Cargo.lock",
        "rust",
        "cargo",
        "mkdir -p .cargo && cargo vendor --quiet >> .cargo/config.toml",
    ),
    lock(
        "Gemfile.lock",
        "ruby",
        "bundle",
        "bundle config set --local path vendor/bundle && bundle install",
    ),
];

/// Files that say what a project depends on, and the tool that fetches it.
const FILES: &[(&str, &str)] = &[
    (STEPS, ""),
    (".devcontainer/devcontainer.json", ""),
    (".devcontainer.json", ""),
    ("AGENTS.md", ""),
    ("package.json", "npm"),
    ("package-lock.json", "npm"),
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("pyproject.toml", "pip"),
    ("uv.lock", "uv"),
    ("poetry.lock", "poetry"),
    ("requirements.txt", "pip"),
    ("requirements-dev.txt", "pip"),
    ("go.mod", "go"),
    ("go.sum", "go"),
    ("Cargo.toml", "cargo"),
    ("Cargo.lock", "cargo"),
    ("Gemfile", "bundle"),
    ("Gemfile.lock", "bundle"),
    ("composer.lock", "composer"),
    ("pom.xml", "mvn"),
    ("build.gradle", "gradle"),
    ("build.gradle.kts", "gradle"),
    ("global.json", "dotnet"),
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
    ("mvn mvnw", &["repo.maven.apache.org"]),
    (
        "gradle gradlew",
        &[
            "repo.maven.apache.org",
            "plugins.gradle.org",
            "services.gradle.org",
        ],
    ),
    ("dotnet", &["api.nuget.org"]),
];

/// Returns the registries of the tools that the commands name, and of those that the project's files are for.
fn hosts<'a>(commands: &'a [String], tools: impl Iterator<Item = &'a str>) -> Vec<String> {
    let is_end = |c: char| c.is_whitespace() || ";&|()/".contains(c);
    let mut hosts = Vec::new();
    let words = commands.iter().flat_map(|line| line.split(is_end));
    for word in words.chain(tools) {
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
        if value.starts_with('>') {
            let words = block.into_iter().filter(is_command);
            commands.push(words.collect::<Vec<_>>().join(" "));
        } else {
            commands.extend(script(block.into_iter()));
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Returns the commands that a dev container runs when it is created.
fn container(text: &str) -> Vec<String> {
    let value: Value = json::from_str(&without_comments(text)).unwrap_or_default();
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
        let proposal = proposed(read, |program| program != "pnpm");
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
        check(
            &[("uv.lock", ""), ("requirements.txt", "")],
            "uv sync",
            pypi,
        );
        let found = check(
            &[("pnpm-lock.yaml", ""), ("go.sum", "")],
            "go mod vendor",
            "proxy.golang.org sum.golang.org registry.npmjs.org",
        );
        assert_eq!(found.source, "go.sum");
        let reason = "what `pnpm-lock.yaml` names, since there is no program `pnpm`";
        assert_eq!(found.left_out, [reason]);
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
    fn lines_that_depend_on_each_other_stay_together() {
        let text = |script: &str| format!("## Setup\n```sh\n{script}\n```\n");
        for (script, commands) in [
            ("npm ci\nmake", "npm ci; make"),
            ("cd web\nnpm ci", "set -e\ncd web\nnpm ci"),
            ("if true\nthen make\nfi", "set -e\nif true\nthen make\nfi"),
            ("V=1\nmake $V", "set -e\nV=1\nmake $V"),
            // Half of it would be something else.
            ("cd web\nsudo make install\nnpm ci", ""),
        ] {
            let read = |name: &str| (name == "AGENTS.md").then(|| text(script));
            let found = proposed(read, |_| true);
            assert_eq!(found.setup.commands.join("; "), commands);
            assert_eq!(found.source, "AGENTS.md");
        }
    }

    #[test]
    fn large_files_are_filled_in_if_somebody_asks_for_it() {
        let found = check(&[(".gitattributes", "*.bin filter=lfs diff=lfs\n")], "", "");
        assert!(found.setup.lfs);
        let found = found.by_default();
        assert!(found.setup.is_empty());
        assert_eq!(found.left_out, ["the option `lfs` of `work.setup`"]);
    }
}
