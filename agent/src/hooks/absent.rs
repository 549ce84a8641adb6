//! What an event does when a hook has not answered it: the one place that decides. Pure.
//!
//! A hook that may refuse something and cannot be asked has not allowed it. `docs/hooks.md` has the same as a table.

use ah_conversation::Behavior;

use super::{HookDecision, HookEvent, HookFailure, HookVerdict, OnFailure};

/// What becomes of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consequence {
    /// It goes on as without the hook.
    Passes,
    /// The call needs the consent of whoever is asked for permission; where nobody is, it is denied.
    Asks,
    /// It is refused.
    Refused,
    /// It is refused, and the run fails, since each further question would end alike.
    Ended,
}

fn consequence(
    event: HookEvent,
    failure: &HookFailure,
    on_failure: Option<OnFailure>,
) -> Consequence {
    if event.continues_if_blocked() {
        return Consequence::Passes;
    }
    match (failure, on_failure) {
        (HookFailure::Over(_), _) if event == HookEvent::PreToolUse => Consequence::Ended,
        (HookFailure::Over(_), _) if event.guards() => Consequence::Refused,
        (_, Some(OnFailure::Block)) => Consequence::Refused,
        (HookFailure::Reported(_), _) | (HookFailure::NoAnswer(_), Some(OnFailure::Continue)) => {
            Consequence::Passes
        }
        _ if event == HookEvent::PreToolUse => Consequence::Asks,
        _ if event.guards() => Consequence::Refused,
        _ => Consequence::Passes,
    }
}

/// Returns what the failure of a hook means for the event; `hook` says which it is.
pub(super) fn verdict(
    event: HookEvent,
    failure: &HookFailure,
    on_failure: Option<OnFailure>,
    hook: &str,
) -> HookVerdict {
    let reason = match failure {
        HookFailure::Unclear(_) => format!("what the {hook} decided cannot be read"),
        HookFailure::Over(fault) => {
            format!("the {hook} cannot be asked: {fault}")
        }
        HookFailure::Reported(fault) | HookFailure::NoAnswer(fault) => {
            format!("the {hook} failed: {fault}")
        }
    };
    match consequence(event, failure, on_failure) {
        Consequence::Passes => HookVerdict::default(),
        Consequence::Asks => HookVerdict {
            decision: Some(HookDecision {
                behavior: Behavior::Ask,
                reason,
            }),
            ..HookVerdict::default()
        },
        Consequence::Refused => HookVerdict::blocked(event, reason),
        Consequence::Ended => HookVerdict {
            over: Some(reason.clone()),
            ..HookVerdict::blocked(event, reason)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `docs/hooks.md`.
    #[test]
    fn no_failure_before_a_tool_means_yes() {
        use Consequence::{Asks, Ended, Passes, Refused};
        let failures = [
            HookFailure::NoAnswer(String::new()),
            HookFailure::Unclear(String::new()),
            HookFailure::Over(String::new()),
        ];
        for event in HookEvent::ALL {
            let expected = match event {
                HookEvent::PreToolUse => [Asks, Asks, Ended],
                event if event.guards() => [Refused; 3],
                _ => [Passes; 3],
            };
            let found = failures
                .each_ref()
                .map(|failure| consequence(event, failure, None));
            assert_eq!(found, expected, "{event:?}");
        }
    }

    #[test]
    fn what_was_wished_for_failures_counts() {
        use Consequence::{Asks, Ended, Passes, Refused};
        use HookEvent::{PostToolUse, PreToolUse, Stop, UserPromptSubmit};
        let no_answer = || HookFailure::NoAnswer(String::new());
        let unclear = || HookFailure::Unclear(String::new());
        let over = || HookFailure::Over(String::new());
        let reported = || HookFailure::Reported(String::new());
        let (block, go_on) = (Some(OnFailure::Block), Some(OnFailure::Continue));
        for (event, failure, wish, expected) in [
            (PreToolUse, no_answer(), block, Refused),
            (PreToolUse, no_answer(), go_on, Passes),
            (PreToolUse, unclear(), block, Refused),
            // There was an answer, which may have been no.
            (PreToolUse, unclear(), go_on, Asks),
            (PreToolUse, over(), go_on, Ended),
            (PreToolUse, over(), block, Ended),
            // In the protocol of the SDKs such a hook has no say unless it is to block.
            (PreToolUse, reported(), None, Passes),
            (PreToolUse, reported(), block, Refused),
            (UserPromptSubmit, no_answer(), go_on, Passes),
            (UserPromptSubmit, over(), go_on, Refused),
            (UserPromptSubmit, reported(), None, Passes),
            (PostToolUse, no_answer(), block, Refused),
            (PostToolUse, over(), None, Passes),
            // A block would keep the run going.
            (Stop, no_answer(), block, Passes),
            (Stop, over(), block, Passes),
        ] {
            let found = consequence(event, &failure, wish);
            assert_eq!(found, expected, "{event:?} {failure:?} {wish:?}");
        }
    }
}
