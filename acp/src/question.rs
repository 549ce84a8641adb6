//! Questions to the user, through the editor: permission for a call or a network host, the approval of a plan, a choice.

use std::path::Path;

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use ah_agent::SessionChange;
use ah_conversation::{
    Behavior, Choice, Destination, Elicitation, ElicitationAnswer, Host, HostPermission, Input,
    Interaction, PermissionAnswer, PermissionMode, PermissionRequest, PermissionUpdate, ToolUse,
    Wanted, neutralise,
};
use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::call::said;
use crate::editor::Editor;
use crate::{files, form};

const ONCE: &str = "once";
const ALWAYS: &str = "always";
const EDITS: &str = "edits";
const NO: &str = "no";
const NEVER: &str = "never";

/// What the model reads when the user says no.
const REFUSED: &str = "The user does not want this call to happen. Ask what they want instead, or continue without it.";
/// What the model reads when the editor gave no answer.
const UNANSWERED: &str = "Nobody answered, so the call did not happen.";

#[async_trait]
impl Host for Editor {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        let call = &request.call;
        match &request.inquiry.interaction {
            None => self.ask_permission(request).await,
            Some(Interaction::Choices(choices)) if self.wire.abilities.forms => {
                self.ask_form(call, choices).await
            }
            Some(Interaction::Choices(choices)) => self.ask_choices(call, choices).await,
            Some(Interaction::Plan(plan)) => {
                self.ask_approval(call, plan.as_deref(), request.inquiry.after_plan)
                    .await
            }
            Some(Interaction::ToPlan) => {
                let options = vec![
                    option(ONCE, "Yes, plan first", PermissionOptionKind::AllowOnce),
                    option(NO, "No", PermissionOptionKind::RejectOnce),
                ];
                let asked = self.asked(call, None);
                let answer = self.wire.choose(asked, options).await;
                decided(answer.as_deref(), |_| Vec::new())
            }
        }
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        let host = neutralise(host);
        let fields = ToolCallUpdateFields::new()
            .title(format!("Connect to {host}"))
            .kind(ToolKind::Fetch)
            .status(ToolCallStatus::Pending);
        let asked = ToolCallUpdate::new(self.question_id(), fields);
        let options = vec![
            option(
                ONCE,
                "Allow for this session",
                PermissionOptionKind::AllowOnce,
            ),
            option(
                ALWAYS,
                "Always allow in this project",
                PermissionOptionKind::AllowAlways,
            ),
            option(NO, "Deny", PermissionOptionKind::RejectOnce),
        ];
        match self.wire.choose(asked, options).await.as_deref() {
            Some(ONCE) => HostPermission::Session,
            Some(ALWAYS) => HostPermission::Project,
            _ => HostPermission::No,
        }
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        let able = self.wire.abilities;
        let message = format!("{}: {}", question.server, question.message);
        let message = neutralise(&message);
        let asked = match &question.wanted {
            Wanted::Form(schema) if able.forms => {
                json!({"mode": "form", "message": message, "requestedSchema": schema})
            }
            Wanted::Visit { url, id } if able.pages => {
                json!({"mode": "url", "message": message, "url": url, "elicitationId": id})
            }
            Wanted::Form(_) | Wanted::Visit { .. } => return ElicitationAnswer::Decline,
        };
        let answer = self.wire.elicit(asked).await;
        let answer = answer.as_ref().and_then(ElicitationAnswer::of_value);
        answer.unwrap_or(ElicitationAnswer::Cancel)
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}
}

#[async_trait]
impl ah_conversation::Editor for Editor {
    async fn unsaved(&self, path: &Path) -> Option<String> {
        files::unsaved(&self.wire, path).await
    }

    async fn wrote(&self, path: &Path) {
        files::wrote(&self.wire, path).await;
    }
}

impl Editor {
    async fn ask_permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        let rules = rules(request);
        let mut options = vec![option(ONCE, "Allow", PermissionOptionKind::AllowOnce)];
        if !rules.is_empty() {
            let name = format!("Always allow {}", names(&rules));
            options.push(option(ALWAYS, &name, PermissionOptionKind::AllowAlways));
        } else if !request.inquiry.suggestions.is_empty() {
            let name = "Allow for this session";
            options.push(option(ALWAYS, name, PermissionOptionKind::AllowAlways));
        }
        options.push(option(NO, "Deny", PermissionOptionKind::RejectOnce));
        if !rules.is_empty() {
            let name = format!("Deny {} for this session", names(&rules));
            options.push(option(NEVER, &name, PermissionOptionKind::RejectAlways));
        }
        let mut asked = self.asked(&request.call, request.inquiry.path.as_deref());
        if let Some(reason) = &request.inquiry.reason {
            let content = asked.fields.content.get_or_insert_default();
            content.insert(0, said(&format!("Reason: {}.", neutralise(reason))));
        }
        let answer = self.wire.choose(asked, options).await;
        match answer.as_deref() {
            Some(NEVER) => {
                self.deny(&rules);
                decided(Some(NO), |_| Vec::new())
            }
            answer => decided(answer, |_| match rules.is_empty() {
                true => lasting(&request.inquiry.suggestions, Destination::Session),
                false => lasting(&rules, Destination::LocalSettings),
            }),
        }
    }

    /// Denies for this session what these updates would allow. A refusal has no updates of its own.
    fn deny(&self, updates: &[PermissionUpdate]) {
        for update in updates {
            if let PermissionUpdate::AddRules { rules, .. } = update {
                self.change(SessionChange::Permissions(PermissionUpdate::AddRules {
                    rules: rules.clone(),
                    behavior: Behavior::Deny,
                    destination: Destination::Session,
                }));
            }
        }
    }

    /// Asks about a plan. Without a plan in the call, it is the text of the last answer.
    /// `after` is in force again once it is approved.
    async fn ask_approval(
        &self,
        call: &ToolUse,
        plan: Option<&str>,
        after: PermissionMode,
    ) -> PermissionAnswer {
        let mut asked = self.asked(call, None);
        let content: Vec<ToolCallContent> = plan.map(said).into_iter().collect();
        asked.fields = asked.fields.content(content).kind(ToolKind::SwitchMode);
        let mut options = vec![
            option(
                ONCE,
                match after {
                    PermissionMode::Default => "Yes, and ask before edits",
                    _ => "Yes",
                },
                PermissionOptionKind::AllowOnce,
            ),
            option(NO, "No, keep planning", PermissionOptionKind::RejectOnce),
        ];
        if !after.spares_edits() {
            let name = "Yes, and accept edits";
            options.insert(0, option(EDITS, name, PermissionOptionKind::AllowAlways));
        }
        let answer = self.wire.choose(asked, options).await;
        decided(answer.as_deref(), |answer| match answer {
            EDITS => vec![PermissionUpdate::SetMode {
                mode: PermissionMode::AcceptEdits,
                destination: Destination::Session,
            }],
            _ => Vec::new(),
        })
    }

    /// Asks one question after the other, each with its options.
    async fn ask_choices(&self, call: &ToolUse, choices: &[Choice]) -> PermissionAnswer {
        let mut answers = Map::new();
        for choice in choices {
            let options = choice.options.iter().enumerate().map(|(at, it)| {
                let name = match it.description.as_str() {
                    "" => it.label.clone(),
                    description => format!("{}: {description}", it.label),
                };
                option(&at.to_string(), &name, PermissionOptionKind::AllowOnce)
            });
            let none = option(NO, "None of these", PermissionOptionKind::RejectOnce);
            let fields = ToolCallUpdateFields::new()
                .title(neutralise(&choice.question).into_owned())
                .status(ToolCallStatus::Pending);
            let asked = ToolCallUpdate::new(call.id.as_str().to_owned(), fields);
            let answer = self
                .wire
                .choose(asked, options.chain([none]).collect())
                .await;
            let chosen = answer.as_deref().and_then(|id| id.parse::<usize>().ok());
            let Some(chosen) = chosen.and_then(|at| choice.options.get(at)) else {
                return decided(answer.as_deref().filter(|id| *id == NO), |_| Vec::new());
            };
            answers.insert(choice.question.clone(), chosen.label.clone().into());
        }
        with_answers(call, answers)
    }

    /// Asks all questions in one form, with room for words of the user's own.
    async fn ask_form(&self, call: &ToolUse, choices: &[Choice]) -> PermissionAnswer {
        let asked = form::of(choices);
        match self.wire.elicit(asked).await {
            Some(answer) if answer["action"] == "accept" => {
                match form::answers(choices, &answer["content"]) {
                    Some(answers) => with_answers(call, answers),
                    None => decided(None, |_| Vec::new()),
                }
            }
            Some(answer) if answer["action"] == "decline" => decided(Some(NO), |_| Vec::new()),
            _ => decided(None, |_| Vec::new()),
        }
    }
}

/// Returns the answer that gives the call these answers.
fn with_answers(call: &ToolUse, answers: Map<String, Value>) -> PermissionAnswer {
    let mut arguments = match &call.input {
        Input::Object(arguments) => arguments.clone(),
        Input::Malformed(_) => Map::new(),
    };
    arguments.insert("answers".to_owned(), Value::Object(answers));
    PermissionAnswer::Allow {
        input: Some(Input::Object(arguments)),
        updates: Vec::new(),
    }
}

/// Returns the answer to a permission request; `updates` are those of an answer that allows it.
fn decided(
    answer: Option<&str>,
    updates: impl FnOnce(&str) -> Vec<PermissionUpdate>,
) -> PermissionAnswer {
    let message = match answer {
        Some(ONCE) => {
            return PermissionAnswer::Allow {
                input: None,
                updates: Vec::new(),
            };
        }
        Some(allows @ (ALWAYS | EDITS)) => {
            return PermissionAnswer::Allow {
                input: None,
                updates: updates(allows),
            };
        }
        Some(_) => REFUSED,
        None => UNANSWERED,
    };
    PermissionAnswer::Deny {
        message: message.to_owned(),
        interrupt: false,
    }
}

fn option(id: &str, name: &str, kind: PermissionOptionKind) -> PermissionOption {
    PermissionOption::new(id.to_owned(), neutralise(name).into_owned(), kind)
}

/// Returns the rules that would allow the call.
fn rules(request: &PermissionRequest) -> Vec<PermissionUpdate> {
    let suggestions = request.inquiry.suggestions.iter();
    suggestions
        .filter(|update| matches!(update, PermissionUpdate::AddRules { .. }))
        .cloned()
        .collect()
}

/// Returns rules as people read them.
fn names(updates: &[PermissionUpdate]) -> String {
    let rules = updates.iter().flat_map(|update| match update {
        PermissionUpdate::AddRules { rules, .. } => rules.as_slice(),
        _ => &[],
    });
    let rules: Vec<_> = rules.map(ToString::to_string).collect();
    rules.join(", ")
}

/// Returns the updates with another lifetime.
fn lasting(updates: &[PermissionUpdate], destination: Destination) -> Vec<PermissionUpdate> {
    let kept = updates.iter().cloned();
    kept.map(|update| update.lasting(destination)).collect()
}
