//! Tool calls as an editor shows them: title, kind, files, and what has changed.
//!
//! A call is shown by the display key of its tool and by what it would access, its result by the shape of the details:
//! `structuredPatch` is a change of a file, `newTodos` a plan, whatever the name of the tool. Pure.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    AudioContent, Content, ContentBlock, Diff, ImageContent, Plan, PlanEntry, PlanEntryPriority,
    PlanEntryStatus, TextContent, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use ah_conversation::{
    Access, DisplayKey, Interaction, ResultBlock, Tool, ToolResult, ToolUse, is_same_tool,
    neutralise,
};
use serde_json::Value;

use crate::patch::{fenced, patch};

/// Longest title, in characters.
const TITLE: usize = 200;
/// Arguments of an edit, and of a new content.
const OLD: &str = "old_string";
const NEW: &str = "new_string";
const WHOLE: &str = "content";

/// The tools of a session, for the display of their calls.
#[derive(Default)]
pub(crate) struct Shown {
    /// The tools.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// The folder that displayed paths are relative to.
    pub(crate) folder: PathBuf,
}

impl Shown {
    fn tool(&self, call: &ToolUse) -> Option<&Arc<dyn Tool>> {
        let named =
            |is_it: &dyn Fn(&str) -> bool| self.tools.iter().find(|tool| is_it(&tool.spec().name));
        named(&|name| name == call.name).or_else(|| named(&|name| is_same_tool(name, &call.name)))
    }

    fn key(&self, call: &ToolUse) -> Option<&DisplayKey> {
        self.tool(call)?.spec().key.as_ref()
    }

    /// Returns a call that the model has made. Its input may be anything.
    pub(crate) fn made(&self, call: &ToolUse) -> ToolCall {
        let kind = match self.key(call) {
            Some(DisplayKey::Command(_)) => ToolKind::Execute,
            Some(DisplayKey::Path(_) | DisplayKey::Text(_)) | None => ToolKind::Other,
        };
        ToolCall::new(call.id.as_str().to_owned(), self.title(call))
            .name(call.name.clone())
            .kind(kind)
            .status(ToolCallStatus::Pending)
            .raw_input(call.input.to_value())
    }

    /// Returns a call whose input has passed the schema, so that it is known what it would access.
    pub(crate) fn checked(&self, call: &ToolUse) -> ToolCallUpdateFields {
        let accesses = self.tool(call).map(|tool| tool.access(&call.input));
        let accesses = accesses.unwrap_or_default();
        let paths = accesses.iter().filter_map(|access| match access {
            Access::Read(path) | Access::Write(path) => Some(ToolCallLocation::new(path.clone())),
            _ => None,
        });
        ToolCallUpdateFields::new()
            .title(self.title(call))
            .kind(self.kind(call, &accesses))
            .locations(paths.collect::<Vec<_>>())
            .raw_input(call.input.to_value())
    }

    /// Returns a call that the user is asked about, with the change that it would make: the file that it would write,
    /// and whether that is new.
    pub(crate) fn asked(&self, call: &ToolUse, written: Option<(&Path, bool)>) -> ToolCallUpdate {
        let mut fields = self.checked(call).status(ToolCallStatus::Pending);
        if let Some((path, is_new)) = written
            && let Some(content) = wanted(call, path, is_new)
        {
            fields = fields.content(vec![content]);
        }
        ToolCallUpdate::new(call.id.as_str().to_owned(), fields)
    }

    /// Returns a call that has begun.
    pub(crate) fn begun(&self, call: &ToolUse) -> ToolCallUpdate {
        let fields = self.checked(call).status(ToolCallStatus::InProgress);
        ToolCallUpdate::new(call.id.as_str().to_owned(), fields)
    }

    /// Returns a call that has ended.
    pub(crate) fn ended(&self, result: &ToolResult, is_command: bool) -> ToolCallUpdate {
        let status = match result.is_error {
            true => ToolCallStatus::Failed,
            false => ToolCallStatus::Completed,
        };
        let details = details(result);
        let mut fields = ToolCallUpdateFields::new()
            .status(status)
            .content(self.content(result, details.as_ref(), is_command));
        if let Some((path, hunks)) = details.as_ref().and_then(|details| self.patch(details)) {
            let line = hunks.first().and_then(|hunk| hunk["newStart"].as_u64());
            let line = line.and_then(|line| u32::try_from(line).ok());
            fields = fields
                .kind(ToolKind::Edit)
                .locations(vec![ToolCallLocation::new(path).line(line)]);
        }
        ToolCallUpdate::new(result.tool_use_id.as_str().to_owned(), fields)
    }

    /// Returns the change of a file that a call has made, as a patch: its file, whether that is new, and the text.
    pub(crate) fn change(&self, result: &ToolResult) -> Option<(PathBuf, bool, String)> {
        let details = details(result)?;
        let (path, hunks) = self.patch(&details)?;
        let is_new = details["type"] == "create";
        let content = details["content"].as_str().filter(|_| is_new);
        if hunks.is_empty() && content.is_none() {
            return None;
        }
        let text = patch(&path, hunks, content.filter(|_| hunks.is_empty()));
        Some((path, is_new, text))
    }

    /// Returns the command that a call runs, whose output is no Markdown.
    pub(crate) fn command<'a>(&self, call: &'a ToolUse) -> Option<&'a str> {
        match self.key(call)? {
            DisplayKey::Command(argument) => call.input.text(argument),
            DisplayKey::Path(_) | DisplayKey::Text(_) => None,
        }
    }

    fn title(&self, call: &ToolUse) -> String {
        let key = self.key(call);
        let value = key.and_then(|key| call.input.text(key.argument()));
        let title = match (key, value) {
            (Some(DisplayKey::Command(_)), Some(command)) => command.to_owned(),
            (Some(DisplayKey::Path(_)), Some(path)) => {
                let path = Path::new(path);
                let path = path.strip_prefix(&self.folder).unwrap_or(path);
                format!("{} {}", call.name, path.display())
            }
            (_, Some(text)) => format!("{} {text}", call.name),
            (_, None) => call.name.clone(),
        };
        let title = neutralise(title.trim());
        match title.char_indices().nth(TITLE) {
            Some((end, _)) => format!("{}…", &title[..end]),
            None => title.into_owned(),
        }
    }

    fn kind(&self, call: &ToolUse, accesses: &[Access]) -> ToolKind {
        let is_path = matches!(self.key(call), Some(DisplayKey::Path(_)));
        let mut kind = ToolKind::Other;
        for access in accesses {
            match access {
                Access::Command(_) => return ToolKind::Execute,
                Access::Write(_) => return ToolKind::Edit,
                Access::Host(_) => kind = ToolKind::Fetch,
                Access::Ask(Interaction::Plan(_) | Interaction::ToPlan) => {
                    kind = ToolKind::SwitchMode;
                }
                Access::Read(_) if is_path => kind = ToolKind::Read,
                Access::Read(_) => kind = ToolKind::Search,
                Access::Named(_)
                | Access::Ask(_)
                | Access::Promised
                | Access::Unknown
                | Access::Confined { .. } => {}
            }
        }
        kind
    }

    /// Returns the output of a call: its changes, or what it says.
    fn content(
        &self,
        result: &ToolResult,
        details: Option<&Value>,
        is_command: bool,
    ) -> Vec<ToolCallContent> {
        if let Some(details) = details {
            let diffs = self.diffs(details);
            if !diffs.is_empty() {
                return diffs;
            }
        }
        let block = |block: &ResultBlock| match block {
            ResultBlock::Text { text } if text.is_empty() => None,
            ResultBlock::Text { text } if is_command || result.is_error => {
                Some(said(&fenced("", text)))
            }
            ResultBlock::Text { text } => Some(said(text)),
            ResultBlock::Audio(audio) => {
                let audio = AudioContent::new(audio.data.clone(), audio.media_type.clone());
                Some(ToolCallContent::Content(Content::new(ContentBlock::Audio(
                    audio,
                ))))
            }
            ResultBlock::Image(image) => {
                let image = ImageContent::new(image.data.clone(), image.media_type.clone());
                Some(ToolCallContent::Content(Content::new(ContentBlock::Image(
                    image,
                ))))
            }
        };
        result.content.iter().filter_map(block).collect()
    }

    /// Returns the changes in the details of a result, one for each place.
    fn diffs(&self, details: &Value) -> Vec<ToolCallContent> {
        let Some((path, hunks)) = self.patch(details) else {
            return Vec::new();
        };
        if hunks.is_empty() {
            let is_new = details["type"] == "create";
            let content = details["content"].as_str().filter(|_| is_new);
            let diff = content.map(|content| Diff::new(path, content).into());
            return diff.into_iter().collect();
        }
        let side = |hunk: &Value, other: char| {
            let lines = hunk["lines"].as_array().into_iter().flatten();
            let lines = lines.filter_map(|line| {
                let line = line.as_str()?;
                let sign = line.chars().next()?;
                (sign != other).then(|| format!("{}\n", &line[sign.len_utf8()..]))
            });
            lines.collect::<String>()
        };
        let diff = |hunk: &Value| {
            let old = side(hunk, '+');
            Diff::new(path.clone(), side(hunk, '-'))
                .old_text(old)
                .into()
        };
        hunks.iter().map(diff).collect()
    }

    /// Returns the file of a change and its hunks.
    fn patch<'a>(&self, details: &'a Value) -> Option<(PathBuf, &'a [Value])> {
        let hunks = details.get("structuredPatch")?.as_array()?;
        let path = details.get("filePath")?.as_str()?;
        Some((self.folder.join(path), hunks))
    }
}

/// Returns the details of a call that has succeeded.
fn details(result: &ToolResult) -> Option<Value> {
    let details = result.details.as_ref().filter(|_| !result.is_error)?;
    Some(details.value())
}

/// Returns the plan in the details of a task list.
pub(crate) fn plan(result: &ToolResult) -> Option<Plan> {
    let details = result.details.as_ref().filter(|_| !result.is_error)?;
    let tasks = details.get("newTodos")?;
    let entry = |task: &Value| {
        let status = match task["status"].as_str() {
            Some("completed") => PlanEntryStatus::Completed,
            Some("in_progress") => PlanEntryStatus::InProgress,
            _ => PlanEntryStatus::Pending,
        };
        let text = task["content"].as_str().unwrap_or_default();
        PlanEntry::new(text, PlanEntryPriority::Medium, status)
    };
    Some(Plan::new(tasks.as_array()?.iter().map(entry).collect()))
}

/// Returns text as content of a call.
pub(crate) fn said(text: &str) -> ToolCallContent {
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
}

/// Returns the change that a call wants to make in a file.
fn wanted(call: &ToolUse, path: &Path, is_new: bool) -> Option<ToolCallContent> {
    if let (Some(old), Some(new)) = (call.input.text(OLD), call.input.text(NEW)) {
        return Some(Diff::new(path, new).old_text(old.to_owned()).into());
    }
    let whole = call.input.text(WHOLE)?;
    Some(match is_new {
        true => Diff::new(path, whole).into(),
        false => said(&fenced("", whole)),
    })
}

#[cfg(test)]
mod tests {
    use ah_conversation::ToolUseId;
    use serde_json::json;

    use super::*;

    fn result(details: Value) -> ToolResult {
        ToolResult {
            tool_use_id: ToolUseId::from("c1"),
            tool_name: "any".to_owned(),
            content: vec![ResultBlock::Text {
                text: "done".to_owned(),
            }],
            is_error: false,
            duration_ms: 0,
            details: Some(details.into()),
            lines: None,
        }
    }

    fn ended(details: Value) -> Value {
        let shown = Shown {
            folder: PathBuf::from("/work"),
            ..Shown::default()
        };
        let ended = shown.ended(&result(details), false);
        serde_json::to_value(ended).unwrap_or_default()
    }

    #[test]
    fn a_change_is_shown_as_a_diff_of_each_place() {
        let told = ended(json!({
            "filePath": "a.rs",
            "structuredPatch": [
                {"newStart": 3, "lines": [" one", "-two", "+zwei", "+drei"]},
                {"newStart": 30, "lines": ["-x", "é malformed"]},
            ],
        }));
        assert_eq!(
            told["content"],
            json!([
                {"type": "diff", "path": "/work/a.rs", "oldText": "one\ntwo\n", "newText": "one\nzwei\ndrei\n"},
                {"type": "diff", "path": "/work/a.rs", "oldText": "x\n malformed\n", "newText": " malformed\n"},
            ])
        );
        assert_eq!(told["kind"], "edit");
        assert_eq!(
            told["locations"],
            json!([{"path": "/work/a.rs", "line": 3}])
        );
        let told = ended(json!({
            "type": "create", "filePath": "/work/b", "structuredPatch": [], "content": "new\n",
        }));
        assert_eq!(
            told["content"],
            json!([{"type": "diff", "path": "/work/b", "newText": "new\n"}])
        );
    }

    #[test]
    fn details_of_any_other_shape_leave_the_text() {
        for details in [
            json!(null),
            json!([]),
            json!({"structuredPatch": 3, "filePath": "a"}),
            json!({"structuredPatch": [], "filePath": "a"}),
            json!({"structuredPatch": [], "filePath": 7, "type": "create", "content": "x"}),
        ] {
            let told = ended(details.clone());
            let said = told["content"][0]["content"]["text"].as_str();
            assert_eq!(said, Some("done"), "{details}");
        }
    }

    #[test]
    fn a_task_list_is_a_plan() {
        let tasks = json!({"newTodos": [
            {"content": "read", "status": "completed"},
            {"content": "write", "status": "in_progress"},
            {"status": 3},
        ]});
        let entries = plan(&result(tasks))
            .map(|plan| plan.entries)
            .unwrap_or_default();
        let entries: Vec<_> = entries
            .iter()
            .map(|it| (it.content.as_str(), &it.status))
            .collect();
        assert_eq!(
            entries,
            [
                ("read", &PlanEntryStatus::Completed),
                ("write", &PlanEntryStatus::InProgress),
                ("", &PlanEntryStatus::Pending),
            ]
        );
        assert_eq!(plan(&result(json!({"newTodos": 3}))), None);
    }
}
