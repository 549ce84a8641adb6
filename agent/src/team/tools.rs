//! The tools of a team: messages, and the shared list of tasks. Each agent has its own, which know who speaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ah_conversation::{
    Access, Context, Input, Interface, Output, Tool, ToolExtras, ToolSpec, ToolUse,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::state::{LEAD, TaskChange, TeamState, TeamTask, TeamTaskStatus, WantedStatus, numbers};
use super::{Place, Team, blocked};
use crate::Audience;
use crate::hooks::{HookEvent, Hooks};
use crate::own_spec::own_spec;

/// Kinds of tools, in the order in which they are sent to the model.
const KINDS: [TeamToolKind; 5] = [
    TeamToolKind::Send,
    TeamToolKind::Create,
    TeamToolKind::Get,
    TeamToolKind::List,
    TeamToolKind::Update,
];

/// What a tool of a team does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TeamToolKind {
    Send,
    Create,
    Get,
    List,
    Update,
}

/// What the tools of a team's lead need of its session.
#[async_trait]
pub(crate) trait TeamLead: Send + Sync {
    /// Returns the hooks of the session and its display, while its calls run.
    fn hooks(&self) -> Option<(Hooks, Audience)>;

    /// Opens the conversation of the teammate `name`, unless it is open, and lets it go on with what it was written.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    async fn reopen(&self, name: &str, call: &ToolUse, context: &Context) -> Result<(), String>;
}

/// Who uses a tool.
#[derive(Clone)]
pub(super) enum Speaker {
    /// The session's own agent.
    Lead(Arc<dyn TeamLead>),
    /// A teammate.
    Member {
        name: String,
        place: Arc<Place>,
        hooks: Hooks,
        audience: Audience,
    },
}

impl Speaker {
    fn name(&self) -> &str {
        match self {
            Self::Lead(_) => LEAD,
            Self::Member { name, .. } => name,
        }
    }

    /// Calls the hooks of an event about a task; returns why they block it.
    async fn blocked(&self, event: HookEvent, id: u32, task: &TeamTask) -> Option<String> {
        let (hooks, audience) = match self {
            Self::Lead(lead) => lead.hooks()?,
            Self::Member {
                hooks, audience, ..
            } => (hooks.clone(), audience.clone()),
        };
        let mut more = json!({
            "task_id": id.to_string(),
            "task_subject": task.subject,
            "task_description": task.description,
            "team_name": hooks.team_name(),
        });
        if let Self::Member { name, .. } = self {
            more["teammate_name"] = json!(name);
        }
        blocked(&hooks, &audience, event, more).await
    }
}

/// A tool of a team.
pub(crate) struct TeamTool {
    spec: ToolSpec,
    kind: TeamToolKind,
    team: Arc<Team>,
    speaker: Speaker,
}

#[derive(Deserialize)]
struct SendArguments {
    to: String,
    /// Text, or an object with a `type`.
    message: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateArguments {
    subject: String,
    description: String,
    active_form: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskArguments {
    task_id: String,
}

impl TeamTool {
    /// Returns the tools of the lead of `team`.
    pub(crate) fn of_lead(
        interface: Interface,
        team: &Arc<Team>,
        lead: Arc<dyn TeamLead>,
    ) -> Vec<Arc<dyn Tool>> {
        Self::all(interface, team, &Speaker::Lead(lead))
    }

    /// Returns all tools of this speaker.
    pub(super) fn all(
        interface: Interface,
        team: &Arc<Team>,
        speaker: &Speaker,
    ) -> Vec<Arc<dyn Tool>> {
        let names = Self::names(interface);
        let tools = KINDS.into_iter().zip(names).map(|(kind, name)| {
            Arc::new(Self {
                spec: spec(kind, &name),
                kind,
                team: team.clone(),
                speaker: speaker.clone(),
            }) as Arc<dyn Tool>
        });
        tools.collect()
    }

    /// Returns the names of the tools: those that send, create, get, list and update.
    pub(crate) fn names(interface: Interface) -> [String; 5] {
        [
            "send_message",
            "task_create",
            "task_get",
            "task_list",
            "task_update",
        ]
        .map(|own| interface.tool_name(own))
    }

    async fn send(&self, call: &ToolUse, context: &Context) -> Result<Output, String> {
        let SendArguments { to, message } = parse(call)?;
        let text = match &message {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let sent = self.team.send(self.speaker.name(), &to, &text).await?;
        let agrees = message["type"] == "shutdown_response" && message["approve"] == true;
        let mut said = format!("sent to {}", sent.join(", "));
        match &self.speaker {
            Speaker::Member { place, .. } if agrees => {
                place.leaves.store(true, Ordering::Relaxed);
                said.push_str("; you leave the team at the end of this turn");
            }
            Speaker::Member { .. } => {}
            Speaker::Lead(lead) => {
                for name in &sent {
                    lead.reopen(name, call, context).await?;
                }
            }
        }
        Ok(Output::text(said.as_str()).with_details(json!({
            "success": true,
            "message": said,
            "recipients": sent,
        })))
    }

    async fn create(&self, call: &ToolUse) -> Result<Output, String> {
        let wanted: CreateArguments = parse(call)?;
        let task = TeamTask {
            subject: wanted.subject,
            description: wanted.description,
            active_form: wanted.active_form,
            metadata: wanted.metadata,
            ..TeamTask::default()
        };
        let id = self
            .team
            .edit(|state| Ok(state.create(task.clone())))
            .await?;
        let event = HookEvent::TaskCreated;
        if let Some(reason) = self.speaker.blocked(event, id, &task).await {
            let delete = TaskChange {
                status: Some(WantedStatus::Deleted),
                ..TaskChange::default()
            };
            let undo = |state: &mut TeamState| state.change(&id.to_string(), delete, LEAD);
            self.team.edit(undo).await?;
            return Err(format!("a hook refused the task: {reason}"));
        }
        let said = format!("created task #{id}: {}", task.subject);
        Ok(Output::text(said).with_details(json!({
            "task": {"id": id.to_string(), "subject": task.subject, "description": task.description},
        })))
    }

    async fn get(&self, call: &ToolUse) -> Result<Output, String> {
        let TaskArguments { task_id } = parse(call)?;
        let state = self.team.shared.lock().await.state.clone();
        let (id, task) = state.task(&task_id)?;
        let mut text = format!("{}\n\n{}", line(&state, id, task), task.description);
        let blocks = state.blocks(id);
        if !blocks.is_empty() {
            text.push_str(&format!("\n\nIt blocks {}.", numbers(&blocks)));
        }
        let mut details = shown(id, task);
        details["description"] = json!(task.description);
        details["blocks"] = texts(&blocks);
        details["metadata"] = json!(task.metadata);
        Ok(Output::text(text).with_details(json!({ "task": details })))
    }

    async fn list(&self) -> Output {
        let state = self.team.shared.lock().await.state.clone();
        let lines: Vec<_> = state
            .tasks()
            .map(|(id, task)| line(&state, id, task))
            .collect();
        let text = match lines.as_slice() {
            [] => "there are no tasks".to_owned(),
            lines => lines.join("\n"),
        };
        let tasks: Vec<_> = state.tasks().map(|(id, task)| shown(id, task)).collect();
        Output::text(text).with_details(json!({ "tasks": tasks }))
    }

    async fn update(&self, call: &ToolUse) -> Result<Output, String> {
        let TaskArguments { task_id } = parse(call)?;
        let change: TaskChange = parse(call)?;
        if change.status == Some(WantedStatus::Completed) {
            let state = self.team.shared.lock().await.state.clone();
            let (id, task) = state.task(&task_id)?;
            let is_new = task.status != TeamTaskStatus::Completed;
            let event = HookEvent::TaskCompleted;
            if is_new && let Some(reason) = self.speaker.blocked(event, id, task).await {
                return Err(format!(
                    "a hook says that task {id} is not completed: {reason}"
                ));
            }
        }
        let by = self.speaker.name();
        let (text, details) = self
            .team
            .edit(|state| {
                let (before, fields) = state.change(&task_id, change, by)?;
                let now = state.task(&task_id).ok();
                let to = now.map_or("deleted", |(_, task)| task.status.as_str());
                let text = match now {
                    Some((id, task)) => line(state, id, task),
                    None => format!("deleted task {task_id}"),
                };
                let mut details =
                    json!({"success": true, "taskId": task_id, "updatedFields": fields});
                if to != before.as_str() {
                    details["statusChange"] = json!({"from": before.as_str(), "to": to});
                }
                Ok((text, details))
            })
            .await?;
        Ok(Output::text(text).with_details(details))
    }
}

#[async_trait]
impl Tool for TeamTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// No access: it reaches nothing but the session.
    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let done = match self.kind {
            TeamToolKind::Send => self.send(call, context).await,
            TeamToolKind::Create => self.create(call).await,
            TeamToolKind::Get => self.get(call).await,
            TeamToolKind::List => Ok(self.list().await),
            TeamToolKind::Update => self.update(call).await,
        };
        done.unwrap_or_else(Output::error)
    }
}

fn parse<A: DeserializeOwned>(call: &ToolUse) -> Result<A, String> {
    serde_json::from_value(call.input.to_value()).map_err(|error| format!("invalid input: {error}"))
}

/// Returns a task as a line: `#2 [in_progress] Write it (alice) [waits for #1]`.
fn line(state: &TeamState, id: u32, task: &TeamTask) -> String {
    let mut line = format!("#{id} [{}] {}", task.status.as_str(), task.subject);
    if let Some(owner) = &task.owner {
        line.push_str(&format!(" ({owner})"));
    }
    let waits_for = state.open_blockers(task);
    if !waits_for.is_empty() {
        line.push_str(&format!(" [blocked by {}]", numbers(&waits_for)));
    }
    line
}

fn shown(id: u32, task: &TeamTask) -> Value {
    let mut shown = json!({
        "id": id.to_string(),
        "subject": task.subject,
        "status": task.status.as_str(),
        "blockedBy": texts(&task.blocked_by),
    });
    if let Some(owner) = &task.owner {
        shown["owner"] = json!(owner);
    }
    shown
}

fn texts(ids: &[u32]) -> Value {
    ids.iter().map(u32::to_string).collect()
}

fn spec(kind: TeamToolKind, name: &str) -> ToolSpec {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let (description, properties, required): (_, _, &[&str]) = match kind {
        TeamToolKind::Send => (
            "Writes to a teammate, to `team-lead`, or to `*` for all others (costly: each reads it). It is read before its next \
             step; an idle one continues with it. To end a teammate, write it {\"type\": \"shutdown_request\"}; who agrees \
             answers {\"type\": \"shutdown_response\", \"approve\": true}.",
            json!({"to": text, "message": {"description": "Text, or such an object"}, "summary": text}),
            &["to", "message"],
        ),
        TeamToolKind::Create => (
            "Adds a task to the team's list.",
            json!({"subject": text, "description": text, "activeForm": text, "metadata": {"type": "object"}}),
            &["subject", "description"],
        ),
        TeamToolKind::Get => (
            "Shows a task on the team's list in full.",
            json!({"taskId": text}),
            &["taskId"],
        ),
        TeamToolKind::List => ("Shows the team's task list.", json!({}), &[]),
        TeamToolKind::Update => (
            "Changes a task on the team's list. Setting `in_progress` takes it, if nobody else has it and every task that blocks \
             it is done. `owner` gives it to somebody, who has to be told.",
            json!({
                "taskId": text,
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "deleted"]},
                "subject": text,
                "description": text,
                "activeForm": text,
                "owner": text,
                "addBlocks": texts,
                "addBlockedBy": texts,
                "metadata": {"type": "object", "description": "Keys to merge; null removes one"},
            }),
            &["taskId"],
        ),
    };
    own_spec(name, description.to_owned(), &properties, required)
}
