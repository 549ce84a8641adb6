//! An answer in a form that was asked for: a tool whose input is the answer, and what becomes of a run that has one, or
//! should have one.
//!
//! The call that gives the answer ends the run. One that does not fit is answered like any call that fails its schema,
//! so the model tries again, a few times. A model that ends without the call is reminded once; if its last words are the
//! answer themselves, they are taken.

use std::sync::Arc;

use ah_conversation::{
    Access, ContentBlock, Context, ExitReason, Input, Message, Origin, Output, Role, Tool,
    ToolResult, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde_json::Value;

/// The tool that takes the answer, as the Agent SDKs know it.
const NAME: &str = "StructuredOutput";
/// So many answers that do not fit end the run.
const MOST_FAILURES: usize = 5;
/// What a model is told that ended without it.
const REMINDER: &str = "You have not given the answer in the form that was asked for. Call the StructuredOutput tool with it \
now.";

/// The form of an answer, a JSON Schema of an object.
#[derive(Debug, Clone)]
pub struct AnswerForm(Arc<Value>);

impl AnswerForm {
    /// The form that `schema` describes.
    ///
    /// # Errors
    /// Where it is no JSON Schema, or not one of an object; the text says so.
    pub fn new(schema: Value) -> Result<Self, String> {
        if schema["type"] != "object" {
            return Err("its `type` is not `object`".to_owned());
        }
        match jsonschema::validator_for(&schema) {
            Ok(_) => Ok(Self(Arc::new(schema))),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The tool that takes the answer.
    pub fn tool(&self) -> Arc<dyn Tool> {
        Arc::new(AnswerTool(ToolSpec {
            name: NAME.to_owned(),
            description: "Takes your final answer in the form that was asked for. Call it once, when all else is done; \
                          its arguments are the answer, and nothing is said after it."
                .to_owned(),
            input_schema: self.0.clone(),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        }))
    }

    /// The answer that a run has given.
    pub(crate) fn answer(&self, run: &[Arc<Message>]) -> Option<Value> {
        let given = results(run).rfind(|result| !result.is_error);
        given
            .and_then(|result| result.details.clone())
            .or_else(|| self.said(run))
    }

    /// The last words, where they are the answer themselves.
    fn said(&self, run: &[Arc<Message>]) -> Option<Value> {
        let last = run.last().filter(|last| last.role == Role::Assistant)?;
        let value = serde_json::from_str(last.text().trim()).ok()?;
        jsonschema::is_valid(&self.0, &value).then_some(value)
    }

    /// Why a run ends whose calls have their results.
    pub(crate) fn ends(run: &[Arc<Message>]) -> Option<ExitReason> {
        let failures = results(run).filter(|result| result.is_error).count();
        match results(run).any(|result| !result.is_error) {
            true => Some(ExitReason::EndTurn),
            false if failures >= MOST_FAILURES => Some(ExitReason::MaxStructuredOutputRetries),
            false => None,
        }
    }

    /// What to say to a model that ends without the answer; `None` if it has it, or was told so before.
    pub(crate) fn reminder(&self, run: &[Arc<Message>]) -> Option<String> {
        let is_reminder = |message: &Arc<Message>| {
            message.origin == Origin::Reminder && message.text() == REMINDER
        };
        let is_owed = self.answer(run).is_none() && !run.iter().any(is_reminder);
        is_owed.then(|| REMINDER.to_owned())
    }
}

fn results(run: &[Arc<Message>]) -> impl DoubleEndedIterator<Item = &ToolResult> {
    let blocks = run.iter().flat_map(|message| &message.content);
    blocks.filter_map(|block| match block {
        ContentBlock::ToolResult(result) if result.tool_name == NAME => Some(result),
        _ => None,
    })
}

/// The tool itself: what it is given is the answer.
struct AnswerTool(ToolSpec);

#[async_trait]
impl Tool for AnswerTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
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
        for (schema, fault) in [
            (json!({"type": "object"}), None),
            (json!({"type": "array"}), Some("its `type` is not `object`")),
            (json!("object"), Some("its `type` is not `object`")),
        ] {
            let told = AnswerForm::new(schema.clone()).err();
            assert_eq!(told.as_deref(), fault, "{schema}");
        }
        let wrong = json!({"type": "object", "properties": {"n": {"type": "whole"}}});
        assert!(AnswerForm::new(wrong).is_err());
    }
}
