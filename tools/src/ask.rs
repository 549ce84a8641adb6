//! The `ask_user_question` tool: leaves decisions to the user.
//!
//! The tool itself asks no questions. Its call carries them ([`Interaction::Choices`]); the answers come with the
//! permission for the call, in its input.

use ah_conversation::{
    Access, Choice, ChoiceOption, Context, Input, Interaction, Interface, Output, Tool, ToolExtras,
    ToolSpec, ToolUse,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::arguments;

/// The `ask_user_question` tool.
pub struct Ask {
    spec: ToolSpec,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    #[schemars(length(min = 1, max = 4))]
    questions: Vec<Question>,
    /// The person's; leave it out
    #[serde(default)]
    answers: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Question {
    /// The whole question, with its question mark
    question: String,
    /// What it is about, at most 12 characters
    #[schemars(required)]
    header: Option<String>,
    #[schemars(length(min = 2, max = 4))]
    options: Vec<QuestionOption>,
    /// Whether several may be chosen (default: false)
    #[serde(default)]
    multi_select: bool,
}

#[derive(Deserialize, JsonSchema)]
struct QuestionOption {
    /// The choice, in one to five words
    label: String,
    /// What it means, or what comes of it
    #[schemars(required)]
    description: Option<String>,
}

impl Ask {
    /// Returns the tool.
    pub fn new(interface: Interface) -> Self {
        let name = interface.tool_name("ask_user_question");
        let schema = arguments::schema::<Arguments>();
        Self {
            spec: arguments::spec(&name, include_str!("ask.md"), schema),
        }
    }
}

#[async_trait]
impl Tool for Ask {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let questions = serde_json::from_value::<Arguments>(input.to_value())
            .map(|arguments| arguments.questions)
            .unwrap_or_default();
        let choices = questions.into_iter().map(Choice::from).collect();
        vec![Access::Ask(Interaction::Choices(choices))]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        match arguments::parse(call) {
            Ok(arguments) => report(&arguments, &call.input),
            Err(error) => Output::error(error),
        }
    }
}

/// Returns the answers as text, a line each.
fn report(arguments: &Arguments, input: &Input) -> Output {
    let answer = |question: &Question| {
        let answer = arguments.answers.get(&question.question)?;
        Some(answer_text(answer)).filter(|answer| !answer.is_empty())
    };
    let answers: Vec<_> = arguments
        .questions
        .iter()
        .map(|question| (question.question.as_str(), answer(question)))
        .collect();
    if answers.iter().all(|(_, answer)| answer.is_none()) {
        return Output::error(
            "The user has not answered. Continue as you think best, and say what you assumed.",
        );
    }
    let mut text = "The user has answered:\n".to_owned();
    for (question, answer) in &answers {
        let answer = answer.as_deref().unwrap_or("(no answer)");
        text.push_str(&format!("- {question} {answer}\n"));
    }
    let answers: Map<String, Value> = answers
        .into_iter()
        .filter_map(|(question, answer)| Some((question.to_owned(), answer?.into())))
        .collect();
    let mut details = json!({ "questions": input.get("questions"), "answers": answers });
    if let Some(annotations) = input.get("annotations") {
        details["annotations"] = annotations.clone();
    }
    Output::text(text.trim_end()).with_details(details)
}

/// Returns an answer as text; some hosts send a list where several options were chosen.
fn answer_text(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(several) => several
            .iter()
            .map(answer_text)
            .collect::<Vec<_>>()
            .join(", "),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl From<Question> for Choice {
    fn from(question: Question) -> Self {
        let options = question.options.into_iter().map(|option| ChoiceOption {
            label: option.label,
            description: option.description.unwrap_or_default(),
        });
        Self {
            question: question.question,
            header: question.header.unwrap_or_default(),
            options: options.collect(),
            is_multiple: question.multi_select,
        }
    }
}
