//! The `ask_user_question` tool: lets the person decide what is theirs to decide.
//!
//! The tool itself asks nobody. Its call says what it wants to know ([`Interaction::Choices`]); whoever is asked whether the
//! call may happen answers that too, and the answers come back in the call's own input.

use std::sync::Arc;

use ah_conversation::{
    Access, Choice, ChoiceOption, Context, Input, Interaction, Interface, Output, Tool, ToolSpec,
    ToolUse, Truncation,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool.
pub struct Ask {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    questions: Vec<Question>,
    #[serde(default)]
    answers: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    question: String,
    #[serde(default)]
    header: String,
    options: Vec<Offered>,
    #[serde(default)]
    multi_select: bool,
}

#[derive(Deserialize)]
struct Offered {
    label: String,
    #[serde(default)]
    description: String,
}

impl Ask {
    /// The tool.
    pub fn new(interface: Interface) -> Self {
        let option = json!({
            "type": "object",
            "properties": {
                "label": { "type": "string", "description": "The choice, in one to five words" },
                "description": { "type": "string", "description": "What it means, or what comes of it" },
            },
            "required": ["label", "description"],
        });
        let question = json!({
            "type": "object",
            "properties": {
                "question": { "type": "string", "description": "The whole question, with its question mark" },
                "header": { "type": "string", "description": "What it is about, at most 12 characters" },
                "options": { "type": "array", "items": option, "minItems": 2, "maxItems": 4 },
                "multiSelect": { "type": "boolean", "description": "Whether several may be chosen (default: false)" },
            },
            "required": ["question", "header", "options"],
        });
        let schema = json!({
            "type": "object",
            "properties": {
                "questions": { "type": "array", "items": question, "minItems": 1, "maxItems": 4 },
                "answers": { "type": "object", "description": "The person's; leave it out" },
            },
            "required": ["questions"],
        });
        let spec = ToolSpec {
            name: interface
                .pick("ask_user_question", "AskUserQuestion")
                .into(),
            description: include_str!("ask.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        };
        Self { spec }
    }
}

#[async_trait]
impl Tool for Ask {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let questions = Arguments::of(input).map(|arguments| arguments.questions);
        let choices = questions.unwrap_or_default().into_iter().map(Choice::from);
        vec![Access::Ask(Interaction::Choices(choices.collect()))]
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        match Arguments::of(&call.input) {
            Ok(arguments) => told(&arguments, &call.input),
            Err(fault) => Output::error(fault),
        }
    }
}

impl Arguments {
    fn of(input: &Input) -> Result<Self, String> {
        serde_json::from_value(input.to_value()).map_err(|fault| format!("invalid input: {fault}"))
    }
}

/// The answers in words, a line each.
fn told(arguments: &Arguments, input: &Input) -> Output {
    let answer = |question: &Question| {
        let answer = said(arguments.answers.get(&question.question)?);
        (!answer.is_empty()).then(|| (question.question.clone(), answer))
    };
    let answers: Vec<_> = arguments.questions.iter().filter_map(answer).collect();
    if answers.is_empty() {
        return Output::error(
            "The person has not answered. Go on as you think best, and say what you assumed.",
        );
    }
    let mut text = "The person has answered:\n".to_owned();
    for question in &arguments.questions {
        let found = answers
            .iter()
            .find(|(asked, _)| *asked == question.question);
        let answer = found.map_or("(no answer)", |(_, answer)| answer);
        text.push_str(&format!("- {} {answer}\n", question.question));
    }
    let answers = answers
        .into_iter()
        .map(|(asked, said)| (asked, said.into()));
    let mut details = json!({
        "questions": input.get("questions"),
        "answers": answers.collect::<Map<String, Value>>(),
    });
    if let Some(annotations) = input.get("annotations") {
        details["annotations"] = annotations.clone();
    }
    Output::text(text.trim_end()).with_details(details)
}

/// An answer in words; some hosts send a list where several were chosen.
fn said(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(several) => {
            let several: Vec<_> = several.iter().map(said).collect();
            several.join(", ")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl From<Question> for Choice {
    fn from(question: Question) -> Self {
        let options = question.options.into_iter().map(|offered| ChoiceOption {
            label: offered.label,
            description: offered.description,
        });
        Self {
            question: question.question,
            header: question.header,
            options: options.collect(),
            is_multiple: question.multi_select,
        }
    }
}
