//! A setting for `ah work`: a remote, a clone of it, issues, and scripted agents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ah_provider::script::format::Turn;
use ah_testkit::github::{Dialect, GitHub, REPOSITORY, TOKEN};
use ah_testkit::program::found;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::{Ah, World};

/// A review without findings.
pub const PASS: &str = r#"{"verdict": "pass", "actions": [
    {"action": "create_pr", "branch": "work/7", "title": "Greet in Latin", "body": "As planned."},
    {"action": "comment_issue", "body": "It greets in Latin now."}
]}"#;

/// A remote, a clone of it and issues.
pub struct Site {
    pub world: World,
}

impl Site {
    /// A new one; `None` without a sandbox.
    pub fn new() -> Option<Self> {
        if crate::sandbox::is_missing() {
            return None;
        }
        let world = World::new();
        let site = Self { world };
        let identity =
            "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n";
        fs::write(site.world.home().join(".gitconfig"), identity).unwrap();
        site.world.write("greet.sh", "echo hello\n");
        let remote = site.remote();
        site.git(
            &site.world.home(),
            &["init", "-q", "--bare", &text(&remote)],
        );
        let project = site.world.project();
        site.git(&project, &["init", "-q"]);
        site.git(&project, &["add", "greet.sh"]);
        site.git(&project, &["commit", "-q", "-m", "greet: the first words"]);
        site.git(&project, &["remote", "add", "origin", &text(&remote)]);
        site.git(&project, &["push", "-q", "origin", "main"]);
        Some(site)
    }

    /// The remote.
    pub fn remote(&self) -> PathBuf {
        self.world.home().join("remote.git")
    }

    /// The folder used as the hub instead of GitHub.
    pub fn hub(&self) -> PathBuf {
        self.world.home().join("hub")
    }

    /// Opens an issue.
    pub fn issue(&self, number: u64, title: &str, labels: &[&str]) {
        let issue = json!({
            "number": number, "title": title, "body": "Please.", "labels": labels,
            "created_at": format!("2026-01-{number:02}T00:00:00Z"),
        });
        let path = self.hub().join(format!("issues/{number}.json"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, issue.to_string()).unwrap();
    }

    /// A record of the hub, such as `issues/7`.
    pub fn kept(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.hub().join(format!("{name}.json")));
        text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    /// The commits of a branch of the remote, newest first: subject and author.
    pub fn pushed(&self, branch: &str) -> String {
        self.git(&self.remote(), &["log", "--format=%s by %an", branch])
    }

    /// `ah work` with these arguments.
    pub fn work<'a>(&self, server: &Server, words: impl IntoIterator<Item = &'a str>) -> Ah {
        let words = ["work"].into_iter().chain(words);
        self.world
            .asking(server, words)
            .argument("--hub")
            .argument(self.hub())
    }

    /// A fake hub with the remote's branches.
    pub fn speaking(&self, dialect: Dialect) -> GitHub {
        GitHub::speaking(dialect, &self.remote())
    }

    /// A fake GitHub with the remote's branches.
    pub fn github(&self) -> GitHub {
        GitHub::new(&self.remote())
    }

    /// `ah work` with these arguments, with issues on GitHub.
    pub fn on<'a>(
        &self,
        github: &GitHub,
        server: &Server,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Ah {
        let words = ["work", "-r", REPOSITORY].into_iter().chain(words);
        let (api, token) = match github.dialect() {
            Dialect::GitHub => ("GITHUB_API_URL", "GH_TOKEN"),
            Dialect::Forgejo => ("GITHUB_API_URL", "FORGEJO_TOKEN"),
            Dialect::GitLab => ("CI_API_V4_URL", "GITLAB_TOKEN"),
        };
        self.world
            .asking(server, words)
            .env(api, github.url())
            .env(token, TOKEN)
    }

    /// A file that `ah work` left behind, such as `plan/plan.md`.
    pub fn artifact(&self, name: &str) -> String {
        self.world.text(&format!("o/work/{name}"))
    }

    /// Runs git and returns its output.
    pub fn git(&self, folder: &Path, words: &[&str]) -> String {
        let output = Command::new(found("git"))
            .args(words)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.world.home())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {words:?}: {failed}");
        said.trim_end().to_owned()
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The agent writes this file and finishes.
pub fn writes(path: &str, content: &str) -> Vec<Turn> {
    vec![
        uses("write", json!({"path": path, "content": content})),
        says("Done."),
    ]
}

/// The planning agent.
pub fn plans() -> Vec<Turn> {
    writes(
        "o/work/plan/plan.md",
        "## Context\nx\n## Goal\nIt greets in Latin.\n## Target\n- Branch: work/7\n",
    )
}

/// The implementing agent changes greet.sh to print `word`, in a commit with this subject.
pub fn does(word: &str, subject: &str) -> Vec<Turn> {
    changes(
        "do",
        &format!("echo 'echo {word}' > greet.sh && git commit -q -am '{subject}'"),
    )
}

/// The agent runs this command and writes its report.
pub fn changes(phase: &str, command: &str) -> Vec<Turn> {
    let mut turns = vec![uses("bash", json!({"command": command}))];
    let path = format!("o/work/{phase}/do.md");
    turns.extend(writes(&path, "## Changes\ngreet.sh\n## Status\nsuccess\n"));
    turns
}

/// The reviewing agent.
pub fn checks(actions: &str) -> Vec<Turn> {
    let mut turns = vec![uses(
        "write",
        json!({"path": "o/work/check/check.md", "content": "## Verdict\nas it says\n"}),
    )];
    turns.extend(writes("o/work/check/actions.json", actions));
    turns
}

/// A review that requires changes.
pub const NEEDS_FIXES: &str = r#"{"verdict": "needs-fixes", "actions": [
    {"action": "comment_issue", "body": "Not quite."}
]}"#;

/// The fixing agent changes greet.sh to print another word.
pub fn fixes(word: &str) -> Vec<Turn> {
    changes(
        "fix",
        &format!("echo 'echo {word}' > greet.sh && git commit -q -am 'greet: {word}'"),
    )
}
