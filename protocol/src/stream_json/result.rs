//! The `result` message: the last of each prompt, and all that `--output-format json` prints. Pure.

use ah_agent::{RunFailure, RunOutcome};
use ah_conversation::{
    Cost, ExitReason, Message, Model, ModelUsage, Origin, ProviderError, ToolUse, Usage,
    Verification,
};
use serde_json::{Map, Value, json};

use super::api_error::ApiError;
use super::totals::Totals;
use ah_transcript::parts::{five_minutes, tokens};

/// Values that the text of a result needs besides the outcome.
#[derive(Debug, Clone)]
pub(crate) struct Circumstances {
    /// Values of `--max-turns` and `--max-budget-usd`.
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_budget_usd: Option<f64>,
    /// Whether an interrupt came during a model call, not while tools ran.
    pub(crate) while_speaking: bool,
    /// Why there is no structured output, if there should be one.
    pub(crate) no_structure: Option<String>,
    /// Whether a hook ended the run behind tool results.
    pub(crate) stopped_by_hook: bool,
    /// Why the last answer of the run ended, if there is one that was not interrupted.
    pub(crate) stop_reason: Option<String>,
    /// Turns as [`num_turns`] counts them.
    pub(crate) num_turns: usize,
    /// Name of the model that was asked.
    pub(crate) model: String,
}

/// Returns the turns of a run as the original counts them: what the model was told, each result of a tool by itself.
pub(crate) fn num_turns<'a>(run: impl Iterator<Item = &'a Message>, outcome: &RunOutcome) -> usize {
    let told = run.map(|message| match message.origin {
        Origin::Prompt
        | Origin::Steering
        | Origin::FollowUp
        | Origin::Nudge
        | Origin::Continuation
        | Origin::Reminder => 1,
        Origin::Results => message.tool_results().count(),
        Origin::Model | Origin::Task | Origin::Update(_) | Origin::Summary { .. } => 0,
    });
    // An interrupt is told as well. The run before a prompt that was not stored is of another prompt.
    let told = if outcome.turns > 0 { told.sum() } else { 1 };
    told + usize::from(outcome.reason == ExitReason::Interrupted)
}

/// Returns the `result` message without its ids. `describe` looks up a model by provider and name.
pub(crate) fn result(
    outcome: &RunOutcome,
    totals: &Totals,
    circumstances: Circumstances,
    describe: &dyn Fn(&str, &str) -> Model,
) -> Value {
    let num_turns = circumstances.num_turns;
    let ending = Ending::of(outcome, circumstances);
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("type", json!("result"));
    put("subtype", json!(ending.subtype));
    put("is_error", json!(ending.is_error));
    put("duration_ms", json!(outcome.duration_ms));
    put("duration_api_ms", json!(outcome.api_ms));
    put("num_turns", json!(num_turns));
    match ending.errors {
        Some(errors) => put("errors", json!(errors)),
        None => put("result", json!(ending.result)),
    };
    put("stop_reason", json!(ending.stop_reason));
    put("total_cost_usd", json!(totals.cost().map(Cost::usd)));
    // Tools have the server search as well.
    let used = Usage {
        web_search_requests: ModelUsage::total(&outcome.models).web_search_requests,
        ..outcome.usage
    };
    put("usage", all_tokens(&used));
    put("modelUsage", model_usage(&totals.shares, describe));
    let since = model_usage(&outcome.models, describe);
    put("model_usage_since_last_result", since);
    put("fast_mode_state", json!("off"));
    let denials: Vec<_> = outcome.denials.iter().map(denial).collect();
    put("permission_denials", json!(denials));
    if let Some(call) = &outcome.deferred {
        let call = json!({"id": call.id, "name": call.name, "input": call.input});
        put("deferred_tool_use", call);
    }
    if let Some(structured) = &outcome.structured {
        put("structured_output", structured.clone());
    }
    if let Some(verification) = &outcome.verification {
        put("verification", json!(verification));
    }
    put("terminal_reason", json!(ending.terminal_reason));
    if ending.subtype == "success" {
        put("api_error_status", json!(ending.api_error_status));
    }
    if let Some(kind) = ending.api_error_type {
        put("api_error_type", json!(kind));
    }
    Value::Object(object)
}

/// Returns the `result` message where no run could begin.
pub(crate) fn not_begun(text: &str) -> Value {
    json!({
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": true,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "errors": [text],
        "stop_reason": null,
        "total_cost_usd": 0.0,
        "usage": all_tokens(&Usage::default()),
        "modelUsage": {},
        "permission_denials": [],
    })
}

/// Returns the `result` message where no model could be asked; `reason` is why, in our words.
pub(crate) fn not_asked(told: &ApiError, reason: &str) -> Value {
    let mut object = not_begun(reason);
    object["subtype"] = json!("success");
    object["result"] = json!(told.text);
    object["num_turns"] = json!(1);
    object["stop_reason"] = json!("stop_sequence");
    object["terminal_reason"] = json!(told.terminal_reason);
    object["api_error_status"] = json!(null);
    object
}

/// Returns the `result` message of a prompt that the model did not answer: a command, or one that a hook blocked. `used`
/// is what was used for it nevertheless.
pub(crate) fn local(
    text: &str,
    command: Option<&str>,
    used: &[ModelUsage],
    totals: &Totals,
    describe: &dyn Fn(&str, &str) -> Model,
) -> Value {
    let mut object = json!({
        "type": "result",
        "subtype": "success",
        "is_error": false,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "result": text,
        "stop_reason": null,
        "total_cost_usd": totals.cost().map(Cost::usd),
        "usage": all_tokens(&Usage::default()),
        "modelUsage": model_usage(&totals.shares, describe),
        "model_usage_since_last_result": model_usage(used, describe),
        "fast_mode_state": "off",
        "permission_denials": [],
    });
    if let Some(command) = command {
        object["local_command"] = json!(command);
    }
    object
}

/// Returns the token usage of a whole prompt, in which no field of the API is missing.
fn all_tokens(usage: &Usage) -> Value {
    let mut all = tokens(usage);
    all["server_tool_use"] = json!({
        "web_search_requests": usage.web_search_requests,
        "web_fetch_requests": 0,
    });
    all["inference_geo"] = json!("");
    all["iterations"] = json!([]);
    all["speed"] = json!("standard");
    all
}

/// Returns the usage of each model.
pub(super) fn model_usage(shares: &[ModelUsage], describe: &dyn Fn(&str, &str) -> Model) -> Value {
    let shares = shares.iter().map(|share| {
        let model = describe(&share.provider, &share.model);
        let usage = &share.usage;
        let value = json!({
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cacheReadInputTokens": usage.cache_read_input_tokens,
            "cacheCreationInputTokens": usage.cache_creation_input_tokens,
            "webSearchRequests": usage.web_search_requests,
            "costUSD": share.cost.map(Cost::usd),
            "contextWindow": model.context_window,
            "maxOutputTokens": model.max_output,
            "cacheCreationEphemeral5mInputTokens": five_minutes(usage),
            "cacheCreationEphemeral1hInputTokens": usage.cache_creation_1h_input_tokens,
            "canonicalModel": share.model,
            "provider": provider(&share.provider),
            "costBasis": if share.cost.is_some() { "list" } else { "unknown" },
        });
        (share.model.clone(), value)
    });
    Value::Object(shares.collect())
}

/// Returns the SDKs' name of a provider, or ours where they have none.
fn provider(name: &str) -> &str {
    match name {
        "anthropic" => "firstParty",
        other => other,
    }
}

fn denial(call: &ToolUse) -> Value {
    json!({
        "tool_name": call.name,
        "tool_use_id": call.id,
        "tool_input": call.input,
    })
}

/// Returns the SDKs' word for what a run was interrupted in.
fn aborted(while_speaking: bool) -> &'static str {
    if while_speaking {
        "aborted_streaming"
    } else {
        "aborted_tools"
    }
}

/// End of a run in the terms of the SDKs.
struct Ending {
    subtype: &'static str,
    is_error: bool,
    result: String,
    errors: Option<Vec<String>>,
    stop_reason: Option<String>,
    terminal_reason: &'static str,
    api_error_status: Option<u16>,
    api_error_type: Option<String>,
}

impl Ending {
    fn of(outcome: &RunOutcome, circumstances: Circumstances) -> Self {
        if let Some(RunFailure::Provider(error)) = &outcome.failure {
            return Self::api_error(error, &circumstances.model);
        }
        let error = |subtype, terminal_reason, text: String| Self {
            subtype,
            is_error: true,
            result: String::new(),
            errors: Some(vec![text]),
            stop_reason: circumstances.stop_reason.clone(),
            terminal_reason,
            api_error_status: None,
            api_error_type: None,
        };
        let success = |terminal_reason| Self {
            subtype: "success",
            is_error: false,
            result: match &outcome.structured {
                Some(structured) => structured.to_string(),
                None => outcome.answer.clone(),
            },
            errors: None,
            stop_reason: circumstances.stop_reason.clone(),
            terminal_reason,
            api_error_status: None,
            api_error_type: None,
        };
        match &outcome.reason {
            ExitReason::EndTurn if outcome.deferred.is_some() => Self {
                stop_reason: Some("tool_deferred".to_owned()),
                ..success("tool_deferred")
            },
            ExitReason::EndTurn if outcome.stop_prevented => success("stop_hook_prevented"),
            ExitReason::EndTurn if circumstances.stopped_by_hook => success("hook_stopped"),
            ExitReason::EndTurn | ExitReason::StopSequence | ExitReason::Other(_) => {
                success("completed")
            }
            ExitReason::MaxTurns => {
                let turns = circumstances.max_turns.unwrap_or_default();
                let text = format!("Reached maximum number of turns ({turns})");
                error("error_max_turns", "max_turns", text)
            }
            ExitReason::MaxBudget => {
                let budget = circumstances.max_budget_usd.unwrap_or_default();
                error(
                    "error_max_budget_usd",
                    "budget_exhausted",
                    format!("Reached maximum budget (${budget})"),
                )
            }
            ExitReason::Interrupted | ExitReason::Aborted => error(
                "error_during_execution",
                aborted(circumstances.while_speaking),
                "Request interrupted by user".to_owned(),
            ),
            ExitReason::MaxStructuredOutputRetries => Self::without_structure(circumstances),
            ExitReason::CheckFailed => {
                let known = outcome.verification.as_ref().map(Verification::line);
                let text = known.unwrap_or_default();
                error("error_during_execution", "check_failed", text)
            }
            ExitReason::BudgetExceeded
            | ExitReason::MaxTokens
            | ExitReason::Timeout
            | ExitReason::LoopDetected => error(
                "error_during_execution",
                "budget_exhausted",
                format!("the run was stopped: {}", outcome.reason),
            ),
            ExitReason::Refusal | ExitReason::Error => {
                let text = outcome
                    .failure
                    .as_ref()
                    .map_or_else(|| outcome.reason.to_string(), ToString::to_string);
                error("error_during_execution", "completed", text)
            }
        }
    }

    /// A run that should have had a structured output.
    fn without_structure(circumstances: Circumstances) -> Self {
        Self {
            subtype: "error_max_structured_output_retries",
            is_error: true,
            result: String::new(),
            errors: Some(vec![circumstances.no_structure.unwrap_or_default()]),
            stop_reason: circumstances.stop_reason,
            terminal_reason: "structured_output_retry_exhausted",
            api_error_status: None,
            api_error_type: None,
        }
    }

    /// An API error has the subtype `success` with `is_error`, and its text as the result.
    fn api_error(error: &ProviderError, model: &str) -> Self {
        let told = ApiError::of(error, model);
        Self {
            subtype: "success",
            is_error: true,
            result: told.text,
            errors: None,
            stop_reason: Some("stop_sequence".to_owned()),
            terminal_reason: told.terminal_reason,
            api_error_status: error.status,
            api_error_type: error.kind.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::ErrorClass;

    use super::*;

    fn outcome(reason: ExitReason, failure: Option<RunFailure>) -> RunOutcome {
        let usage = Usage {
            input_tokens: 1000,
            output_tokens: 50,
            ..Usage::default()
        };
        let mut outcome = RunOutcome::new(reason);
        outcome.failure = failure;
        outcome.answer = "Done.".to_owned();
        outcome.turns = 2;
        outcome.usage = usage;
        outcome.models = vec![ModelUsage {
            provider: "anthropic".into(),
            model: "claude-x".into(),
            usage,
            cost: Some(Cost(3_750_000_000)),
        }];
        outcome.api_ms = 30;
        outcome.duration_ms = 40;
        outcome.denials = vec![ToolUse {
            id: "toolu_1".into(),
            name: "Bash".into(),
            input: json!({"command": "rm x"}).into(),
        }];
        outcome
    }

    #[test]
    fn searches_of_tools_are_counted() {
        let mut outcome = outcome(ExitReason::EndTurn, None);
        outcome.models[0].usage.web_search_requests = 2;
        let object = shown(&outcome);
        let used = &object["usage"]["server_tool_use"];
        assert_eq!(used["web_search_requests"], 2);
        let of_model = &object["modelUsage"]["claude-x"];
        assert_eq!(of_model["webSearchRequests"], 2);
    }

    fn shown(outcome: &RunOutcome) -> Value {
        let model = Model {
            provider: "anthropic".into(),
            name: "claude-x".into(),
            context_window: 200_000,
            max_output: 16_384,
            price: None,
            long_price: None,
        };
        let circumstances = Circumstances {
            max_turns: Some(3),
            max_budget_usd: Some(0.5),
            while_speaking: true,
            no_structure: None,
            stopped_by_hook: false,
            stop_reason: Some("end_turn".to_owned()),
            num_turns: 3,
            model: "claude-x".to_owned(),
        };
        let mut totals = Totals::default();
        totals.add(outcome);
        result(outcome, &totals, circumstances, &|_, _| model.clone())
    }

    #[test]
    fn a_success_has_all_fields() {
        let object = shown(&outcome(ExitReason::EndTurn, None));
        insta::assert_snapshot!(serde_json::to_string_pretty(&object).unwrap(), @r#"
{
  "type": "result",
  "subtype": "success",
  "is_error": false,
  "duration_ms": 40,
  "duration_api_ms": 30,
  "num_turns": 3,
  "result": "Done.",
  "stop_reason": "end_turn",
  "total_cost_usd": 0.00375,
  "usage": {
    "input_tokens": 1000,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation": {
      "ephemeral_5m_input_tokens": 0,
      "ephemeral_1h_input_tokens": 0
    },
    "output_tokens": 50,
    "service_tier": "standard",
    "server_tool_use": {
      "web_search_requests": 0,
      "web_fetch_requests": 0
    },
    "inference_geo": "",
    "iterations": [],
    "speed": "standard"
  },
  "modelUsage": {
    "claude-x": {
      "inputTokens": 1000,
      "outputTokens": 50,
      "cacheReadInputTokens": 0,
      "cacheCreationInputTokens": 0,
      "webSearchRequests": 0,
      "costUSD": 0.00375,
      "contextWindow": 200000,
      "maxOutputTokens": 16384,
      "cacheCreationEphemeral5mInputTokens": 0,
      "cacheCreationEphemeral1hInputTokens": 0,
      "canonicalModel": "claude-x",
      "provider": "firstParty",
      "costBasis": "list"
    }
  },
  "model_usage_since_last_result": {
    "claude-x": {
      "inputTokens": 1000,
      "outputTokens": 50,
      "cacheReadInputTokens": 0,
      "cacheCreationInputTokens": 0,
      "webSearchRequests": 0,
      "costUSD": 0.00375,
      "contextWindow": 200000,
      "maxOutputTokens": 16384,
      "cacheCreationEphemeral5mInputTokens": 0,
      "cacheCreationEphemeral1hInputTokens": 0,
      "canonicalModel": "claude-x",
      "provider": "firstParty",
      "costBasis": "list"
    }
  },
  "fast_mode_state": "off",
  "permission_denials": [
    {
      "tool_name": "Bash",
      "tool_use_id": "toolu_1",
      "tool_input": {
        "command": "rm x"
      }
    }
  ],
  "terminal_reason": "completed",
  "api_error_status": null
}
"#);
    }

    #[test]
    fn every_other_ending_says_so_in_the_words_of_the_sdk() {
        let refused = ProviderError {
            status: Some(400),
            ..ProviderError::new(ErrorClass::InvalidRequest, "bad")
        };
        let lines: Vec<_> = [
            (ExitReason::MaxTurns, None),
            (ExitReason::MaxBudget, None),
            (ExitReason::BudgetExceeded, None),
            (ExitReason::Interrupted, None),
            (
                ExitReason::Refusal,
                Some(RunFailure::Refusal("no".to_owned())),
            ),
            (ExitReason::Error, Some(RunFailure::Provider(refused))),
            (ExitReason::Other("later".to_owned()), None),
        ]
        .into_iter()
        .map(|(reason, failure)| {
            let object = shown(&outcome(reason, failure));
            let fields = [
                "subtype",
                "is_error",
                "result",
                "errors",
                "stop_reason",
                "terminal_reason",
                "api_error_status",
            ];
            let field = |name: &&str| object.get(*name).map_or("-".to_owned(), Value::to_string);
            fields.iter().map(field).collect::<Vec<_>>().join(" ")
        })
        .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
"error_max_turns" true - ["Reached maximum number of turns (3)"] "end_turn" "max_turns" -
"error_max_budget_usd" true - ["Reached maximum budget ($0.5)"] "end_turn" "budget_exhausted" -
"error_during_execution" true - ["the run was stopped: budget_exceeded"] "end_turn" "budget_exhausted" -
"error_during_execution" true - ["Request interrupted by user"] "end_turn" "aborted_streaming" -
"error_during_execution" true - ["the model refused: no"] "end_turn" "completed" -
"success" true "API Error: 400 bad" - "stop_sequence" "api_error" 400
"success" false "Done." - "end_turn" "completed" null
"#);
    }
}
