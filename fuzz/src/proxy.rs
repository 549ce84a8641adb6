//! Requests to the proxy, the only way out of the sandbox.

use ah_sandbox::{Allowlist, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;

/// With an empty allowlist, every request is refused.
pub fn run(bytes: &[u8]) {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("creating a runtime without I/O");
    let answer = runtime.block_on(async {
        // Room for all bytes, so that neither side waits for the other.
        let (mut client, proxy) = tokio::io::duplex(bytes.len() + 64 * 1024);
        let nothing = Proxy::new(Allowlist::default());
        let served = nothing.serve(proxy);
        let asked = async {
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let mut answer = Vec::new();
            let _ = client.read_to_end(&mut answer).await;
            answer
        };
        tokio::join!(served, asked).1
    });
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
}
