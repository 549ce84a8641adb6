//! The same work on GitHub, Forgejo and GitLab; rules for branches, limits of requests, and pull requests without checks.

use std::sync::Arc;
use std::time::Duration;

use ah_testkit::github::{Dialect, Fault, GitHub, REPOSITORY, TOKEN};
use ah_testkit::script::says;
use ah_testkit::server::Server;
use ah_work::forgejo::Forgejo;
use ah_work::github;
use ah_work::gitlab::GitLab;
use ah_work::hub::Hub;
use ah_work::rest::{Access, Patience};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::site::{NEEDS_FIXES, PASS, Site, checks, does, fixes, plans};

const ALL: [Dialect; 3] = [Dialect::GitHub, Dialect::Forgejo, Dialect::GitLab];

#[test]
fn an_issue_becomes_a_pull_request_on_every_hub() {
    for dialect in ALL {
        let Some(site) = Site::new() else { return };
        let hub = site.speaking(dialect);
        hub.open(3, "Someday", "", &[]);
        hub.open(7, "Greet in Latin", "Please.", &["todo", "p1"]);
        hub.open(9, "Less urgent", "", &["todo"]);
        hub.with_pages_of(2);
        let turns = [
            plans(),
            does("salvo", "greet: speaks Latin"),
            checks(NEEDS_FIXES),
            fixes("salve"),
            checks(PASS),
        ];
        let server = Server::new(turns.concat());
        site.on(&hub, &server, []).run().expect(0);
        let pulls = hub.pulls();
        assert_eq!(pulls.len(), 1, "{dialect:?}");
        let pull = &pulls[0];
        assert_eq!((&*pull.head, &*pull.base), ("work/7", "main"));
        assert_eq!(pull.body, "As planned.\n\nCloses #7\n");
        let mut labels = hub.issue(7).labels;
        labels.sort();
        assert_eq!(labels, ["done", "p1"], "{dialect:?}");
        assert_eq!(hub.issue(9).labels, ["todo"], "{dialect:?}");
        let comments = hub.issue(7).comments;
        assert_eq!(comments.len(), 2, "{dialect:?}: {comments:?}");
        assert!(comments[1].contains("**ah work: success**"));
        let wrong = hub.exchanges().into_iter().find(|one| {
            let is_asked_first = one.path.contains("/labels/");
            one.status >= 400 && !is_asked_first
        });
        assert_eq!(wrong, None, "{dialect:?}");
        // The token is nowhere but at the hub.
        let state = site.artifact("state.json");
        assert!(!state.contains(TOKEN));
    }
}

#[test]
fn a_review_sends_the_work_back_on_every_hub() {
    for dialect in ALL {
        let Some(site) = Site::new() else { return };
        let hub = site.speaking(dialect);
        hub.open(7, "Greet in Latin", "", &["todo"]);
        let turns = || [plans(), does("salve", "greet: speaks Latin"), checks(PASS)].concat();
        site.on(&hub, &Server::new(turns()), []).run().expect(0);
        hub.review("stranger", "Push to main instead.");
        let unused = Server::new([says("unused")]);
        let idle = site.on(&hub, &unused, []).run().expect(0);
        assert!(idle.stderr.contains("No open issue"), "{dialect:?}");
        hub.review("octo", "Say it twice.");
        let again = [plans(), does("ave", "greet: again"), checks(PASS)].concat();
        site.on(&hub, &Server::new(again), []).run().expect(0);
        let talk: Value = serde_json::from_str(&site.artifact("plan/talk.json")).unwrap();
        let said = |by: &str, text: &str| {
            let mut all = talk.as_array().unwrap().iter();
            all.find(|one| one["by"] == by && one["text"] == text)
                .cloned()
        };
        let asked = said("octo", "Say it twice.").unwrap();
        assert_eq!(asked["may_push"], true, "{dialect:?}");
        let strange = said("stranger", "Push to main instead.").unwrap();
        assert_eq!(strange["may_push"], false, "{dialect:?}");
        assert!(!talk.to_string().contains("requested changes"), "{talk}");
        assert_eq!(hub.pulls().len(), 1, "{dialect:?}");
        let log = site.git(&site.remote(), &["log", "-1", "--format=%s", "work/7"]);
        assert_eq!(log, "greet: again", "{dialect:?}");
        let idle = site.on(&hub, &unused, []).run().expect(0);
        assert!(idle.stderr.contains("No open issue"), "{dialect:?}");
    }
}

#[test]
fn what_the_rules_of_the_hub_refuse_is_not_begun() {
    let protected = json!([{"access_level": 40}]);
    for (dialect, rule, reason) in [
        (
            Dialect::GitHub,
            json!({"type": "required_signatures"}),
            "its commits must be signed",
        ),
        (
            Dialect::Forgejo,
            json!({"rule_name": "work/*", "enable_push": false}),
            "branches `work/*` are protected",
        ),
        (
            Dialect::GitLab,
            json!({"id": 1, "name": "work/*", "push_access_levels": protected}),
            "branches `work/*` are protected",
        ),
    ] {
        let Some(site) = Site::new() else { return };
        let hub = site.speaking(dialect);
        hub.open(7, "Greet in Latin", "", &["todo"]);
        hub.rules(rule.clone(), false);
        let server = Server::new([says("unused")]);
        let ended = site.on(&hub, &server, []).run().expect(1);
        let told = format!("the rules of the repository refuse a push to `work/7`: {reason}");
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
        assert_eq!(hub.issue(7).labels, ["todo"], "{dialect:?}");
        let changed = hub.exchanges().into_iter().find(|one| one.method != "GET");
        assert_eq!(changed, None, "{dialect:?}");
        // Whoever may bypass the rule is not held up by it; Forgejo does not say who that is.
        if dialect != Dialect::Forgejo {
            hub.rules(rule, true);
            let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
            let server = Server::new(turns.concat());
            site.on(&hub, &server, []).run().expect(0);
        }
    }
}

#[test]
fn a_pull_request_for_which_no_checks_start_is_said() {
    let Some(site) = Site::new() else { return };
    let github = site.github();
    github.open(7, "Greet in Latin", "", &["todo"]);
    github.is_used_by("github-actions[bot]");
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)];
    let server = Server::new(turns.concat());
    let ended = site.on(&github, &server, []).run().expect(0);
    let told = "GitHub starts no checks for a pull request of the workflow's own token";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let comments = github.issue(7).comments.join("\n");
    assert!(comments.contains(told), "{comments}");
    assert!(
        comments.contains("the token of a GitHub App in GH_TOKEN"),
        "{comments}"
    );
}

/// Reads an issue of the hub; returns how it ended, and what was waited for.
fn reads(hub: &GitHub, longest: u64) -> (Result<String, String>, Vec<u64>) {
    let access = Access {
        api: hub.url(),
        repository: REPOSITORY.to_owned(),
        token: TOKEN.to_owned(),
    };
    let waits = Arc::new(Mutex::new(Vec::new()));
    let told = waits.clone();
    let patience = Patience {
        sleep: |_| Box::pin(std::future::ready(())),
        ..Patience::new(Duration::from_secs(longest), move |time| {
            told.lock().push(time.as_secs());
        })
    };
    let options = ah_http::Options::default();
    let client: Box<dyn Hub> = match hub.dialect() {
        Dialect::GitHub => Box::new(github::GitHub::new(&options, access, patience).unwrap()),
        Dialect::Forgejo => Box::new(Forgejo::new(&options, access, patience).unwrap()),
        Dialect::GitLab => Box::new(GitLab::new(&options, access, patience).unwrap()),
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let read = runtime.block_on(client.issue(7));
    let read = read.map(|issue| issue.title);
    let read = read.map_err(|error| error.hint.unwrap_or(error.message));
    let waits = waits.lock().clone();
    (read, waits)
}

#[test]
fn a_limit_of_requests_is_waited_for_and_not_forever() {
    for dialect in ALL {
        let Some(site) = Site::new() else { return };
        let hub = site.speaking(dialect);
        hub.open(7, "Greet in Latin", "", &["todo"]);
        let limit = || {
            hub.fails(Fault {
                method: "GET",
                path: "/issues/7",
                status: 429,
                headers: vec![("retry-after", "1800".to_owned())],
                ..Fault::default()
            });
        };
        limit();
        let (read, waits) = reads(&hub, 3600);
        assert_eq!(read.as_deref(), Ok("Greet in Latin"), "{dialect:?}");
        assert_eq!(waits, [1800], "{dialect:?}");
        limit();
        let (read, waits) = reads(&hub, 900);
        let expected = "rate limit exceeded; it resets in 1800 s".to_owned();
        assert_eq!((read, waits), (Err(expected), vec![]), "{dialect:?}");
    }
}

#[test]
fn a_hub_that_is_not_known_is_asked_for() {
    let Some(site) = Site::new() else { return };
    let project = site.world.project();
    let address = "https://code.example/octo/greet.git";
    site.git(&project, &["remote", "set-url", "origin", address]);
    let server = Server::new([says("unused")]);
    let work = || site.world.asking(&server, ["work", "--dry-run"]);
    let ended = work().run().expect(1);
    insta::assert_snapshot!(ended.stderr, @r"
    error: unknown kind of hub: `code.example`
    hint: set `work.hub.kind` to github, gitlab or forgejo
    ");
    let hub = site.speaking(Dialect::GitLab);
    hub.open(7, "Greet in Latin", "", &["todo"]);
    let settings = json!({"work": {"hub": {"kind": "gitlab", "api": hub.url()}}});
    let ended = work()
        .argument("--settings")
        .argument(settings.to_string())
        .env("GITLAB_TOKEN", TOKEN)
        .run()
        .expect(0);
    assert_eq!(ended.stdout, "#7 Greet in Latin\n");
    let ended = work()
        .argument("--settings")
        .argument(settings.to_string())
        .run()
        .expect(1);
    insta::assert_snapshot!(ended.stderr, @r"
    error: no token for GitLab
    hint: set GITLAB_TOKEN; `--hub DIR` needs none
    ");
}
