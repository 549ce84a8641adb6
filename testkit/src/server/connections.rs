//! The connections of the server: how many there are, and their end.

use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::Ordering;

use super::Server;

impl Server {
    /// Returns how many connections are open.
    pub fn connected(&self) -> usize {
        self.shared.connections.lock().len()
    }

    /// Returns how many connections were opened.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Closes all connections.
    pub fn close_connections(&self) {
        for connection in self.shared.connections.lock().values() {
            // It may be closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
