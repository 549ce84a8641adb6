//! The same repository in the words of Forgejo.

use serde_json::{Value, json};

use super::body::refusal;
use super::query::parameter;
use super::repository::{Issue, Pull, REPOSITORY};
use super::shared::{MAINTAINER, Reply, RepositoryState, Shared};

const MOMENT: &str = "2026-01-02T03:04:05Z";
/// Number of the first pull request: they are counted together with the issues.
const PULLS: u64 = 1000;

/// Answers a request for a place in the repository.
pub(super) fn answer(
    shared: &Shared,
    state: &mut RepositoryState,
    (method, path): (&str, &[&str]),
    query: &str,
    sent: &Value,
) -> Reply {
    let page = |state: &RepositoryState, all| shared.page(state.page, path, query, all);
    match (method, path) {
        ("GET", []) => Reply::new(
            200,
            json!({
                "id": 1, "name": "greet", "full_name": REPOSITORY, "default_branch": "main",
                "empty": false, "private": false, "owner": user("octo"),
            }),
        ),
        ("GET", ["issues"]) => {
            let label = parameter(query, "labels");
            let has = |issue: &Issue| {
                let is_asked = |label: &String| issue.labels.contains(label);
                !issue.is_closed && label.as_ref().is_none_or(is_asked)
            };
            let issues = state.issues.iter().rev().filter(|(_, issue)| has(issue));
            let issues = issues.map(|(number, one)| issue(shared, state, *number, one));
            page(state, issues.collect())
        }
        ("POST", ["issues"]) => match sent["title"].as_str() {
            Some(title) if !title.is_empty() => {
                let number = state.issues.keys().last().unwrap_or(&0) + 1;
                let one = Issue {
                    title: title.to_owned(),
                    body: sent["body"].as_str().unwrap_or_default().to_owned(),
                    labels: names(state, &sent["labels"]),
                    ..Issue::default()
                };
                state.issues.insert(number, one.clone());
                Reply::new(201, issue(shared, state, number, &one))
            }
            _ => Reply::new(422, refusal("[Title]: Required")),
        },
        ("GET", ["labels"]) => {
            let labels = state.labels.iter().map(|name| label(state, name));
            page(state, labels.collect())
        }
        ("POST", ["labels"]) => {
            let name = sent["name"].as_str().unwrap_or_default().to_owned();
            let is_colour = sent["color"].as_str().is_some_and(|text| text.len() == 7);
            if name.is_empty() || !is_colour {
                return Reply::new(422, refusal("[Name]: Required"));
            }
            state.labels.push(name.clone());
            Reply::new(201, label(state, &name))
        }
        (_, ["issues", number, rest @ ..]) => {
            let number = number.parse().unwrap_or(0);
            of_issue(shared, state, number, (method, rest), sent)
        }
        (_, ["pulls", ..]) => of_pulls(shared, state, (method, path), query, sent),
        ("GET", ["collaborators", name, "permission"]) => {
            let permission = if *name == MAINTAINER { "write" } else { "read" };
            let answer =
                json!({ "permission": permission, "role_name": permission, "user": user(name) });
            Reply::new(200, answer)
        }
        ("GET", ["branch_protections"]) => {
            let rules: Vec<_> = state.rule.clone().into_iter().collect();
            Reply::new(200, rules.into())
        }
        _ => Reply::new(404, refusal("The target couldn't be found.")),
    }
}

fn of_pulls(
    shared: &Shared,
    state: &mut RepositoryState,
    (method, path): (&str, &[&str]),
    query: &str,
    sent: &Value,
) -> Reply {
    let page = |state: &RepositoryState, all| shared.page(state.page, path, query, all);
    match (method, path) {
        ("GET", ["pulls"]) => {
            let pulls = (PULLS..).zip(&state.pulls);
            let pulls = pulls.map(|(number, one)| pull(shared, number, one));
            page(state, pulls.collect())
        }
        ("POST", ["pulls"]) => {
            let reply = shared.open_pull(state, sent);
            match state.pulls.last() {
                Some(one) if reply.status == 201 => {
                    let number = PULLS + state.pulls.len() as u64 - 1;
                    Reply::new(201, pull(shared, number, one))
                }
                _ => reply,
            }
        }
        ("GET", ["pulls", _, "reviews"]) => {
            let reviews = (1..).zip(&state.reviews);
            let reviews = reviews.map(|(id, (by, text, commit))| {
                json!({
                    "id": id, "body": text, "user": user(by), "state": "REQUEST_CHANGES",
                    "commit_id": commit, "dismissed": false, "submitted_at": MOMENT,
                    "comments_count": 1,
                })
            });
            page(state, reviews.collect())
        }
        ("GET", ["pulls", _, "reviews", id, "comments"]) => Reply::new(
            200,
            json!([{
                "id": 1, "body": format!("remark of review {id}"), "user": user(MAINTAINER),
                "path": "greet.sh", "position": 1, "created_at": MOMENT,
            }]),
        ),
        _ => Reply::new(404, refusal("The target couldn't be found.")),
    }
}

fn of_issue(
    shared: &Shared,
    state: &mut RepositoryState,
    number: u64,
    (method, path): (&str, &[&str]),
    sent: &Value,
) -> Reply {
    if number >= PULLS && (method, path) == ("GET", &["comments"]) {
        return Reply::new(200, json!([]));
    }
    let Some(mut one) = state.issues.get(&number).cloned() else {
        return Reply::new(404, refusal("The target couldn't be found."));
    };
    let reply = match (method, path) {
        ("GET", []) => Reply::new(200, issue(shared, state, number, &one)),
        ("PATCH", []) => {
            one.is_closed = sent["state"] == "closed";
            Reply::new(201, issue(shared, state, number, &one))
        }
        ("POST", ["labels"]) => {
            for name in names(state, &sent["labels"]) {
                if !one.labels.contains(&name) {
                    one.labels.push(name);
                }
            }
            let labels = one.labels.iter().map(|name| label(state, name));
            Reply::new(200, labels.collect())
        }
        ("DELETE", ["labels", id]) => {
            let gone = names(state, &json!([id.parse::<u64>().unwrap_or(0)]));
            one.labels.retain(|name| !gone.contains(name));
            Reply::new(204, Value::Null)
        }
        ("GET", ["comments"]) => {
            let comments = (1..).zip(&one.comments);
            let comments: Vec<_> = comments.map(|(id, text)| comment(id, text)).collect();
            Reply::new(200, comments.into())
        }
        ("POST", ["comments"]) => {
            let text = sent["body"].as_str().unwrap_or_default().to_owned();
            let reply = Reply::new(201, comment(one.comments.len() as u64 + 1, &text));
            one.comments.push(text);
            reply
        }
        _ => Reply::new(404, refusal("The target couldn't be found.")),
    };
    state.issues.insert(number, one);
    reply
}

/// Returns the names of labels by their numbers.
fn names(state: &RepositoryState, ids: &Value) -> Vec<String> {
    let ids = ids.as_array().into_iter().flatten();
    let place = |id: &Value| usize::try_from(id.as_u64()?).ok()?.checked_sub(1);
    let names = ids.filter_map(|id| state.labels.get(place(id)?));
    names.cloned().collect()
}

fn label(state: &RepositoryState, name: &str) -> Value {
    let place = state.labels.iter().position(|known| known == name);
    let id = place.map_or(0, |place| place + 1);
    json!({ "id": id, "name": name, "color": "ededed", "description": "" })
}

fn user(login: &str) -> Value {
    json!({ "id": 1, "login": login, "full_name": "" })
}

fn comment(id: u64, text: &str) -> Value {
    json!({
        "id": id, "body": text, "user": user(MAINTAINER), "created_at": MOMENT,
        "updated_at": MOMENT,
    })
}

fn issue(shared: &Shared, state: &RepositoryState, number: u64, one: &Issue) -> Value {
    let labels = one.labels.iter().map(|name| label(state, name));
    json!({
        "id": number, "number": number, "title": one.title, "body": one.body,
        "labels": labels.collect::<Vec<_>>(), "pull_request": null,
        "state": if one.is_closed { "closed" } else { "open" },
        "created_at": format!("2026-01-{:02}T03:04:05Z", number.clamp(1, 28)),
        "user": user("stranger"),
        "html_url": shared.bodies.at(&format!("/{REPOSITORY}/issues/{number}")),
    })
}

fn pull(shared: &Shared, number: u64, one: &Pull) -> Value {
    let side = |branch: &str| json!({ "label": branch, "ref": branch, "sha": shared.commit(branch), "repo_id": 1 });
    json!({
        "id": number, "number": number, "title": one.title, "body": one.body, "state": "open",
        "head": side(&one.head), "base": side(&one.base), "user": user(MAINTAINER),
        "html_url": shared.bodies.at(&format!("/{REPOSITORY}/pulls/{number}")),
    })
}
