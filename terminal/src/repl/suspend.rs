//! Ctrl-Z and `fg`. In raw mode the terminal sends no signal for Ctrl-Z, and the shell restores its own mode when the
//! program stops, so both ways are the program's to keep right.

use std::sync::mpsc::Sender;

use rustix::process::{Signal, getpgid, getpgrp, getppid, getsid, kill_current_process_group};
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

/// Returns whether a shell with job control has started this program, so that somebody can continue it.
pub fn has_shell() -> bool {
    let Some(parent) = getppid() else {
        return false;
    };
    let is_in_session = getsid(Some(parent)).is_ok_and(|of_parent| getsid(None) == Ok(of_parent));
    is_in_session && getpgid(Some(parent)).is_ok_and(|of_parent| of_parent != getpgrp())
}

/// Stops the process group, as the terminal does at Ctrl-Z.
pub fn stop() {
    // SIGTSTP would come back here.
    let _ = kill_current_process_group(Signal::STOP);
}
