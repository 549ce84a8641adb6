//! Questions for a person who is not at a terminal: what is asked, and what an answer means.
//!
//! How a question gets to the person, and the answer back, is left to [`Ask`].

use std::collections::BTreeMap;

use ah_conversation::{
    Choice, ChoiceOption, Destination, Elicitation, ElicitationAnswer, Host, HostPermission, Hunk,
    Input, Interaction, Nobody, PermissionAnswer, PermissionRequest, PermissionUpdate, Proposal,
    Question, ToolUse, ToolUseId, Verdict, neutralise,
};
use async_trait::async_trait;
use serde_json::{Map, Value};

/// Longest input of a call in a question, in characters.
const SHOWN_INPUT: usize = 2_000;
/// Longest list of rules with an answer, in characters.
const SHOWN_RULES: usize = 300;
/// Largest change in a question, in bytes.
const SHOWN_CHANGE: usize = 256 * 1024;
/// Answers to a question that is about one thing only.
const YES_OR_NO: [Verdict; 2] = [Verdict::Once, Verdict::No];

/// Asks somebody.
#[async_trait]
pub trait Ask: Send + Sync {
    /// Returns the answer to each choice by its question; `None` if nobody answers. It may be about a call.
    async fn ask(
        &self,
        question: Question,
        call: Option<&ToolUseId>,
    ) -> Option<BTreeMap<String, String>>;
}

/// A host that has every question answered by somebody elsewhere.
pub struct Elsewhere<A> {
    /// The way to them.
    pub ask: A,
    /// Writes what a call would do, as plain text.
    pub described: fn(&PermissionRequest) -> String,
}

#[async_trait]
impl<A: Ask> Host for Elsewhere<A> {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        let call = &request.call;
        match &request.inquiry.interaction {
            Some(Interaction::Choices(choices)) => {
                let question = Question {
                    about: String::new(),
                    choices: choices.clone(),
                    is_permission: false,
                    proposal: None,
                };
                let Some(answers) = self.ask.ask(question, Some(&call.id)).await else {
                    return unanswered(call);
                };
                let mut input = match &call.input {
                    Input::Object(input) => input.clone(),
                    Input::Malformed(_) => Map::new(),
                };
                let answers = answers.into_iter().map(|(name, text)| (name, text.into()));
                input.insert("answers".to_owned(), Value::Object(answers.collect()));
                PermissionAnswer::Allow {
                    input: Some(Input::Object(input)),
                    updates: Vec::new(),
                }
            }
            Some(Interaction::Plan(plan)) => {
                let plan = plan.as_deref().unwrap_or("(its last answer)");
                let about = format!(
                    "The agent asks to carry out its plan:\n{}",
                    cut(plan, SHOWN_INPUT)
                );
                let answer = self
                    .verdict(about, None, &YES_OR_NO.map(plain), Some(&call.id))
                    .await;
                decided(call, answer, |_| Vec::new())
            }
            other => {
                let about = match other {
                    Some(_) => "The agent asks to plan first.".to_owned(),
                    None => self.about(request),
                };
                let proposal = match other {
                    Some(_) => None,
                    None => self.proposal(request),
                };
                let answer = self
                    .verdict(about, proposal, &offered(request), Some(&call.id))
                    .await;
                let lasting = |updates: Vec<&PermissionUpdate>, destination| {
                    let updates = updates.into_iter().cloned();
                    updates.map(|it| it.lasting(destination)).collect()
                };
                let inquiry = &request.inquiry;
                decided(call, answer, |verdict| match verdict {
                    Verdict::Once | Verdict::No => Vec::new(),
                    Verdict::Session => lasting(inquiry.for_session(), Destination::Session),
                    Verdict::Project => lasting(inquiry.rules(), Destination::LocalSettings),
                    Verdict::Everywhere => lasting(inquiry.rules(), Destination::UserSettings),
                })
            }
        }
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        let about = format!("The agent wants to connect to {}.", neutralise(host));
        let offered = Verdict::ALL.map(plain);
        match self.verdict(about, None, &offered, None).await {
            Some((Verdict::Once, _)) => HostPermission::Once,
            Some((Verdict::Session, _)) => HostPermission::Session,
            Some((Verdict::Project, _)) => HostPermission::Project,
            Some((Verdict::Everywhere, _)) => HostPermission::Always,
            Some((Verdict::No, _)) | None => HostPermission::No,
        }
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        Nobody.elicitation(question).await
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}
}

impl<A: Ask> Elsewhere<A> {
    /// Returns what a question about a call is about.
    fn about(&self, request: &PermissionRequest) -> String {
        let name = neutralise(&request.call.name);
        let described = cut(&(self.described)(request), SHOWN_INPUT);
        format!("The agent wants to use {name}:\n{described}")
    }

    /// Returns the change of a file that a call would make; `None` if it makes none, or one that nobody would read.
    fn proposal(&self, request: &PermissionRequest) -> Option<Proposal> {
        request.inquiry.path.as_ref()?;
        let Input::Object(input) = &request.call.input else {
            return None;
        };
        let drawn = Hunk::arguments(input);
        let content = || Some(hunks("", input.get(*drawn.first()?)?.as_str()?));
        let hunks = match (request.inquiry.change.as_slice(), drawn.len()) {
            // What is not drawn must be read.
            (_, 0) => return None,
            ([], 1) => content()?,
            ([], _) => return None,
            (change, _) => change.to_vec(),
        };
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        let is_short = lines.map(String::len).sum::<usize>() <= SHOWN_CHANGE;
        let mut rest = request.clone();
        rest.inquiry.change.clear();
        if let Input::Object(input) = &mut rest.call.input {
            input.retain(|name, _| !drawn.contains(&name.as_str()));
        }
        is_short.then(|| Proposal {
            about: self.about(&rest),
            hunks,
        })
    }

    /// Asks whether something is allowed; returns the verdict, and the reason for it.
    async fn verdict(
        &self,
        about: String,
        proposal: Option<Proposal>,
        offered: &[(Verdict, String)],
        call: Option<&ToolUseId>,
    ) -> Option<(Verdict, String)> {
        let option = |(verdict, description): &(Verdict, String)| ChoiceOption {
            label: verdict.label().to_owned(),
            description: description.clone(),
        };
        let choice = Choice {
            question: "Allow it?".to_owned(),
            header: "Permission".to_owned(),
            options: offered.iter().map(option).collect(),
            is_multiple: false,
        };
        let question = Question {
            about,
            choices: vec![choice],
            is_permission: true,
            proposal,
        };
        let answers = self.ask.ask(question, call).await?;
        // What is none of the answers is no permission.
        let answer = answers.into_values().next().unwrap_or_default();
        let (verdict, reason) = Verdict::of(&answer).unwrap_or((Verdict::No, ""));
        let is_offered = offered.iter().any(|(offered, _)| *offered == verdict);
        match is_offered {
            true => Some((verdict, reason.to_owned())),
            false => Some((Verdict::No, String::new())),
        }
    }
}

/// Without a description.
fn plain(verdict: Verdict) -> (Verdict, String) {
    (verdict, String::new())
}

/// Returns the answers to the question about a call, with what each would allow besides it.
fn offered(request: &PermissionRequest) -> Vec<(Verdict, String)> {
    // Nobody agrees to rules that were not shown whole.
    let allows = |updates: &[&PermissionUpdate]| {
        let texts: Vec<_> = updates.iter().flat_map(|update| update.allows()).collect();
        let text = neutralise(&texts.join(", ")).into_owned();
        Some(text).filter(|text| !text.is_empty() && text.chars().count() <= SHOWN_RULES)
    };
    let session = allows(&request.inquiry.for_session());
    let rules = allows(&request.inquiry.rules());
    let mut offered = vec![plain(Verdict::Once)];
    // A question without rules of its own, as the one whether to plan, has none to keep.
    offered.extend(session.map(|rules| (Verdict::Session, rules)));
    if let Some(rules) = rules {
        offered.push((Verdict::Project, rules.clone()));
        offered.push((Verdict::Everywhere, rules));
    }
    offered.push(plain(Verdict::No));
    offered
}

/// Returns the answer to the question about a call.
fn decided(
    call: &ToolUse,
    answer: Option<(Verdict, String)>,
    updates: impl FnOnce(Verdict) -> Vec<PermissionUpdate>,
) -> PermissionAnswer {
    match answer {
        None => unanswered(call),
        Some((Verdict::No, reason)) => denied(&reason),
        Some((verdict, _)) => PermissionAnswer::Allow {
            input: None,
            updates: updates(verdict),
        },
    }
}

/// Returns the changed parts between two texts.
pub(crate) fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let hunks = ah_diff::hunks(old, new).into_iter();
    hunks
        .map(|hunk| Hunk {
            old: hunk.old.start + 1,
            new: hunk.new.start + 1,
            lines: hunk.lines,
        })
        .collect()
}

/// Returns text without control characters and of limited length.
pub fn cut(text: &str, most: usize) -> String {
    let text = neutralise(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The answer of a person who says no, and why.
fn denied(reason: &str) -> PermissionAnswer {
    refused(&match reason {
        "" => {
            "The user does not want this call to happen. Continue without it, or say what you need."
                .to_owned()
        }
        reason => format!("The user does not want this call to happen: {reason}"),
    })
}

/// The answer of a person who says nothing.
fn unanswered(call: &ToolUse) -> PermissionAnswer {
    refused(&format!(
        "Nobody has answered, so {} did not run. Continue as you think best, and say what you assumed.",
        call.name
    ))
}

fn refused(message: &str) -> PermissionAnswer {
    PermissionAnswer::Deny {
        message: message.to_owned(),
        interrupt: false,
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::Inquiry;
    use serde_json::json;

    use super::*;

    struct Nobody;

    #[async_trait]
    impl Ask for Nobody {
        async fn ask(
            &self,
            _: Question,
            _: Option<&ToolUseId>,
        ) -> Option<BTreeMap<String, String>> {
            None
        }
    }

    fn proposed(input: Value, writes: bool, change: &[Hunk]) -> Option<Proposal> {
        let elsewhere = Elsewhere {
            ask: Nobody,
            described: |request| match &request.call.input {
                Input::Object(input) => Value::Object(input.clone()).to_string(),
                Input::Malformed(_) => String::new(),
            },
        };
        elsewhere.proposal(&PermissionRequest {
            call: ToolUse {
                id: "c".to_owned().into(),
                name: "change".to_owned(),
                input: match input {
                    Value::Object(input) => Input::Object(input),
                    other => Input::Malformed(other),
                },
            },
            inquiry: Inquiry {
                path: writes.then(|| "/work/a".into()),
                change: change.to_vec(),
                ..Inquiry::default()
            },
            agent: None,
        })
    }

    #[test]
    fn a_question_about_a_file_has_its_change_and_all_else_of_the_call() {
        let edit = json!({"path": "a", "old_string": "1\n2\n", "new_string": "1\n3\n", "replace_all": true});
        let hunk = |old, new, lines: &[&str]| Hunk {
            old,
            new,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let change = [hunk(7, 7, &[" 1", "-2", "+3"])];
        let proposal = proposed(edit.clone(), true, &change).unwrap();
        assert_eq!(
            proposal.about,
            "The agent wants to use change:\n{\"path\":\"a\",\"replace_all\":true}"
        );
        assert_eq!(proposal.hunks, change);
        let write = json!({"path": "a", "content": "1\n2\n"});
        let new = proposed(write, true, &[]).unwrap();
        assert_eq!(new.hunks, [hunk(1, 1, &["+1", "+2"])]);
        // Of texts that are not drawn together none is left out.
        for mixed in [
            json!({"path": "a", "old_string": "1", "new_string": "2", "content": "3"}),
            json!({"path": "a", "old_string": "1", "content": "3"}),
            json!({"path": "a", "new_string": "2", "content": "3"}),
            json!({"path": "a", "old_string": "1"}),
            json!({"path": "a", "old_string": "1", "new_string": 2, "content": "3"}),
            json!({"path": "a", "old_string": 1, "content": "3"}),
        ] {
            assert_eq!(proposed(mixed.clone(), true, &change), None, "{mixed}");
        }
        // What writes no file, or a place that is not known, or more than anybody reads, is told as text.
        let long = json!({"path": "a", "content": "x\n".repeat(SHOWN_CHANGE)});
        for (input, writes) in [
            (edit.clone(), false),
            (edit, true),
            (long, true),
            (json!({"command": "ls"}), true),
            (json!("text"), true),
        ] {
            assert_eq!(proposed(input, writes, &[]), None);
        }
    }
}
