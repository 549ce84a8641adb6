//! `ah proxy`: the sandbox's proxy on a Unix socket, for programs that confine their children in another way.

use std::fs;
use std::io;
use std::path::Path;

use ah_sandbox::Proxy;
use rustix::fs::Mode;
use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::options::Hosts;
use ah_config::Error;

/// Serves until a signal.
///
/// # Errors
///
/// If the socket cannot be created.
pub fn run(socket: &Path, hosts: &Hosts) -> Result<u8, Error> {
    let failed = |error: io::Error| {
        Error::failure(format!("cannot serve on `{}`: {error}", socket.display()))
            .hint("choose a path that does not exist yet")
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(failed)?.block_on(async {
        // Only the owner may connect, from the start.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(socket);
        rustix::process::umask(before);
        let listener = listener?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            () = Proxy::new(hosts.allowlist()).serve_unix(listener) => {}
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        fs::remove_file(socket)
    });
    ended.map_err(failed)?;
    Ok(0)
}
