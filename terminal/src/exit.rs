//! Exit codes of the program.

use std::io;

use ah_config::{Error, ErrorKind};
use ah_conversation::{ExitReason, Interface};

/// Exit code of a failure that has no code of its own.
pub const FAILURE: u8 = 1;
/// Exit code of a usage error.
const USAGE: u8 = 2;
/// Exit code after standard output was closed by its reader.
pub const OUTPUT_CLOSED: u8 = 141;
/// Exit code if the same may succeed later: another process holds the session.
pub const TRY_AGAIN: u8 = 75;
/// Exit code if a required sandbox cannot be built.
pub const NO_SANDBOX: u8 = 78;
/// Exit code of a run that a limit has stopped.
const LIMIT: u8 = 3;
/// Base of the exit code after a signal, whose number is added.
const SIGNAL: u8 = 128;

/// Signal that ended the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C.
    Interrupt,
    /// SIGHUP: the terminal was closed.
    Hangup,
    /// SIGTERM.
    Terminate,
    /// SIGQUIT: Ctrl-\ at a terminal.
    Quit,
}

/// Returns the exit code of a run that ended for `reason`.
pub fn code(interface: Interface, reason: &ExitReason, interrupt: Option<Interrupt>) -> u8 {
    let own = match (reason, interrupt) {
        (ExitReason::Interrupted | ExitReason::Aborted, Some(interrupt)) => match interrupt {
            Interrupt::Hangup => SIGNAL + 1,
            // Hosts of the Agent SDK interrupt an agent so, and expect success.
            Interrupt::Interrupt if !interface.has_own_exit_codes() => return 0,
            Interrupt::Interrupt => SIGNAL + 2,
            Interrupt::Quit => SIGNAL + 3,
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
            | ExitReason::CheckFailed
            | ExitReason::MaxStructuredOutputRetries,
            _,
        ) => LIMIT,
        (ExitReason::Refusal | ExitReason::Error | ExitReason::Aborted, _) => FAILURE,
    };
    match own {
        LIMIT if !interface.has_own_exit_codes() => FAILURE,
        own => own,
    }
}

/// Returns the exit code of an error. Programs that speak the Agent SDKs' protocol know no code of its own for usage
/// errors.
pub fn of_error(error: &Error, interface: Interface) -> u8 {
    match error.kind {
        ErrorKind::Usage if interface.has_own_exit_codes() => USAGE,
        ErrorKind::SessionBusy => TRY_AGAIN,
        ErrorKind::SandboxUnavailable => NO_SANDBOX,
        ErrorKind::OutputClosed => OUTPUT_CLOSED,
        _ => FAILURE,
    }
}

/// Returns the error of an output that cannot be written. A closed output is no error to report.
pub fn output_error(error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Error::new(ErrorKind::OutputClosed, "");
    }
    Error::failure(format!("cannot write to standard output: {error}"))
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
            (ExitReason::CheckFailed, None, 3, 1),
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
