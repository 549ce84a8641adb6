//! The repository in the words of GitHub.

use serde_json::{Value, json};

use super::body::refusal;
use super::query::parameter;
use super::repository::{Issue, REPOSITORY};
use super::shared::{MAINTAINER, Reply, RepositoryState, Shared, invalid, texts};

impl Shared {
    pub(super) fn in_repository(
        &self,
        state: &mut RepositoryState,
        method: &str,
        path: &[&str],
        query: &str,
        sent: &Value,
    ) -> Reply {
        let bodies = &self.bodies;
        match (method, path) {
            ("GET", []) => Reply::new(200, bodies.repository()),
            ("GET", ["issues"]) => {
                let label = parameter(query, "labels");
                let issues = state.issues.iter().filter(|(_, issue)| {
                    let has = |label: &String| issue.labels.contains(label);
                    !issue.is_closed && label.as_ref().is_none_or(has)
                });
                let issues = issues.map(|(number, issue)| bodies.issue(*number, issue));
                self.page(state.page, path, query, issues.collect())
            }
            ("POST", ["issues"]) => match sent["title"].as_str() {
                Some(title) if !title.is_empty() => {
                    let number = state.issues.keys().last().unwrap_or(&0) + 1;
                    let issue = Issue {
                        title: title.to_owned(),
                        body: sent["body"].as_str().unwrap_or_default().to_owned(),
                        labels: texts(&sent["labels"]),
                        ..Issue::default()
                    };
                    let body = bodies.issue(number, &issue);
                    state.issues.insert(number, issue);
                    Reply::new(201, body)
                }
                _ => invalid("Issue", "title", "missing_field"),
            },
            ("GET", ["labels", name]) => {
                if state.labels.iter().any(|label| label == name) {
                    Reply::new(200, bodies.label(name))
                } else {
                    Reply::new(404, refusal("Not Found"))
                }
            }
            ("POST", ["labels"]) => {
                let name = sent["name"].as_str().unwrap_or_default().to_owned();
                let color = sent["color"].as_str().unwrap_or("ededed");
                if !color.bytes().all(|byte| byte.is_ascii_hexdigit()) || color.len() != 6 {
                    return invalid("Label", "color", "invalid");
                }
                if name.is_empty() || state.labels.contains(&name) {
                    return invalid("Label", "name", "already_exists");
                }
                let body = bodies.label(&name);
                state.labels.push(name);
                Reply::new(201, body)
            }
            (_, ["issues", number, rest @ ..]) => {
                let number: u64 = number.parse().unwrap_or(0);
                let page = state.page;
                match state.issues.get_mut(&number) {
                    Some(issue) => self.of_issue(issue, number, page, method, rest, query, sent),
                    None => Reply::new(404, refusal("Not Found")),
                }
            }
            (_, ["rules" | "rulesets", ..]) => self.of_rules(state, path, query),
            (_, ["pulls" | "collaborators", ..]) => self.of_pulls(state, method, path, query, sent),
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    fn of_pulls(
        &self,
        state: &mut RepositoryState,
        method: &str,
        path: &[&str],
        query: &str,
        sent: &Value,
    ) -> Reply {
        let bodies = &self.bodies;
        match (method, path) {
            ("GET", ["pulls"]) => {
                let head = parameter(query, "head");
                let owner = REPOSITORY.split('/').next().unwrap_or_default();
                let pulls = (1..).zip(&state.pulls).filter(|(_, pull)| {
                    let own = format!("{owner}:{}", pull.head);
                    head.as_ref().is_none_or(|head| *head == own)
                });
                let author = &state.author;
                let pulls = pulls.map(|(number, pull)| {
                    let mut body = bodies.pull(number, pull, false);
                    body["user"]["login"] = author.as_str().into();
                    body["head"]["sha"] = self.commit(&pull.head).into();
                    body
                });
                self.page(state.page, path, query, pulls.collect())
            }
            ("POST", ["pulls"]) => self.open_pull(state, sent),
            ("GET", ["pulls", _, "reviews"]) => {
                let reviews = (1..).zip(&state.reviews);
                let reviews = reviews.map(|(at, (by, text, commit))| {
                    let mut body = bodies.review(at, by, text);
                    body["commit_id"] = commit.as_str().into();
                    body
                });
                self.page(state.page, path, query, reviews.collect())
            }
            ("GET", ["pulls", _, "comments"]) => self.page(state.page, path, query, Vec::new()),
            ("GET", ["collaborators", user, "permission"]) => {
                let permission = if *user == MAINTAINER { "write" } else { "read" };
                Reply::new(200, bodies.permission(user, permission))
            }
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a request has so many parts")]
    fn of_issue(
        &self,
        issue: &mut Issue,
        number: u64,
        page: usize,
        method: &str,
        path: &[&str],
        query: &str,
        sent: &Value,
    ) -> Reply {
        let bodies = &self.bodies;
        match (method, path) {
            ("GET", []) => Reply::new(200, bodies.issue(number, issue)),
            ("PATCH", []) => {
                if let Some(state) = sent["state"].as_str() {
                    issue.is_closed = state == "closed";
                }
                Reply::new(200, bodies.issue(number, issue))
            }
            ("POST", ["labels"]) => {
                for label in texts(&sent["labels"]) {
                    if !issue.labels.contains(&label) {
                        issue.labels.push(label);
                    }
                }
                Reply::new(200, bodies.labels(&issue.labels))
            }
            ("DELETE", ["labels", name]) => {
                let count = issue.labels.len();
                issue.labels.retain(|label| label != name);
                if issue.labels.len() == count {
                    Reply::new(404, refusal("Label does not exist"))
                } else {
                    Reply::new(200, bodies.labels(&issue.labels))
                }
            }
            ("GET", ["comments"]) => {
                let comments = (1..)
                    .zip(&issue.comments)
                    .map(|(at, text)| bodies.comment(number, at, text));
                let path = ["issues", &number.to_string(), "comments"];
                self.page(page, &path, query, comments.collect())
            }
            ("POST", ["comments"]) => match sent["body"].as_str() {
                Some(text) if !text.is_empty() => {
                    issue.comments.push(text.to_owned());
                    let at = issue.comments.len() as u64;
                    Reply::new(201, bodies.comment(number, at, text))
                }
                _ => invalid("IssueComment", "body", "missing_field"),
            },
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    fn of_rules(&self, state: &RepositoryState, path: &[&str], query: &str) -> Reply {
        match path {
            ["rules", "branches", _] => {
                let rules = state.rule.clone().map(|mut rule| {
                    rule["ruleset_source_type"] = "Repository".into();
                    rule["ruleset_source"] = REPOSITORY.into();
                    rule["ruleset_id"] = 1.into();
                    rule
                });
                self.page(state.page, path, query, rules.into_iter().collect())
            }
            ["rulesets", _] => {
                let bypass = if state.is_exempt { "always" } else { "never" };
                Reply::new(
                    200,
                    json!({
                        "id": 1, "name": "all branches", "source": REPOSITORY,
                        "enforcement": "active", "current_user_can_bypass": bypass,
                    }),
                )
            }
            _ => Reply::new(404, refusal("Not Found")),
        }
    }
}
