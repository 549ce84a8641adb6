//! What an ended program has told.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Output};

use ah_conversation::{Evidence, json};
use serde_json::Value;

use super::report::TaskResult;

/// Returns the error that a program tells, or its last line.
pub(super) fn complaint(ended: &Output) -> String {
    let text = String::from_utf8_lossy(&ended.stderr);
    let error = text.lines().find_map(|line| line.strip_prefix("error: "));
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let told = error.or_else(|| lines.next());
    told.map_or_else(|| ended.status.to_string(), str::to_owned)
}

impl TaskResult {
    /// Takes the figures of a run from the result that it has printed. Returns whether a limit ended it.
    pub fn take(&mut self, ended: &Output) -> bool {
        let result: Value = json::from_slice(&ended.stdout).unwrap_or_default();
        self.turns = result["num_turns"].as_u64().unwrap_or(0);
        self.cost = result["total_cost_usd"].as_f64().unwrap_or(0.0);
        let usage = &result["usage"];
        let tokens = |name: &str| usage[name].as_u64().unwrap_or(0);
        let kinds = [
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        self.input_tokens = kinds.map(tokens).iter().sum();
        self.output_tokens = tokens("output_tokens");
        let is_fault = result["is_error"].as_bool().unwrap_or(true);
        let text = result["result"]
            .as_str()
            .or_else(|| result["errors"][0].as_str());
        self.error = is_fault.then(|| text.map_or_else(|| complaint(ended), str::to_owned));
        let known = &result["verification"];
        self.evidence = serde_json::from_value(known["evidence"].clone()).ok();
        self.is_recorded = known["is_replayed"] == true;
        let kind = result["subtype"].as_str().unwrap_or_default();
        kind.starts_with("error_max") || self.evidence == Some(Evidence::Claimed)
    }
}

/// Returns whether somebody has interrupted a program that ended.
pub(super) fn is_interrupted(status: ExitStatus) -> bool {
    const SIGINT: i32 = 2;
    status.code() == Some(128 + SIGINT) || status.signal() == Some(SIGINT)
}
