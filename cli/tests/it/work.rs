//! `ah work`: from an issue to a pull request, with real git, a real remote, and agents that are this program.

mod site;

use ah_testkit::server::Server;
use serde_json::json;

use site::{PASS, Site, checks, does, plans};

#[test]
fn an_issue_becomes_a_branch_and_a_pull_request() {
    let Some(site) = Site::new() else { return };
    site.issue(3, "Someday", &[]);
    site.issue(7, "Greet in Latin", &["todo", "p1"]);
    site.issue(9, "Less urgent", &["todo"]);
    let turns = [plans(), does("salve", "greet: speaks Latin"), checks(PASS)].concat();
    let server = Server::new(turns);
    let ended = site.work(&server, []).run().expect(0);
    insta::assert_snapshot!(ended.stderr, @r"
    Working on #7: Greet in Latin
    plan …
    plan: done
    do …
    do: done
    push …
    push: done
    check …
    check: pass
    act …
    act: done
    success: see o/work/ for all that was left
    ");
    assert_eq!(server.refusals(), Vec::<String>::new());
    insta::assert_snapshot!(site.pushed("work/7"), @r"
    greet: speaks Latin by Ada
    greet: the first words by Ada
    ");
    insta::assert_snapshot!(site.kept("pulls/1"), @r#"{"branch":"work/7","base":"main","title":"Greet in Latin","body":"As planned.\n\nCloses #7\n"}"#);
    let issue = site.kept("issues/7");
    assert_eq!(issue["labels"], json!(["p1", "done"]));
    let comments = issue["comments"].as_array().unwrap();
    assert!(
        comments[0]
            .as_str()
            .unwrap()
            .starts_with("It greets in Latin now.")
    );
    assert!(
        comments[1]
            .as_str()
            .unwrap()
            .starts_with("**ah work: success**")
    );
    assert_eq!(comments.len(), 2);
    assert_eq!(site.kept("issues/9")["labels"], json!(["todo"]));
    // The checkout is as it was: nothing changed, no branch, nothing that git would add.
    assert_eq!(site.world.text("greet.sh"), "echo hello\n");
    let project = site.world.project();
    assert_eq!(site.git(&project, &["status", "--porcelain"]), "");
    assert_eq!(
        site.git(&project, &["branch", "--all", "--format=%(refname:short)"]),
        "main\norigin/main\norigin/work/7"
    );
    // And done is done.
    let again = site.work(&server, ["-i", "7"]).run().expect(0);
    assert!(again.stderr.contains("success"), "{}", again.stderr);
    assert_eq!(site.kept("issues/7"), issue);
}
