//! The same repository in the words of GitLab.

use serde_json::{Value, json};

use super::query::parameter;
use super::repository::{Issue, Pull, REPOSITORY};
use super::shared::{MAINTAINER, Reply, RepositoryState, Shared};

const MOMENT: &str = "2026-01-02T03:04:05.000Z";

/// Returns an error response.
fn refused(status: u16, message: &str) -> Reply {
    Reply::new(status, json!({ "message": message }))
}

/// Answers a request for a place in the project.
pub(super) fn answer(
    shared: &Shared,
    state: &mut RepositoryState,
    (method, path): (&str, &[&str]),
    query: &str,
    sent: &Value,
) -> Reply {
    let page = |state: &RepositoryState, all| shared.page(state.page, path, query, all);
    match (method, path) {
        ("GET", []) => {
            let level = if state.is_exempt { 40 } else { 30 };
            Reply::new(
                200,
                json!({
                    "id": 1, "path_with_namespace": REPOSITORY, "default_branch": "main",
                    "permissions": {"project_access": {"access_level": level}, "group_access": null},
                }),
            )
        }
        ("GET", ["issues"]) => {
            let label = parameter(query, "labels");
            let issues = state.issues.iter().filter(|(_, issue)| {
                let has = |label: &String| issue.labels.contains(label);
                !issue.is_closed && label.as_ref().is_none_or(has)
            });
            let issues = issues.map(|(number, one)| issue(shared, *number, one));
            page(state, issues.collect())
        }
        ("POST", ["issues"]) => match sent["title"].as_str() {
            Some(title) if !title.is_empty() => {
                let number = state.issues.keys().last().unwrap_or(&0) + 1;
                let one = Issue {
                    title: title.to_owned(),
                    body: text(sent, "description"),
                    labels: words(&sent["labels"]),
                    ..Issue::default()
                };
                let body = issue(shared, number, &one);
                state.issues.insert(number, one);
                Reply::new(201, body)
            }
            _ => refused(400, "title is missing"),
        },
        ("GET", ["labels", name]) => match state.labels.iter().any(|label| label == name) {
            true => Reply::new(200, label(name)),
            false => refused(404, "404 Label Not Found"),
        },
        ("POST", ["labels"]) => {
            let name = text(sent, "name");
            if state.labels.contains(&name) {
                return refused(409, "Label already exists");
            }
            let body = label(&name);
            state.labels.push(name);
            Reply::new(201, body)
        }
        (_, ["issues", number, rest @ ..]) => {
            of_issue(shared, state, number, (method, path, rest), query, sent)
        }
        (_, ["merge_requests", ..]) => of_requests(shared, state, (method, path), query, sent),
        ("GET", ["members", "all"]) => {
            let asked = parameter(query, "query").unwrap_or_default();
            let members = [(MAINTAINER, 40), ("stranger", 20)];
            let found = members
                .into_iter()
                .filter(|(name, _)| name.contains(&asked));
            let found = found.map(|(name, level)| {
                json!({ "id": 1, "username": name, "name": name, "state": "active",
                        "access_level": level, "web_url": "http://localhost/u" })
            });
            page(state, found.collect())
        }
        ("GET", ["protected_branches"]) => {
            let rules = state.rule.clone().into_iter().collect();
            page(state, rules)
        }
        _ => refused(404, "404 Not Found"),
    }
}

fn of_issue(
    shared: &Shared,
    state: &mut RepositoryState,
    number: &str,
    (method, path, rest): (&str, &[&str], &[&str]),
    query: &str,
    sent: &Value,
) -> Reply {
    let number = number.parse().unwrap_or(0);
    let size = state.page;
    let Some(one) = state.issues.get_mut(&number) else {
        return refused(404, "404 Issue Not Found");
    };
    match (method, rest) {
        ("GET", ["notes"]) => {
            let notes = (1..).zip(&one.comments);
            let notes = notes.map(|(id, body)| note(id, MAINTAINER, body, false));
            shared.page(size, path, query, notes.collect())
        }
        ("POST", ["notes"]) => {
            let body = text(sent, "body");
            let reply = note(one.comments.len() as u64 + 1, MAINTAINER, &body, false);
            one.comments.push(body);
            Reply::new(201, reply)
        }
        ("GET", []) => Reply::new(200, issue(shared, number, one)),
        ("PUT", []) => {
            change(one, sent);
            Reply::new(200, issue(shared, number, one))
        }
        _ => refused(404, "404 Not Found"),
    }
}

fn of_requests(
    shared: &Shared,
    state: &mut RepositoryState,
    (method, path): (&str, &[&str]),
    query: &str,
    sent: &Value,
) -> Reply {
    let page = |state: &RepositoryState, all| shared.page(state.page, path, query, all);
    match (method, path) {
        ("GET", ["merge_requests"]) => {
            let branch = parameter(query, "source_branch");
            let pulls = (1..)
                .zip(&state.pulls)
                .filter(|(_, pull)| branch.as_ref().is_none_or(|branch| *branch == pull.head));
            let pulls = pulls.map(|(number, one)| merge_request(shared, number, one));
            page(state, pulls.collect())
        }
        ("POST", ["merge_requests"]) => {
            let asked = json!({
                "head": sent["source_branch"], "base": sent["target_branch"],
                "title": sent["title"], "body": sent["description"],
            });
            let reply = shared.open_pull(state, &asked);
            match state.pulls.last() {
                Some(one) if reply.status == 201 => {
                    let number = state.pulls.len() as u64;
                    Reply::new(201, merge_request(shared, number, one))
                }
                _ => refused(409, "Another open merge request already exists"),
            }
        }
        ("GET", ["merge_requests", _, what]) => of_request(shared, state, what, path, query),
        _ => refused(404, "404 Not Found"),
    }
}

fn change(one: &mut Issue, sent: &Value) {
    for name in words(&sent["add_labels"]) {
        if !one.labels.contains(&name) {
            one.labels.push(name);
        }
    }
    let gone = words(&sent["remove_labels"]);
    one.labels.retain(|name| !gone.contains(name));
    one.is_closed |= sent["state_event"] == "close";
}

/// Answers what is asked about the first merge request.
fn of_request(
    shared: &Shared,
    state: &RepositoryState,
    what: &str,
    path: &[&str],
    query: &str,
) -> Reply {
    let newest = state.pulls.first().map(|pull| shared.commit(&pull.head));
    let is_new = state.reviews.last().map(|review| &review.2) != newest.as_ref();
    let all: Vec<Value> = match what {
        "notes" => (1..)
            .zip(&state.reviews)
            .flat_map(|(id, (by, text, _))| {
                let said = note(id, by, text, false);
                [said, note(id + 100, by, "requested changes", true)]
            })
            .collect(),
        "reviewers" => {
            let reviews = state.reviews.iter();
            let reviewer = |(by, ..): &(String, String, String)| json!({ "user": user(by), "state": "requested_changes", "created_at": MOMENT });
            return Reply::new(200, reviews.map(reviewer).collect());
        }
        "versions" => {
            // The branch was pushed after the last review, or before.
            let day = if is_new { "03" } else { "01" };
            vec![json!({
                "id": 1, "head_commit_sha": newest, "created_at": format!("2026-01-{day}T00:00:00.000Z"),
            })]
        }
        _ => return refused(404, "404 Not Found"),
    };
    shared.page(state.page, path, query, all)
}

fn text(sent: &Value, key: &str) -> String {
    sent[key].as_str().unwrap_or_default().to_owned()
}

/// Returns the names in a list with commas.
fn words(list: &Value) -> Vec<String> {
    let names = list.as_str().unwrap_or_default().split(',');
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn user(name: &str) -> Value {
    json!({ "id": 1, "username": name, "name": name, "state": "active" })
}

fn label(name: &str) -> Value {
    json!({ "id": 1, "name": name, "color": "#ededed", "description": null })
}

fn note(id: u64, by: &str, body: &str, system: bool) -> Value {
    json!({
        "id": id, "body": body, "author": user(by), "system": system, "created_at": MOMENT,
        "updated_at": MOMENT,
    })
}

fn issue(shared: &Shared, number: u64, one: &Issue) -> Value {
    json!({
        "id": number, "iid": number, "title": one.title, "description": one.body,
        "labels": one.labels, "state": if one.is_closed { "closed" } else { "opened" },
        "created_at": format!("2026-01-{:02}T03:04:05.000Z", number.clamp(1, 28)),
        "author": user("stranger"),
        "web_url": shared.bodies.at(&format!("/{REPOSITORY}/-/issues/{number}")),
    })
}

fn merge_request(shared: &Shared, number: u64, one: &Pull) -> Value {
    json!({
        "id": number, "iid": number, "title": one.title, "description": one.body,
        "state": "opened", "source_branch": one.head, "target_branch": one.base,
        "sha": shared.commit(&one.head), "author": user(MAINTAINER),
        "web_url": shared.bodies.at(&format!("/{REPOSITORY}/-/merge_requests/{number}")),
    })
}
