//! Projects of others with tests of their own, one each from the registries of npm, Python and Rust: setup, a change, their
//! tests run by the review, a pull request. `cargo xtask test projects` downloads them and passes their folder; without it,
//! these tests pass without testing anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::site::{PASS, Site, changes, plans, writes};

/// A project.
struct Project {
    /// Files to begin with, below the folder of all projects.
    sources: &'static [&'static str],
    /// Commands of the setup; `$ALL` is the folder of all projects.
    setup: &'static [&'static str],
    /// The agent's change, with a test of its own.
    change: &'static str,
    /// Command that runs the project's tests.
    tests: &'static str,
    /// What it says if they pass.
    passed: &'static str,
}

const NPM: Project = Project {
    sources: &["node_modules/left-pad"],
    setup: &["cp -R \"$ALL/node_modules\" . && rm -rf node_modules/left-pad"],
    change: "sed -i \"s/^'use strict';/'use strict'; \\/\\/ pads/\" index.js && \
        printf '%s\\n' \"test('widens', function (assert) { assert.plan(1); assert.equal(leftPad('a', 3, 'b'), 'bba'); });\" >> test.js",
    tests: "npm test --offline 2>&1 | tail -8; grep -c widens test.js",
    passed: "# pass  36",
};

const PYTHON: Project = Project {
    sources: &["site-packages/toolz", "site-packages/tlz"],
    setup: &[
        "python3 -m venv .venv",
        "cp -R \"$ALL\"/python/lib/python3*/site-packages/. .venv/lib/python3*/site-packages/",
    ],
    change: "printf '\\n\\ndef test_twice():\\n    assert list(map(double, [1, 2])) == [2, 4]\\n' >> toolz/tests/test_functoolz.py",
    tests: ".venv/bin/python -m pytest -q -p no:cacheprovider toolz/tests/test_functoolz.py 2>&1 | tail -8",
    passed: " passed",
};

const RUST: Project = Project {
    sources: &["fnv"],
    setup: &[
        "cargo generate-lockfile --offline",
        "cargo test --offline --no-run",
    ],
    change: "printf '\\n#[test]\\nfn two_keys() {\\n    assert_ne!(FnvHasher::with_key(1).finish(), FnvHasher::with_key(2).finish());\\n}\\n' >> lib.rs",
    tests: "cargo test --offline 2>&1 | tail -30",
    passed: "test two_keys ... ok",
};

fn all() -> Option<PathBuf> {
    std::env::var_os("AH_TEST_PROJECTS").map(PathBuf::from)
}

/// Returns where a source is; the folder of Python's packages has its version in its name.
fn place(all: &Path, source: &str) -> PathBuf {
    let Some(name) = source.strip_prefix("site-packages/") else {
        return all.join(source);
    };
    let mut versions = fs::read_dir(all.join("python/lib")).unwrap();
    let version = versions.next().unwrap().unwrap().path();
    version.join("site-packages").join(name)
}

fn play(project: &Project) {
    let Some(all) = all() else { return };
    let Some(site) = Site::new() else { return };
    let top = site.world.project();
    for source in project.sources {
        let place = place(&all, source);
        // A package of Python is a folder in the project, the others are the project.
        let from = if source.starts_with("site-packages/") {
            place.into_os_string()
        } else {
            place.join(".").into_os_string()
        };
        let copied = Command::new("cp").arg("-R").arg(from).arg(&top).status();
        assert!(copied.unwrap().success());
    }
    site.git(&top, &["add", "--all"]);
    site.git(&top, &["commit", "-qm", "the project as it was published"]);
    site.git(&top, &["push", "-q", "origin", "main"]);
    let github = site.github();
    github.open(7, "One test more", "", &["todo"]);
    let commit = format!("{} && git commit -qam 'tests: one more'", project.change);
    let mut review = vec![uses("bash", json!({"command": project.tests}))];
    let report = format!("## Validation\n`{}`\n## Verdict\npass\n", project.tests);
    let path = "o/work/check/check.md";
    review.push(uses("write", json!({"path": path, "content": report})));
    review.extend(writes("o/work/check/actions.json", PASS));
    let server = Server::new([plans(), changes("do", &commit), review, vec![says("-")]].concat());
    let path = all.to_str().unwrap();
    let commands = project.setup.iter().map(|line| line.replace("$ALL", path));
    let commands: Vec<_> = commands.collect();
    let rust = said("rustc", &["--print", "sysroot"]);
    let python = said("python3", &["-c", "import sys; print(sys.base_prefix)"]);
    let seen = [&*all, Path::new(&rust), Path::new(&python)];
    let seen = seen.map(|path| format!("{}:rx", path.display()));
    let settings = json!({
        "sandbox": {"unveil": seen},
        "work": {"setup": {"commands": commands, "timeout": 300}},
    });
    let variable = std::env::var("PATH").unwrap();
    let ended = site
        .on(&github, &server, ["--settings", &settings.to_string()])
        .env("PATH", format!("{rust}/bin:{python}/bin:{variable}"))
        .run();
    let log = fs::read_to_string(top.join("o/work/setup/setup.log")).unwrap_or_default();
    assert_eq!(ended.code, Some(0), "{}\n{log}", ended.stderr);
    let said = results(&server);
    assert!(said.contains(project.passed), "{said}\n{log}");
    let pulls = github.pulls();
    assert_eq!(pulls.len(), 1);
    assert!(
        pulls[0].body.contains("### Validation"),
        "{}",
        pulls[0].body
    );
    let changed = ["diff", "--stat", "main", "work/7"];
    let changed = site.git(&site.remote(), &changed);
    assert!(changed.lines().count() <= 3, "{changed}");
}

/// What a program prints.
fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What the tools of all agents have said.
fn results(server: &Server) -> String {
    let mut said = String::new();
    for request in server.requests() {
        let messages = request.body["messages"].as_array().cloned();
        for block in messages.into_iter().flatten() {
            let content = block["content"].as_array().cloned().unwrap_or_default();
            let is_result = |block: &Value| block["type"] == "tool_result";
            for block in content.into_iter().filter(is_result) {
                said.push_str(&block["content"].to_string().replace("\\n", "\n"));
            }
        }
    }
    said
}

#[test]
fn a_package_of_npm_is_changed_and_tested() {
    play(&NPM);
}

#[test]
fn a_package_of_python_is_changed_and_tested() {
    play(&PYTHON);
}

#[test]
fn a_crate_is_changed_and_tested() {
    play(&RUST);
}
