//! States of repositories, times faults of provider, hub and remote and `kill -9` in each phase. Whatever happens,
//! after as many further runs as it takes: nothing of a person is lost, there is one pull request and no comment twice,
//! the issue was never failed, and nothing was pushed but what the base and the agents' commits consist of.
//!
//! By default each state meets one of the faults; with `AH_TEST_MATRIX=all` all of them, and with names of states,
//! separated by commas, these do.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_provider::script::format::Turn;
use ah_testkit::github::{Fault, GitHub};
use ah_testkit::script::{fails, hangs};
use ah_testkit::server::Server;

use states::{STATES, State};

use super::people::{commit_of_a_person, merges};
use super::site::{NEEDS_FIXES, PASS, Site, checks, does, fixes, plans};

mod states;

/// Runs in which everything must be over.
const RUNS: usize = 5;

/// What goes wrong, once.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    Nothing,
    /// The model refuses a request of this agent, counted from 0.
    Model(usize),
    /// A request to the hub fails with this status.
    Hub(&'static str, &'static str, u16),
    /// The program is killed while this agent waits for an answer.
    KilledAgent(usize),
    /// The program is killed after this request to the hub was carried out.
    KilledAt(&'static str, &'static str),
    /// The program is killed while it pushes the branch.
    KilledPush,
    /// A person pushes to the branch between the phases.
    Person,
    /// The base goes on after the phase do, and conflicts.
    Base,
    /// The same, and the program is killed while the merging agent waits for an answer.
    KilledMerge,
}

const TROUBLES: [Trouble; 23] = [
    Trouble::Nothing,
    Trouble::Model(0),
    Trouble::Model(1),
    Trouble::Model(2),
    Trouble::Model(3),
    Trouble::Model(4),
    Trouble::Hub("GET", "/issues", 403),
    Trouble::Hub("GET", "/issues/7/comments", 401),
    Trouble::Hub("POST", "/issues/7/labels", 403),
    Trouble::Hub("POST", "/pulls", 403),
    Trouble::Hub("POST", "/issues/7/comments", 403),
    Trouble::Hub("DELETE", "/labels/doing", 403),
    Trouble::KilledAgent(0),
    Trouble::KilledAgent(1),
    Trouble::KilledAgent(2),
    Trouble::KilledAgent(3),
    Trouble::KilledAt("POST", "/issues/7/labels"),
    Trouble::KilledAt("POST", "/pulls"),
    Trouble::KilledAt("POST", "/issues/7/comments"),
    Trouble::KilledPush,
    Trouble::Person,
    Trouble::Base,
    Trouble::KilledMerge,
];

/// All agents in order, one of them with trouble first; and how many requests there are until then.
fn turns(trouble: Trouble) -> (Vec<Turn>, usize) {
    let mut agents = vec![
        plans(),
        does("salvo", "greet: speaks Latin"),
        checks(NEEDS_FIXES),
        fixes("salve"),
        checks(PASS),
    ];
    if matches!(trouble, Trouble::Base | Trouble::KilledMerge) {
        let resolve = "git merge -q origin/main; echo 'echo salvo, hi' > greet.sh && \
            git add greet.sh && git commit -qm 'Merge the base'";
        agents.insert(2, merges(resolve));
    }
    let mut all = Vec::new();
    let mut before = 0;
    for (at, agent) in agents.into_iter().enumerate() {
        match trouble {
            Trouble::Model(agent) if agent == at => all.push(fails(401, "authentication_error")),
            Trouble::KilledMerge if at == 2 => {
                all.push(hangs("Let me think"));
                before = all.len();
            }
            Trouble::KilledAgent(agent) if agent == at => {
                all.push(hangs("Let me think"));
                before = all.len();
            }
            _ => {}
        }
        all.extend(agent);
    }
    (all, before)
}

fn play(name: &str, state: State, trouble: Trouble) {
    let Some(site) = Site::new() else { return };
    state(&site);
    let github = site.github();
    github.open(7, "Greet in Latin", "Please.", &["todo"]);
    let was = people(&site);
    let (turns, before) = turns(trouble);
    let server = Server::new(turns);
    begin(&site, &github, &server, trouble, before);
    let mut runs = 0;
    while github.issue(7).labels != ["done"] {
        runs += 1;
        assert!(runs <= RUNS, "{name}, {trouble:?}: {:?}", github.issue(7));
        site.on(&github, &server, []).run();
    }
    check(name, trouble, &site, &github, &server, &was);
}

/// The first run, which meets the trouble.
fn begin(site: &Site, github: &GitHub, server: &Server, trouble: Trouble, before: usize) {
    let run = |words: &[&'static str]| site.on(github, server, words.iter().copied());
    match trouble {
        Trouble::Nothing | Trouble::Model(_) => drop(run(&[]).run()),
        Trouble::Hub(method, path, status) => {
            github.fails(Fault {
                method,
                path,
                status,
                ..Fault::default()
            });
            drop(run(&[]).run());
        }
        Trouble::Base | Trouble::KilledMerge => {
            for phase in [["plan"], ["do"]] {
                run(&phase).run().expect(0);
            }
            base_goes_on(site);
            if trouble == Trouble::KilledMerge {
                let running = run(&[]).start();
                server.wait_until(|asked| asked.len() == before);
                running.kill();
            }
        }
        Trouble::KilledAgent(_) => {
            let running = run(&[]).start();
            server.wait_until(|asked| asked.len() == before);
            running.kill();
        }
        Trouble::KilledAt(method, path) => {
            github.fails(Fault {
                method,
                path,
                is_done: true,
                is_held: true,
                ..Fault::default()
            });
            let running = run(&[]).start();
            github.wait_for(method, path);
            running.kill();
        }
        Trouble::KilledPush => {
            let pipe = site.world.home().join("pipe");
            let hook = site.remote().join("hooks/update");
            fs::create_dir_all(hook.parent().unwrap()).unwrap();
            let text = format!(
                "#!/bin/sh\ncase $1 in refs/heads/*) ;; *) exit 0;; esac\n[ -e {} ] || exec sleep 60\n",
                pipe.display()
            );
            fs::write(&hook, text).unwrap();
            fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
            let running = run(&[]).start();
            running.wait_for_notice("push ...");
            running.kill();
            fs::write(&pipe, "").unwrap();
        }
        Trouble::Person => {
            for phase in [["plan"], ["do"]] {
                run(&phase).run().expect(0);
            }
            let there = site.git(&site.remote(), &["for-each-ref", "refs/heads/work/7"]);
            let from = if there.is_empty() {
                "origin/main"
            } else {
                "origin/work/7"
            };
            commit_of_a_person(site, from);
        }
    }
}

/// What is a person's: all commits at the remote, and everything in the checkout.
fn people(site: &Site) -> (BTreeSet<String>, String) {
    let lines = |text: String| text.lines().map(str::to_owned).collect();
    let commits = lines(site.git(&site.remote(), &["rev-list", "--branches", "--tags"]));
    (commits, checkout(site))
}

fn checkout(site: &Site) -> String {
    let project = site.world.project();
    let parts = [
        &["status", "--porcelain"] as &[&str],
        &["for-each-ref", "refs/heads", "refs/stash", "refs/tags"],
        &["diff"],
    ];
    let parts = parts.map(|words| site.git(&project, words));
    parts.join("\n")
}

fn check(
    name: &str,
    trouble: Trouble,
    site: &Site,
    github: &GitHub,
    server: &Server,
    was: &(BTreeSet<String>, String),
) {
    let at = format!("{name}, {trouble:?}");
    let lines = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let commits = lines(site.git(&site.remote(), &["rev-list", "--branches", "--tags"]));
    assert!(
        commits.is_superset(&was.0),
        "{at}: commits of a person are lost"
    );
    assert_eq!(checkout(site), was.1, "{at}: the checkout has changed");
    let new: Vec<_> = commits.difference(&was.0).collect();
    for commit in new {
        let subject = site.git(&site.remote(), &["show", "-s", "--format=%s", commit]);
        let known = [
            "greet: speaks Latin",
            "greet: salve",
            "a person's fix",
            "greet: shorter",
            "Merge the base",
            "Merge the commits pushed to work/7 meanwhile",
        ];
        assert!(
            known.contains(&subject.as_str()),
            "{at}: {subject} was pushed"
        );
    }
    if trouble == Trouble::Person {
        let log = site.git(&site.remote(), &["log", "--format=%s", "refs/heads/work/7"]);
        assert!(log.contains("a person's fix"), "{at}: {log}");
    }
    let refs = site.git(
        &site.remote(),
        &["for-each-ref", "--format=%(refname)", "refs/ah"],
    );
    assert_eq!(refs, "", "{at}: a claim is left");
    assert_eq!(github.pulls().len(), 1, "{at}");
    let comments = github.issue(7).comments;
    let marks: BTreeSet<_> = comments
        .iter()
        .filter_map(|text| text.lines().last())
        .collect();
    assert_eq!(marks.len(), comments.len(), "{at}: {comments:?}");
    assert!(comments.len() <= 3, "{at}: {comments:?}");
    let failed = github.exchanges().into_iter().any(|one| {
        let labels = one.sent["labels"].as_array();
        one.path.ends_with("/labels")
            && labels.is_some_and(|labels| labels.iter().any(|label| label == "failed"))
    });
    assert!(!failed, "{at}: the issue was failed");
    assert_eq!(server.refusals(), Vec::<String>::new(), "{at}");
    if matches!(trouble, Trouble::Base | Trouble::KilledMerge) {
        let behind = [
            "log",
            "--format=%s",
            "refs/heads/main",
            "--not",
            "refs/heads/work/7",
        ];
        assert_eq!(site.git(&site.remote(), &behind), "", "{at}: not merged");
    }
    site.world.assert_nothing_runs();
}

/// A person changes on the base what the agent has changed.
fn base_goes_on(site: &Site) {
    let clone = site.world.home().join("base");
    let (remote, path) = (site.remote(), clone.to_str().unwrap().to_owned());
    let clones = ["clone", "-q", remote.to_str().unwrap(), &path];
    site.git(&site.world.home(), &clones);
    fs::write(clone.join("greet.sh"), "echo hi\n").unwrap();
    site.git(&clone, &["commit", "-qam", "greet: shorter"]);
    site.git(&clone, &["push", "-q", "origin", "main"]);
}

/// Plays every `of`th pair, beginning with number `from`.
#[expect(
    clippy::print_stdout,
    reason = "whoever plays all of them wants to see how far it is"
)]
fn part(from: usize, of: usize) {
    let whole = std::env::var("AH_TEST_MATRIX").unwrap_or_default();
    let mut failed = Vec::new();
    let mut count = 0;
    for (row, (name, state)) in STATES.into_iter().enumerate() {
        let all = whole == "all" || whole.split(',').any(|known| known == name);
        for (column, trouble) in TROUBLES.into_iter().enumerate() {
            // Each state meets a kind of trouble, and each kind of trouble a state.
            let is_chosen = column == row % TROUBLES.len();
            if (all || (is_chosen && whole.is_empty())) && row % of == from {
                println!("{name}, {trouble:?}");
                let played = std::panic::catch_unwind(|| play(name, state, trouble));
                failed.extend(played.is_err().then(|| format!("{name}, {trouble:?}")));
                count += 1;
            }
        }
    }
    println!("{count} pairs, {} failed: {failed:#?}", failed.len());
    assert!(failed.is_empty());
}

#[test]
fn whatever_happens_nothing_is_lost_or_done_twice() {
    part(0, 2);
}

#[test]
fn whatever_else_happens_nothing_is_lost_or_done_twice() {
    part(1, 2);
}
