//! What the log of an agent says about its end: whether the model could be asked at all. That is no fault of the issue.
//! Pure.

use ah_conversation::{Verification, json};
use serde_json::Value;

/// Classes of failed requests that depend on what is asked, not on the provider.
const OF_THE_REQUEST: [&str; 2] = ["invalid_request", "context_too_long"];

/// Returns why the model could not be asked, if that ended the agent. `log` is the end of its output: events as JSON
/// lines, mixed with lines for people; `is_whole` tells whether nothing is missing before it.
pub fn fault(log: &str, is_whole: bool) -> Option<String> {
    if let Some(end) = log.lines().rev().find_map(|line| event(line, "agent_end")) {
        let class = end["error_class"].as_str()?;
        let is_ours = !OF_THE_REQUEST.contains(&class);
        return is_ours.then(|| end["error"].as_str().unwrap_or(class).to_owned());
    }
    let has_started = log.lines().any(|line| event(line, "agent_start").is_some());
    if has_started || !is_whole {
        return None;
    }
    // Without an event, it has not begun: a key is missing, or a setting is wrong.
    let error = log.lines().find_map(|line| line.strip_prefix("error: "));
    error.map(str::to_owned)
}

/// Returns what the check of an agent has shown at its end. `log` is the end of its output.
pub fn verification(log: &str) -> Option<Verification> {
    let mut checked = log.lines().rev().filter_map(|line| event(line, "checked"));
    let last = checked.next().filter(|checked| checked["is_last"] == true);
    serde_json::from_value(last?).ok()
}

/// Returns the event on a line, if it is of this kind.
fn event(line: &str, kind: &str) -> Option<Value> {
    let value: Value = json::from_str(line).ok()?;
    (value["event_type"] == kind).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_check_tells_how_it_stands() {
        let checked = |evidence: &str, is_last: bool| {
            format!(
                "{{\"event_type\": \"checked\", \"command\": \"make\", \"evidence\": \"{evidence}\", \"checks\": 1, \"left\": 9, \
                 \"duration_ms\": 2149, \"is_last\": {is_last}}}\nnotice\n"
            )
        };
        let claimed = checked("claimed", false);
        for (log, expected) in [
            (
                claimed.clone() + &checked("verified", true),
                Some("verified"),
            ),
            (claimed, None),
            (String::new(), None),
        ] {
            let word = verification(&log).map(|it| it.evidence.word());
            assert_eq!(word, expected, "{log}");
        }
    }

    #[test]
    fn a_model_that_cannot_be_asked_is_told_from_an_agent_that_failed() {
        let start = r#"{"event_type": "agent_start", "model": "m"}"#;
        let end = |fields: &str| {
            format!("{start}\nnotice\n{{\"event_type\": \"agent_end\"{fields}}}\nerror: x\n")
        };
        let refused = r#", "error": "API error 401", "error_class": "authentication""#;
        for (log, is_whole, expected) in [
            (end(refused), true, Some("API error 401")),
            (end(refused), false, Some("API error 401")),
            (end(r#", "error_class": "network""#), true, Some("network")),
            (end(r#", "error": "no file""#), true, None),
            (
                end(r#", "error": "400", "error_class": "invalid_request""#),
                true,
                None,
            ),
            (end(""), true, None),
            (start.to_owned(), true, None),
            (
                "warning: w\nerror: no API key\nhint: set it\n".to_owned(),
                true,
                Some("no API key"),
            ),
            ("error: no API key\n".to_owned(), false, None),
            (String::new(), true, None),
        ] {
            assert_eq!(fault(&log, is_whole).as_deref(), expected, "{log}");
        }
    }
}
