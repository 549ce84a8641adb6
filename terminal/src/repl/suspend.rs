//! Ctrl-Z and `fg`. In raw mode the terminal sends no signal for Ctrl-Z, and the shell restores its own mode when the
//! program stops, so both ways are the program's to keep right.

use std::sync::mpsc::Sender;

use rustix::process::{Signal, getppid, kill_current_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::input::Input;

/// Sends the terminal the signals to stop and to continue, which others may send as well.
pub async fn watch(inputs: Sender<Input>) {
    let stops = signal(SignalKind::from_raw(Signal::TSTP.as_raw()));
    let continues = signal(SignalKind::from_raw(Signal::CONT.as_raw()));
    let (Ok(mut stops), Ok(mut continues)) = (stops, continues) else {
        return;
    };
    loop {
        let input = tokio::select! {
            Some(()) = stops.recv() => Input::Suspend,
            Some(()) = continues.recv() => Input::Continued,
            else => return,
        };
        if inputs.send(input).is_err() {
            return;
        }
    }
}

/// Returns whether a shell with job control has started this program, so that somebody can continue it: its parent is in
/// the same session, and in another process group. Where there is no `/proc`, any parent but the first process counts.
pub fn has_shell() -> bool {
    let Some(parent) = getppid() else {
        return false;
    };
    match (
        group_and_session("self"),
        group_and_session(&parent.to_string()),
    ) {
        (Some((group, session)), Some((of_parent, its_session))) => {
            session == its_session && group != of_parent
        }
        _ => !parent.is_init(),
    }
}

/// Returns the process group and the session of a process. In a container those of its parent may be outside, and 0, which
/// the library's functions do not expect.
fn group_and_session(process: &str) -> Option<(i32, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may have anything in it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Stops the process group, as the terminal does at Ctrl-Z.
pub fn stop() {
    // SIGTSTP would come back here.
    let _ = kill_current_process_group(Signal::STOP);
}
