//! From how a run ended to the exit code of the program.

use ah_conversation::ExitReason;

use crate::args::Manner;

const ENDED: u8 = 0;
const FAILED: u8 = 1;
const LIMITED: u8 = 3;
const INTERRUPTED: u8 = 130;

/// The exit code of a run that ended for `reason`; `signal` is the code that a signal asked for.
pub fn code(reason: &ExitReason, signal: Option<u8>, manner: Manner) -> u8 {
    let own = match reason {
        ExitReason::EndTurn | ExitReason::StopSequence | ExitReason::Other(_) => ENDED,
        ExitReason::MaxTurns
        | ExitReason::MaxBudget
        | ExitReason::BudgetExceeded
        | ExitReason::MaxTokens
        | ExitReason::Timeout
        | ExitReason::LoopDetected => LIMITED,
        ExitReason::Interrupted => signal.unwrap_or(INTERRUPTED),
        ExitReason::Aborted | ExitReason::Refusal | ExitReason::Error => FAILED,
    };
    match manner {
        Manner::Own => own,
        // Programs that start another agent know 0, 1 and the signals of a supervisor; Ctrl-C is a clean end to them.
        Manner::DropIn => match own {
            ENDED | INTERRUPTED => ENDED,
            code if signal == Some(code) => code,
            _ => FAILED,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_code_in_each_manner() {
        for (reason, signal, own, drop_in) in [
            (ExitReason::EndTurn, None, 0, 0),
            (ExitReason::StopSequence, None, 0, 0),
            (ExitReason::Other("new".to_owned()), None, 0, 0),
            (ExitReason::MaxTurns, None, 3, 1),
            (ExitReason::MaxBudget, None, 3, 1),
            (ExitReason::BudgetExceeded, None, 3, 1),
            (ExitReason::MaxTokens, None, 3, 1),
            (ExitReason::Timeout, None, 3, 1),
            (ExitReason::LoopDetected, None, 3, 1),
            (ExitReason::Refusal, None, 1, 1),
            (ExitReason::Error, None, 1, 1),
            (ExitReason::Interrupted, Some(130), 130, 0),
            (ExitReason::Interrupted, Some(143), 143, 143),
            (ExitReason::Interrupted, Some(129), 129, 129),
        ] {
            assert_eq!(code(&reason, signal, Manner::Own), own, "{reason}, own");
            assert_eq!(code(&reason, signal, Manner::DropIn), drop_in, "{reason}, drop-in");
        }
    }
}
