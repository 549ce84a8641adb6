//! What the launcher and its parent say to each other over a pair of sockets.
//!
//! One message is one packet: a letter, then text. The parent says nothing; that it is gone is seen by the socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// A file descriptor for each of: the proxy's listener, the user namespace, the network namespace.
const FDS: usize = 3;

/// What the launcher says.
#[derive(Debug)]
pub(crate) enum LauncherMessage {
    /// The network is there: the proxy's listener, and the namespaces for those that come later.
    Network(Vec<OwnedFd>),
    /// The command runs.
    Running,
    /// The command could not be executed: error number and reason.
    NoProgram(String),
    /// The sandbox could not be built.
    Failed(String),
}

impl LauncherMessage {
    /// Sends it.
    pub fn send(&self, to: impl AsFd) -> Result<(), Errno> {
        match self {
            Self::Network(fds) => {
                let fds: Vec<_> = fds.iter().map(OwnedFd::as_fd).collect();
                send(to, b'N', "", &fds)
            }
            Self::Running => send(to, b'R', "", &[]),
            Self::NoProgram(reason) => send(to, b'X', reason, &[]),
            Self::Failed(reason) => send(to, b'F', reason, &[]),
        }
    }

    /// Waits for the next one; none: the launcher has ended.
    pub fn receive(from: impl AsFd) -> Result<Option<Self>, Errno> {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let length = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&from, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                received => break received?.bytes,
            }
        };
        let fds = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<OwnedFd>>(),
            _ => Vec::new(),
        });
        let fds: Vec<_> = fds.collect();
        let text = || String::from_utf8_lossy(&bytes[1..length.max(1)]).into_owned();
        Ok(match bytes[..length].first() {
            None => None,
            Some(b'N') => Some(Self::Network(fds)),
            Some(b'R') => Some(Self::Running),
            Some(b'X') => Some(Self::NoProgram(text())),
            Some(_) => Some(Self::Failed(text())),
        })
    }
}

fn send(to: impl AsFd, letter: u8, text: &str, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let text = &text.as_bytes()[..text.len().min(4000)];
    let letter = [letter];
    let parts = [IoSlice::new(&letter), IoSlice::new(text)];
    sendmsg(to, &parts, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}
