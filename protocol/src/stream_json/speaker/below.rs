//! Messages about background tasks, and messages of subagents, which carry the id of the call that started them.

use ah_agent::SessionUpdate;
use ah_conversation::{
    ContentBlock, Message, Origin, StreamEvent, Task, TaskEnding, TaskKind, TaskUpdate, TaskUsage,
    ToolResult, ToolUse, ToolUseId,
};
use serde_json::{Value, json};

use super::{Arriving, Speaker, add};
use ah_transcript::parts::{content, details, of_block, timestamp, tool_result};

impl Speaker {
    /// Sets whether the texts of subagents are sent, not only their tool calls.
    pub(crate) fn forward_words(&self, forwards: bool) {
        self.state.lock().forwards_words = forwards || self.wanted.subagent_text;
    }

    /// Reports the status of a task.
    pub(super) fn task(&self, task: &Task, news: &TaskUpdate) {
        let mut line = json!({"task_id": task.id, "tool_use_id": task.call});
        match news {
            TaskUpdate::Started => {
                line["description"] = json!(task.description);
                line["is_backgrounded"] = json!(task.is_background);
                match &task.kind {
                    TaskKind::Agent {
                        name,
                        prompt,
                        depth,
                    } => add(
                        &mut line,
                        json!({
                            "subagent_type": name,
                            "spawn_depth": depth,
                            "task_type": "local_agent",
                            "prompt": prompt,
                        }),
                    ),
                    TaskKind::Command => line["task_type"] = json!("local_bash"),
                }
                if task.is_background {
                    self.tasks_changed(task, true);
                }
                self.system("task_started", line);
            }
            TaskUpdate::Progress {
                doing,
                last_tool,
                usage,
            } => {
                line["description"] = json!(doing);
                line["usage"] = took(usage);
                if let TaskKind::Agent { name, .. } = &task.kind {
                    line["subagent_type"] = json!(name);
                }
                if let Some(tool) = last_tool {
                    line["last_tool_name"] = json!(tool);
                }
                self.system("task_progress", line);
            }
            TaskUpdate::Ended {
                ending,
                summary,
                output_file,
                usage,
                ..
            } => {
                let status = match ending {
                    TaskEnding::Stopped => "killed",
                    other => other.as_str(),
                };
                let patch = json!({"status": status, "end_time": self.link.ids.now().0});
                let updated = json!({"task_id": task.id, "patch": patch});
                self.system("task_updated", updated);
                line["status"] = json!(ending.as_str());
                line["output_file"] = json!(output_file.clone().unwrap_or_default());
                line["summary"] = json!(summary);
                line["usage"] = took(usage);
                self.system("task_notification", line);
                if task.is_background {
                    self.tasks_changed(task, false);
                }
            }
        }
    }

    /// Reports the tasks in the background.
    fn tasks_changed(&self, task: &Task, is_there: bool) {
        let tasks: Vec<_> = {
            let tasks = &mut self.state.lock().tasks;
            tasks.retain(|(id, ..)| *id != task.id);
            if is_there {
                let kind = match task.kind {
                    TaskKind::Agent { .. } => "local_agent",
                    TaskKind::Command => "local_bash",
                };
                tasks.push((task.id.clone(), kind, task.description.clone()));
            }
            let told = tasks.iter().map(|(id, kind, description)| {
                json!({"task_id": id, "task_type": kind, "description": description})
            });
            told.collect()
        };
        self.system("background_tasks_changed", json!({"tasks": tasks}));
    }

    /// Takes note of a call that the host is asked about.
    pub(crate) fn note_question(&self, call: &ToolUseId) {
        self.state.lock().asked.insert(call.clone());
    }

    /// Returns the denied calls of subagents since the last time.
    pub(crate) fn take_denied_below(&self) -> Vec<ToolUse> {
        std::mem::take(&mut self.state.lock().denied_below)
    }

    /// Reports a call that was denied without a question to the host.
    pub(super) fn denied(&self, call: &ToolUse, reason: Option<&str>, agent: Option<&str>) {
        let was_asked = self.state.lock().asked.remove(&call.id);
        let Some(reason) = reason.filter(|_| !was_asked) else {
            return;
        };
        let mut line = json!({
            "tool_name": call.name,
            "tool_use_id": call.id,
            "message": reason,
        });
        if let Some(agent) = agent {
            line["agent_id"] = json!(agent);
        }
        self.system("permission_denied", line);
    }

    /// Sends a part of a subagent's conversation: its tool calls, and its texts if the host wants them.
    pub(super) fn of_agent(&self, task: &Task, part: &SessionUpdate<'_>) {
        match part {
            SessionUpdate::Asking { model, .. } => {
                let mut state = self.state.lock();
                let answer = state.below.entry(task.id.clone()).or_default();
                answer.model.clone_from(&model.name);
            }
            SessionUpdate::Piece(StreamEvent::Started { id, usage }) => {
                let fresh = || format!("msg_{}", self.link.ids.fresh().replace('-', ""));
                let mut state = self.state.lock();
                let answer = state.below.entry(task.id.clone()).or_default();
                answer.id = if id.is_empty() { fresh() } else { id.clone() };
                answer.usage = *usage;
            }
            SessionUpdate::Piece(StreamEvent::Accepted { request_id }) => {
                let mut state = self.state.lock();
                let answer = state.below.entry(task.id.clone()).or_default();
                answer.request_id = Some(request_id.clone());
            }
            SessionUpdate::Block(block) => self.block_below(task, block),
            SessionUpdate::Result(result, _) => self.result_below(task, result),
            SessionUpdate::Denied { call, reason } => {
                self.state.lock().denied_below.push((*call).clone());
                self.denied(call, *reason, Some(&task.id));
            }
            SessionUpdate::Stored(message) => {
                self.stored_below(task, message);
                // Calls that did not run end here.
                message
                    .tool_results()
                    .for_each(|result| self.result_below(task, result));
                if message.origin == Origin::Prompt {
                    self.prompt_below(task, message);
                }
            }
            _ => {}
        }
    }

    /// Tells the result of a call, once.
    fn result_below(&self, task: &Task, result: &ToolResult) {
        let is_open = {
            let mut state = self.state.lock();
            let answer = state.below.get_mut(&task.id);
            answer.is_some_and(|answer| answer.calls.remove(&result.tool_use_id).is_some())
        };
        if is_open {
            self.below(
                task,
                json!({
                    "type": "user",
                    "message": {"role": "user", "content": [tool_result(result)]},
                    "tool_use_result": details(result),
                    "timestamp": self.now(),
                }),
            );
        }
    }

    fn block_below(&self, task: &Task, block: &ContentBlock) {
        let (message, request_id) = {
            let mut state = self.state.lock();
            let forwards_words = state.forwards_words;
            let Some(answer) = state.below.get_mut(&task.id) else {
                return;
            };
            match block {
                ContentBlock::ToolUse(call) => {
                    answer.calls.insert(call.id.clone(), answer.blocks);
                }
                _ if !forwards_words => return,
                _ => {}
            }
            answer.blocks += 1;
            let Arriving {
                id,
                model,
                usage,
                request_id,
                ..
            } = answer;
            let message = of_block(id, model, usage, &content(block));
            (message, request_id.clone())
        };
        let mut line = json!({"type": "assistant", "message": message, "timestamp": self.now()});
        if let Some(id) = request_id {
            line["request_id"] = json!(id);
        }
        self.below(task, line);
    }

    /// Writes a message into the transcript of its subagent.
    fn stored_below(&self, task: &Task, message: &Message) {
        let Some(files) = &mut *self.files.lock() else {
            return;
        };
        match files.below.write(task, message, &*self.link.ids) {
            Ok((path, rows)) => self.mirror(&path, rows),
            Err(error) => {
                let text = format!("cannot write the transcript of a subagent: {error}");
                self.notice(&text);
            }
        }
    }

    fn prompt_below(&self, task: &Task, message: &Message) {
        let blocks: Vec<_> = message.content.iter().map(content).collect();
        self.below(
            task,
            json!({
                "type": "user",
                "message": {"role": "user", "content": blocks},
                "uuid": self.link.ids.of(&message.id),
                "timestamp": timestamp(message.created_at),
            }),
        );
    }

    /// Sends a message of a subagent's conversation.
    fn below(&self, task: &Task, mut line: Value) {
        line["parent_tool_use_id"] = json!(task.call);
        line["agent_id"] = json!(task.id);
        line["task_description"] = json!(task.description);
        if let TaskKind::Agent { name, .. } = &task.kind {
            line["subagent_type"] = json!(name);
        }
        self.say(line);
    }
}

fn took(usage: &TaskUsage) -> Value {
    json!({
        "total_tokens": usage.tokens,
        "tool_uses": usage.tool_uses,
        "duration_ms": usage.duration_ms,
    })
}
