//! Vendors as values: which APIs each serves, what it refuses beyond the rules of the API, what it takes although
//! something is lost by it, and what its answers look like.
//!
//! A rule has its source and the day of that source, or the day on which it was read. What has no source is no rule: a
//! vendor with none is as strict as the API itself. The rules of an API that every vendor of it has are in the modules
//! named `history`.

pub mod chat;
mod fields;
mod gpt;
pub mod messages;
pub mod responses;
mod table;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use self::gpt::{has_phases, version as gpt_version};
pub use self::table::{ALL, ANTHROPIC, OPENAI};
use super::given::Given;
use super::protocol::Protocol;
use super::refusal::Refusal;

/// A vendor, or a program that serves models.
#[derive(Debug)]
pub struct Vendor {
    /// Name.
    pub name: &'static str,
    /// APIs that it serves; it has no path for the others.
    pub apis: &'static [Protocol],
    /// What it refuses, besides what breaks the API.
    pub refuses: &'static [Rule],
    /// What it takes, although it makes the answers worse or more expensive.
    pub loses: &'static [Rule],
    /// Parts that it takes in tool results of chat completions.
    pub in_results: &'static [&'static str],
    /// Parts that it takes in answers of chat completions.
    pub in_answers: &'static [&'static str],
    /// Shape of its answers.
    pub answers: Answers,
}

/// A rule about requests.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// API of the requests.
    pub api: Protocol,
    /// Page, thread or package that says so.
    pub source: &'static str,
    /// Day of the source, or the day on which it was read.
    pub day: &'static str,
    /// Status of the refusal.
    pub status: u16,
    /// Returns the vendor's text about a request that breaks the rule.
    pub check: fn(&Asked<'_>) -> Result<(), String>,
}

/// A request, as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Headers by lower-case name.
    pub headers: &'a BTreeMap<String, String>,
    /// Body.
    pub body: &'a Value,
    /// What the server has given so far.
    pub given: &'a Given,
}

/// Shape of a vendor's answers, where vendors of one API differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// Form of the reasoning in chat completions.
    pub reasoning: Reasoning,
    /// Place of the signature of the first call of an answer in chat completions.
    pub call_signature: CallSignature,
    /// Ids of calls.
    pub ids: Ids,
    /// Body of an error.
    pub errors: Errors,
}

/// Form of the reasoning in chat completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasoning {
    /// `reasoning_content`, a text.
    Content,
    /// `reasoning`, a text.
    Plain,
    /// `reasoning_details`, a list of objects.
    Details,
    /// Parts of the type `thinking` in `content`.
    Parts,
    /// Not shown.
    Hidden,
}

/// Place of the signature of the first call of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallSignature {
    /// There is none.
    None,
    /// `extra_content.google.thought_signature` of the call.
    ExtraContent,
    /// An encrypted item of `reasoning_details` with the id of the call.
    Details,
}

/// Ids of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// Those of the scenario.
    Scripted,
    /// Nine letters and digits.
    Nine,
}

/// Body of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// As the API has it.
    OfApi,
    /// A list that holds an object with `error`.
    Listed,
    /// The error's fields at the top.
    Flat,
    /// `code` and the text as `error`.
    Bare,
}

impl Answers {
    /// Answers as the API has them.
    pub const OF_API: Self = Self {
        reasoning: Reasoning::Content,
        call_signature: CallSignature::None,
        ids: Ids::Scripted,
        errors: Errors::OfApi,
    };

    /// Returns the body of an error: `of_api` is the one of the API.
    pub fn error(self, status: u16, of_api: Value) -> Value {
        let error = &of_api["error"];
        let text = &error["message"];
        match self.errors {
            Errors::OfApi => of_api,
            Errors::Listed => json!([{
                "error": {"code": status, "message": text, "status": "INVALID_ARGUMENT"},
            }]),
            Errors::Flat => json!({
                "object": "error",
                "message": text,
                "type": error["type"],
                "param": null,
                "code": error["code"],
            }),
            Errors::Bare => {
                json!({"code": "Client specified an invalid argument", "error": text})
            }
        }
    }
}

impl Rule {
    /// Returns a rule whose refusal has the status 400.
    pub const fn new(
        api: Protocol,
        source: &'static str,
        day: &'static str,
        check: fn(&Asked<'_>) -> Result<(), String>,
    ) -> Self {
        Self {
            api,
            source,
            day,
            status: 400,
            check,
        }
    }

    /// Returns the rule with another status of the refusal.
    #[must_use]
    pub const fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }
}

impl Vendor {
    /// Returns the vendor called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|vendor| vendor.name == name)
    }

    /// Returns the vendor whose rules the server has that the table of servers calls `row`.
    pub fn of_row(row: &str) -> Option<&'static Self> {
        Self::named(match row {
            "foundry" => "anthropic",
            "mantle" => "openai",
            name => name,
        })
    }

    /// Returns the rule that a request breaks, with the refusal.
    pub fn refusal(&self, api: Protocol, asked: &Asked<'_>) -> Option<(&'static Rule, Refusal)> {
        let mut broken = broken(self.refuses, api, asked);
        let (rule, message) = broken.next()?;
        let refusal = Refusal {
            status: rule.status,
            kind: "invalid_request_error",
            message,
            code: None,
        };
        Some((rule, refusal))
    }

    /// Returns what is lost with a request that is not refused.
    pub fn losses(&self, api: Protocol, asked: &Asked<'_>) -> Vec<String> {
        broken(self.loses, api, asked)
            .map(|(_, text)| text)
            .collect()
    }
}

/// Returns the rules that a request breaks, each with the text about it.
fn broken<'a>(
    rules: &'static [Rule],
    api: Protocol,
    asked: &'a Asked<'_>,
) -> impl Iterator<Item = (&'static Rule, String)> + use<'a> {
    let rules = rules.iter().filter(move |rule| rule.api == api);
    rules.filter_map(|rule| Some((rule, (rule.check)(asked).err()?)))
}

impl<'a> Asked<'a> {
    /// Returns the name of the requested model.
    pub fn model(&self) -> &'a str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Returns the beta features that the headers name.
    pub fn betas(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let betas = self
            .headers
            .get("anthropic-beta")
            .map_or("", String::as_str);
        betas.split(',').map(str::trim).filter(|it| !it.is_empty())
    }
}

/// Returns what `text` says as nine letters and digits, or as many more as are wanted: the same in every run.
pub(crate) fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:09x}", hash >> 28)
}
