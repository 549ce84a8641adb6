//! Exit codes: why a run ended, as the program that started us learns it.

use crate::error::FAILURE;
use ah_conversation::{ExitReason, Interface};

/// Stopped by a limit.
const LIMIT: u8 = 3;
/// Ended by a signal: this and the signal's number.
const SIGNAL: u8 = 128;

/// What ended the run from outside, where something did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C.
    Interrupt,
    /// The terminal has gone.
    Hangup,
    /// Whoever rules the machine wants us gone.
    Terminate,
}

/// The exit code of a run that ended for `reason`.
pub fn code(interface: Interface, reason: &ExitReason, interrupt: Option<Interrupt>) -> u8 {
    let own = match (reason, interrupt) {
        (ExitReason::Interrupted | ExitReason::Aborted, Some(interrupt)) => match interrupt {
            Interrupt::Hangup => SIGNAL + 1,
            // Programs that start another agent stop it so, and take it for a clean end.
            Interrupt::Interrupt if interface == Interface::AgentSdk => return 0,
            Interrupt::Interrupt => SIGNAL + 2,
            Interrupt::Terminate => SIGNAL + 15,
        },
        (ExitReason::Interrupted, None) => SIGNAL + 2,
        (ExitReason::EndTurn | ExitReason::StopSequence | ExitReason::Other(_), _) => 0,
        (
            ExitReason::MaxTurns
            | ExitReason::MaxBudget
            | ExitReason::BudgetExceeded
            | ExitReason::MaxTokens
            | ExitReason::Timeout
            | ExitReason::LoopDetected
            | ExitReason::MaxStructuredOutputRetries,
            _,
        ) => LIMIT,
        (ExitReason::Refusal | ExitReason::Error | ExitReason::Aborted, _) => FAILURE,
    };
    match interface {
        Interface::AgentSdk if own == LIMIT => FAILURE,
        Interface::Native | Interface::AgentSdk => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_has_its_code() {
        use Interrupt::{Hangup, Interrupt as Int, Terminate};
        for (reason, interrupt, own, drop_in) in [
            (ExitReason::EndTurn, None, 0, 0),
            (ExitReason::EndTurn, Some(Int), 0, 0),
            (ExitReason::Other("later".to_owned()), None, 0, 0),
            (ExitReason::MaxTurns, None, 3, 1),
            (ExitReason::MaxBudget, None, 3, 1),
            (ExitReason::Timeout, None, 3, 1),
            (ExitReason::LoopDetected, None, 3, 1),
            (ExitReason::MaxStructuredOutputRetries, None, 3, 1),
            (ExitReason::MaxTokens, None, 3, 1),
            (ExitReason::Error, None, 1, 1),
            (ExitReason::Refusal, None, 1, 1),
            (ExitReason::Interrupted, Some(Int), 130, 0),
            (ExitReason::Interrupted, Some(Hangup), 129, 129),
            (ExitReason::Interrupted, Some(Terminate), 143, 143),
        ] {
            assert_eq!(
                code(Interface::Native, &reason, interrupt),
                own,
                "{reason} {interrupt:?}"
            );
            assert_eq!(
                code(Interface::AgentSdk, &reason, interrupt),
                drop_in,
                "{reason} {interrupt:?}"
            );
        }
    }
}
