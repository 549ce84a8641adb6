//! Thread that serves a proxy.

use std::io;
use std::net::TcpListener;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::Proxy;

/// Serves the proxy on its own thread until the returned sender is dropped. Commands are started from many threads, and
/// the caller's runtime may be blocked.
pub(crate) fn serve(listener: TcpListener, proxy: Proxy) -> io::Result<oneshot::Sender<()>> {
    listener.set_nonblocking(true)?;
    let (end, ended) = oneshot::channel();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("proxy".into()).spawn(move || {
        runtime.block_on(async {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                return;
            };
            tokio::select! {
                () = proxy.serve_tcp(listener) => {}
                _ = ended => {}
            }
        });
        // Do not wait for an answer that cannot come.
        runtime.shutdown_background();
    })?;
    Ok(end)
}
