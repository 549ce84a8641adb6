//! What a changed list of tasks means for hooks: tasks that are new, and tasks that are done now. The tool writes the list
//! as a whole, so it is compared with the former one; a task is known by its text.

use serde_json::{Value, json};

use super::HookEvent;

/// Returns the events of a successful call with these details, each with its payload; none if they are of no task list.
pub(crate) fn events(details: Option<&Value>) -> Vec<(HookEvent, Value)> {
    let list = |name| details.and_then(|details| details.get(name)?.as_array());
    let (Some(former), Some(list)) = (list("oldTodos"), list("newTodos")) else {
        return Vec::new();
    };
    let status_before = |task: &Value| {
        let same = former.iter().find(|it| it["content"] == task["content"]);
        same.map(|it| &it["status"])
    };
    let mut events = Vec::new();
    for (at, task) in list.iter().enumerate() {
        let before = status_before(task);
        let payload = json!({"task_id": (at + 1).to_string(), "task_subject": task["content"]});
        if before.is_none() {
            events.push((HookEvent::TaskCreated, payload.clone()));
        }
        if task["status"] == "completed" && before != Some(&task["status"]) {
            events.push((HookEvent::TaskCompleted, payload));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a list of tasks from `a b! c`, in which `!` marks those that are done.
    fn list(line: &str) -> Value {
        let task = |word: &str| match word.strip_suffix('!') {
            Some(text) => json!({"content": text, "status": "completed"}),
            None => json!({"content": word, "status": "pending"}),
        };
        line.split_whitespace().map(task).collect()
    }

    #[test]
    fn a_list_tells_what_is_new_and_what_is_done() {
        for (former, next, expected) in [
            ("", "", ""),
            ("", "a b", "TaskCreated 1 a, TaskCreated 2 b"),
            ("a b", "a! b", "TaskCompleted 1 a"),
            ("a! b", "a! b", ""),
            ("a! b", "b! a!", "TaskCompleted 1 b"),
            ("a!", "a", ""),
            ("a", "c! a", "TaskCreated 1 c, TaskCompleted 1 c"),
            ("a b", "a", ""),
        ] {
            let details = json!({"oldTodos": list(former), "newTodos": list(next)});
            let told = events(Some(&details));
            let told = told.iter().map(|(event, payload)| {
                let text = |key: &str| payload[key].as_str().unwrap().to_owned();
                format!(
                    "{} {} {}",
                    event.as_str(),
                    text("task_id"),
                    text("task_subject")
                )
            });
            assert_eq!(
                told.collect::<Vec<_>>().join(", "),
                expected,
                "{former} -> {next}"
            );
        }
        assert_eq!(events(Some(&json!({"newTodos": 1}))), []);
        assert_eq!(events(None), []);
    }
}
