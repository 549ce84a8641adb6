//! Structured answers: a tool whose input is the answer, and its effect on the run.
//!
//! The call with the answer ends the run. An answer that does not match the schema is an ordinary failed call, so the
//! model tries again, a limited number of times. A model that ends without the call is reminded once; if its last
//! message is itself a valid answer, that is used.

use std::sync::Arc;

use ah_conversation::{
    Access, ContentBlock, Context, DemandedAnswer, ExitReason, Input, Message, Origin, Output,
    Role, Tool, ToolExtras, ToolResult, ToolSpec, ToolUse, Truncation, json,
};
use ah_schema::Schema;
use async_trait::async_trait;
use serde_json::Value;

/// Name of the tool in the Agent SDKs.
const NAME: &str = "StructuredOutput";
/// Maximum number of invalid answers.
const MAX_FAILURES: usize = 5;
/// Reminder for a model that ended without an answer.
const REMINDER: &str = "You have not given the answer in the form that was asked for. Call the StructuredOutput tool with it \
now.";

/// Schema of a structured answer, a JSON Schema of an object.
#[derive(Debug, Clone)]
pub struct AnswerForm {
    schema: Arc<Value>,
    compiled: Arc<Schema>,
}

impl AnswerForm {
    /// Creates the form from a JSON Schema.
    ///
    /// # Errors
    ///
    /// If it is not a valid schema of an object; the text says why.
    pub fn new(schema: Value) -> Result<Self, String> {
        if schema["type"] != "object" {
            return Err("its `type` is not `object`".to_owned());
        }
        let compiled = Schema::new(&schema).map_err(|error| error.to_string())?;
        Ok(Self {
            schema: Arc::new(schema),
            compiled: Arc::new(compiled),
        })
    }

    /// Returns the tool that takes the answer.
    pub fn tool(&self) -> Arc<dyn Tool> {
        Arc::new(AnswerTool(ToolSpec {
            name: NAME.to_owned(),
            description: "Takes your final answer in the form that was asked for. Call it once, when all else is done; \
                          its arguments are the answer, and nothing is said after it."
                .to_owned(),
            input_schema: self.schema.clone(),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        }))
    }

    /// Returns the answer given in a run.
    pub(crate) fn answer(&self, run: &[Arc<Message>]) -> Option<Value> {
        let given = results(run).rfind(|result| !result.is_error);
        given
            .and_then(|result| Some(result.details.as_ref()?.value()))
            .or_else(|| self.parsed_answer(run))
    }

    /// Returns the last message as an answer, if it is a valid one.
    fn parsed_answer(&self, run: &[Arc<Message>]) -> Option<Value> {
        let last = run.last().filter(|last| last.role == Role::Assistant)?;
        let value = json::from_str(last.text().trim()).ok()?;
        self.compiled.is_valid(&value).then_some(value)
    }

    /// Whether the message has results of the tool for answers.
    pub(crate) fn is_attempt(message: &Message) -> bool {
        message
            .tool_results()
            .any(|result| result.tool_name == NAME)
    }

    /// Returns why a run ends after these calls, if it does.
    pub(crate) fn ends(run: &[Arc<Message>]) -> Option<ExitReason> {
        let failures = results(run).filter(|result| result.is_error).count();
        if results(run).any(|result| !result.is_error) {
            Some(ExitReason::EndTurn)
        } else if failures >= MAX_FAILURES {
            Some(ExitReason::MaxStructuredOutputRetries)
        } else {
            None
        }
    }

    /// Returns why a run that the model ended has no answer; `None` if it has one.
    pub fn failure(&self, run: &[Arc<Message>]) -> Option<String> {
        if self.answer(run).is_some() {
            return None;
        }
        let failed: Vec<_> = results(run).filter(|result| result.is_error).collect();
        Some(match failed.last() {
            Some(last) => format!(
                "Failed to provide valid structured output after {} attempts — last {NAME} error: {}",
                failed.len(),
                last.text(),
            ),
            None => "Failed to provide structured output: the model ended its turn without it"
                .to_owned(),
        })
    }

    /// Returns the reminder for a model that ends without an answer; `None` if there is an answer, or was a reminder
    /// before.
    pub(crate) fn reminder(&self, run: &[Arc<Message>]) -> Option<String> {
        let is_owed = self.answer(run).is_none() && !was_reminded(run);
        is_owed.then(|| REMINDER.to_owned())
    }

    /// Returns what the server is to hold the next answer to: a model that was reminded has had its turn.
    pub(crate) fn demand(&self, run: &[Arc<Message>]) -> Option<DemandedAnswer> {
        let is_owed = was_reminded(run) && self.answer(run).is_none();
        is_owed.then(|| DemandedAnswer {
            tool: NAME.to_owned(),
            schema: self.schema.clone(),
        })
    }
}

fn was_reminded(run: &[Arc<Message>]) -> bool {
    let is_reminder =
        |message: &Arc<Message>| message.origin == Origin::Reminder && message.text() == REMINDER;
    run.iter().any(is_reminder)
}

fn results(run: &[Arc<Message>]) -> impl DoubleEndedIterator<Item = &ToolResult> {
    let blocks = run.iter().flat_map(|message| &message.content);
    blocks.filter_map(|block| match block {
        ContentBlock::ToolResult(result) if result.tool_name == NAME => Some(result),
        _ => None,
    })
}

/// Tool whose input is the answer.
struct AnswerTool(ToolSpec);

#[async_trait]
impl Tool for AnswerTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        Output::text("Structured output provided successfully").with_details(call.input.to_value())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_is_a_schema_of_an_object() {
        for (schema, expected) in [
            (json!({"type": "object"}), None),
            (json!({"type": "array"}), Some("its `type` is not `object`")),
            (json!("object"), Some("its `type` is not `object`")),
        ] {
            let error = AnswerForm::new(schema.clone()).err();
            assert_eq!(error.as_deref(), expected, "{schema}");
        }
        let wrong = json!({"type": "object", "properties": {"n": {"type": "whole"}}});
        assert!(AnswerForm::new(wrong).is_err());
    }
}
