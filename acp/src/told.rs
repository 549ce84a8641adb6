//! Updates and questions in the form of version 2 of the protocol. Most differ from version 1 in names only, so they are
//! changed as JSON and read again by the types of version 2. Pure.

use agent_client_protocol::v1::schema as first;
use agent_client_protocol::v1::schema::SessionUpdate as Told;
use agent_client_protocol::v2::schema::{
    AvailableCommand, IdleStateUpdate, RequestPermissionRequest, RequiresActionStateUpdate,
    RunningStateUpdate, SessionConfigOption, SessionUpdate, StateUpdate, StopReason,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::patch::fenced;

/// Id of the only plan of a session.
const PLAN: &str = "tasks";

/// Returns the update in the form of version 2; `None` if that version has nothing of the kind.
pub(crate) fn update(told: &Told) -> Option<SessionUpdate> {
    let mut value = serde_json::to_value(told).ok()?;
    match told {
        Told::ToolCall(_) | Told::ToolCallUpdate(_) => {
            value["sessionUpdate"] = json!("tool_call_update");
            call(&mut value);
        }
        Told::Plan(_) => {
            let entries = value["entries"].take();
            let plan = json!({"type": "items", "planId": PLAN, "entries": entries});
            value = json!({"sessionUpdate": "plan_update", "plan": plan});
        }
        Told::AvailableCommandsUpdate(_) => {
            items(&mut value["availableCommands"]).for_each(command);
        }
        Told::ConfigOptionUpdate(_) => items(&mut value["configOptions"]).for_each(option),
        Told::CurrentModeUpdate(_) => return None,
        _ => {}
    }
    parsed(value)
}

/// Returns options of a session.
pub(crate) fn options(told: &[first::SessionConfigOption]) -> Vec<SessionConfigOption> {
    all(told, option)
}

/// Returns commands.
pub(crate) fn commands(told: &[first::AvailableCommand]) -> Vec<AvailableCommand> {
    all(told, command)
}

/// Returns a question about a call.
pub(crate) fn permission(
    asked: &first::RequestPermissionRequest,
) -> Option<RequestPermissionRequest> {
    let mut value = serde_json::to_value(asked).ok()?;
    let mut about = value["toolCall"].take();
    call(&mut about);
    let title = about["title"].as_str().unwrap_or("Allow this?").to_owned();
    value.as_object_mut()?.remove("toolCall");
    value["title"] = json!(title);
    value["subject"] = json!({"type": "tool_call", "toolCall": about});
    parsed(value)
}

/// The session runs.
pub(crate) fn running() -> SessionUpdate {
    SessionUpdate::StateUpdate(StateUpdate::Running(RunningStateUpdate::new()))
}

/// The session waits for an answer of the user.
pub(crate) fn waiting() -> SessionUpdate {
    let waiting = RequiresActionStateUpdate::new();
    SessionUpdate::StateUpdate(StateUpdate::RequiresAction(waiting))
}

/// The session waits for a prompt; `reason` is why the last run ended.
pub(crate) fn idle(reason: Option<StopReason>) -> SessionUpdate {
    let idle = IdleStateUpdate::new().stop_reason(reason);
    SessionUpdate::StateUpdate(StateUpdate::Idle(idle))
}

/// Reads a value by the types of the protocol.
pub(crate) fn parsed<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value)
        .inspect_err(|error| tracing::warn!(%error, "something has no form in this version"))
        .ok()
}

fn all<T: DeserializeOwned>(told: &[impl Serialize], change: fn(&mut Value)) -> Vec<T> {
    let values = told.iter().filter_map(|told| {
        let mut value = serde_json::to_value(told).ok()?;
        change(&mut value);
        parsed(value)
    });
    values.collect()
}

fn items(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    list.as_array_mut().into_iter().flatten()
}

fn command(command: &mut Value) {
    command["type"] = json!("command");
    if let Some(input) = command.get_mut("input").filter(|input| input.is_object()) {
        input["type"] = json!("text");
    }
}

fn option(option: &mut Value) {
    if let Some(id) = option
        .as_object_mut()
        .and_then(|option| option.remove("id"))
    {
        option["configId"] = id;
    }
}

/// Changes a call or its update.
fn call(call: &mut Value) {
    for place in items(&mut call["locations"]) {
        if place["line"] == 0 {
            place["line"] = Value::Null;
        }
    }
    let Some(content) = call.get_mut("content").and_then(Value::as_array_mut) else {
        clean(call);
        return;
    };
    let mut changed = Vec::new();
    for part in content.drain(..) {
        if part["type"] == "diff" {
            changed.extend(difference(&part));
        } else {
            changed.push(part);
        }
    }
    *content = changed;
    clean(call);
}

/// Removes what is not known: here `null` means that a value is taken back.
fn clean(call: &mut Value) {
    if let Some(fields) = call.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

/// Returns a difference of which only both sides are known: the file, and what is taken and put there.
fn difference(part: &Value) -> [Value; 2] {
    let operation = match part["oldText"].is_string() {
        true => "modify",
        false => "add",
    };
    let side = |sign: &str, text: &Value| {
        let lines = text.as_str().unwrap_or_default().lines();
        lines
            .map(|line| format!("{sign}{line}\n"))
            .collect::<String>()
    };
    let lines = side("-", &part["oldText"]) + &side("+", &part["newText"]);
    let change = json!({"operation": operation, "path": part["path"], "fileType": "text"});
    [
        json!({"type": "diff", "changes": [change]}),
        json!({"type": "content", "content": {"type": "text", "text": fenced("diff", &lines)}}),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(value: Value) -> Value {
        let told: Told = serde_json::from_value(value).unwrap();
        serde_json::to_value(update(&told)).unwrap()
    }

    #[test]
    fn what_differs_has_the_form_of_the_second_version() {
        let call = told(json!({
            "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "edit a.rs", "kind": "edit",
            "status": "pending", "locations": [{"path": "/a.rs", "line": 0}],
            "content": [{"type": "diff", "path": "/a.rs", "oldText": "one\n", "newText": "two\n"}],
        }));
        assert_eq!(call["sessionUpdate"], "tool_call_update");
        assert_eq!(call["locations"], json!([{"path": "/a.rs"}]));
        assert_eq!(
            call["content"][0]["changes"],
            json!([{"operation": "modify", "path": "/a.rs", "fileType": "text"}])
        );
        assert_eq!(
            call["content"][1]["content"]["text"],
            "```diff\n-one\n+two\n```"
        );
        let plan = told(json!({"sessionUpdate": "plan", "entries": [
            {"content": "read", "priority": "medium", "status": "pending"},
        ]}));
        assert_eq!(plan["plan"]["entries"][0]["content"], "read");
        let commands = told(
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [
                {"name": "review", "description": "", "input": {"hint": "what"}},
            ]}),
        );
        let command = &commands["availableCommands"][0];
        assert_eq!(
            (&command["type"], &command["input"]["type"]),
            (&json!("command"), &json!("text"))
        );
        let mode = json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"});
        assert_eq!(told(mode), Value::Null);
    }
}
