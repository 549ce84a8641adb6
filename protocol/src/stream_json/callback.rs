//! Hooks that run in the host: each is a callback, called over the link.

use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{
    Hook, HookAnswer, HookEvent, HookFailure, HookReply, Matcher, MatcherError, OnFailure,
};
use ah_conversation::{Rule, ToolUseId};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::link::{Link, Unanswered};

/// Default time limit of a callback.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Events of the SDKs that tell of what never happens here, so that hooks for them are never missed. Hooks for an event
/// that could decide about something are named in a warning instead.
const NEVER_HAPPEN: [&str; 9] = [
    "PostModelSwitch",
    "ConfigChange",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "WorktreeCreate",
    "WorktreeRemove",
    "MessageDisplay",
];

/// The hooks of a host, and the faults of those that are left out.
type Callbacks = (Vec<Arc<dyn Hook>>, Vec<String>);

/// Returns the callbacks that the host registered, in order, and a warning for each invalid entry.
pub(crate) fn callbacks(
    hooks: &Map<String, Value>,
    link: &Arc<Link>,
) -> Result<Callbacks, MatcherError> {
    let (mut callbacks, mut faults) = (Vec::<Arc<dyn Hook>>::new(), Vec::new());
    let may_happen = |name: &String| !NEVER_HAPPEN.contains(&name.as_str());
    for (name, matchers) in hooks.iter().filter(|(name, _)| may_happen(name)) {
        let event = name.parse::<HookEvent>();
        let matchers =
            Vec::<MatcherEntry>::deserialize(matchers).map_err(|error| error.to_string());
        let (event, matchers) = match (event, matchers) {
            (Ok(event), Ok(matchers)) => (event, matchers),
            (Err(fault), _) | (_, Err(fault)) => {
                faults.push(format!("the hooks of `{name}` are ignored: {fault}"));
                continue;
            }
        };
        for entry in matchers {
            let matcher = Matcher::new(entry.matcher.as_deref())?;
            let seconds = entry.timeout.map(Duration::try_from_secs_f64);
            let timeout = seconds.and_then(Result::ok).unwrap_or(TIMEOUT);
            for id in entry.hook_callback_ids {
                callbacks.push(Arc::new(Callback {
                    event,
                    matcher: matcher.clone(),
                    id,
                    timeout,
                    on_failure: entry.on_failure.as_deref().map(OnFailure::of_word),
                    link: link.clone(),
                }));
            }
        }
    }
    Ok((callbacks, faults))
}

/// Entry of a hook event, as hosts send it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MatcherEntry {
    matcher: Option<String>,
    #[serde(default)]
    hook_callback_ids: Vec<String>,
    timeout: Option<f64>,
    on_failure: Option<String>,
}

struct Callback {
    event: HookEvent,
    matcher: Matcher,
    id: String,
    timeout: Duration,
    on_failure: Option<OnFailure>,
    link: Arc<Link>,
}

#[async_trait]
impl Hook for Callback {
    fn event(&self) -> HookEvent {
        self.event
    }

    fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    fn name(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> &'static str {
        "hook callback"
    }

    fn condition(&self) -> Option<&Rule> {
        None
    }

    fn on_failure(&self) -> Option<OnFailure> {
        self.on_failure
    }

    async fn ask(&self, input: &Value, call: Option<&ToolUseId>) -> HookAnswer {
        self.reply(input, call).await.into()
    }
}

impl Callback {
    async fn reply(&self, input: &Value, call: Option<&ToolUseId>) -> HookReply {
        let call = call.map_or_else(|| self.link.ids.fresh(), ToString::to_string);
        let question = self.link.ask(json!({
            "subtype": "hook_callback",
            "callback_id": self.id,
            "input": input,
            "tool_use_id": call,
        }));
        match tokio::time::timeout(self.timeout, question).await {
            Ok(Ok(Value::Object(said))) if said.is_empty() => HookReply::Nothing,
            Ok(Ok(Value::Object(said))) => HookReply::Object(said),
            Ok(Ok(Value::Null)) => HookReply::Nothing,
            Ok(Ok(other)) => HookReply::Failed(HookFailure::Unclear(format!(
                "its answer is {}, not an object",
                kind(&other)
            ))),
            Ok(Err(Unanswered::Fault(fault))) => HookReply::Failed(HookFailure::Reported(fault)),
            Ok(Err(over)) => HookReply::Failed(HookFailure::Over(over.to_string())),
            Err(_) => {
                let seconds = self.timeout.as_secs_f64();
                HookReply::no_answer(format!("it timed out after {seconds} s"))
            }
        }
    }
}

/// Returns what a value is in JSON.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
