//! Messages from the launcher to its parent, over a socket pair.
//!
//! Each packet is one message: a letter, then text. The parent sends nothing; the launcher notices its end by the
//! closed socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Number of file descriptors in a message: proxy listener, user namespace, network namespace.
const FDS: usize = 3;

/// Message of the launcher.
#[derive(Debug)]
pub(crate) enum LauncherMessage {
    /// The network exists: the proxy's listener, and the namespaces for later commands to join.
    Network(Vec<OwnedFd>),
    /// The command is running.
    Running,
    /// The command could not be executed, with the reason.
    NoProgram(String),
    /// The sandbox could not be set up.
    Failed(String),
}

impl LauncherMessage {
    /// Sends the message.
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

    /// Receives the next message; `None` if the launcher has exited.
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
        let fds: Vec<_> = ancillary
            .drain()
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<OwnedFd>>(),
                _ => Vec::new(),
            })
            .collect();
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
