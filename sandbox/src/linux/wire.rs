//! Messages between a launcher or a session and its parent, over a socket pair.
//!
//! Each packet is one message: a letter, then text, with file descriptors. The parent sends the plan, the layout and the
//! order, with any time between them; all else comes from the launcher and the processes inside. Each notices the end of the
//! other by the closed socket.

use std::fs::File;
use std::io::{
    self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read as _, Seek as _, Write as _,
};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use serde::Serialize;

use crate::access::Tier;
use crate::command::Streams;
use crate::plan::{Layout, Order, Plan};

/// Largest number of file descriptors in a message: those of an order, and of a session.
const FDS: usize = 5;
/// Largest text of a message, in bytes.
const TEXT: usize = 4000;

/// Message of the parent.
#[derive(Debug)]
pub(crate) enum ParentMessage {
    /// The first one to a session: the layers that it is to have.
    Session(Tier),
    /// To a session: a command joins it, whose first process tells its number by the first pipe. The second one
    /// gets a byte when nothing of the command is left.
    Command(PipeReader, PipeWriter),
    /// The first one to a launcher: what is known before the command. With the session to join, if the tier has them.
    Plan(Plan, Option<Namespaces>),
    /// What the command may reach, whether its file changes are to be recorded, and whether there is no command yet.
    Layout(Layout, bool, bool),
    /// The command with its standard streams.
    Order(Box<Order>, Streams),
}

/// The namespaces of a session, for a launcher to join.
#[derive(Debug)]
pub(crate) struct Namespaces {
    pub user: OwnedFd,
    pub network: OwnedFd,
    pub processes: OwnedFd,
    /// Receives the number that the first process of the command has in the session.
    pub number: PipeWriter,
}

/// Message of the launcher.
#[derive(Debug)]
pub(crate) enum LauncherMessage {
    /// The session exists: the proxy's listener, the namespaces of users, network and processes, and the first process.
    Session(Vec<OwnedFd>),
    /// The listener for calls that may change files.
    Changes(OwnedFd),
    /// The project has changed since the layout was drawn, with the details: the command was not started.
    Stale(String),
    /// The command is running.
    Running,
    /// The command has ended with this wait status, and nothing that it started is left.
    Ended(i32),
    /// The command could not be executed, with the reason.
    NoProgram(String),
    /// The sandbox could not be set up.
    Failed(String),
}

/// A packet as received.
struct Packet {
    letter: u8,
    text: String,
    fds: Vec<OwnedFd>,
}

impl ParentMessage {
    /// Sends the message.
    pub fn send(&self, to: impl AsFd) -> io::Result<()> {
        match self {
            Self::Session(tier) => send(to, b'S', &serde_json::to_string(tier)?, &[])?,
            Self::Command(number, gone) => send(to, b'C', "", &[number.as_fd(), gone.as_fd()])?,
            Self::Plan(plan, namespaces) => {
                let fds = namespaces.as_ref().map(Namespaces::fds);
                let fds = fds.as_ref().map_or(&[][..], |fds| fds);
                send(to, b'P', &serde_json::to_string(plan)?, fds)?;
            }
            Self::Layout(layout, is_recorded, is_ahead) => {
                let file = file_of(&(layout, is_recorded, is_ahead))?;
                send(to, b'L', "", &[file.as_fd()])?;
            }
            Self::Order(order, streams) => {
                let file = file_of(order)?;
                let Streams {
                    stdin,
                    stdout,
                    stderr,
                } = streams;
                let fds = [file.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
                send(to, b'O', "", &fds)?;
            }
        }
        Ok(())
    }

    /// Receives the next message; `None` if the parent has closed the socket.
    pub fn receive(from: impl AsFd) -> io::Result<Option<Self>> {
        let Some(Packet { letter, text, fds }) = Packet::receive(from)? else {
            return Ok(None);
        };
        let missing = || io::Error::other("a message without its files");
        let mut fds = fds.into_iter();
        match letter {
            b'S' => return Ok(Some(Self::Session(serde_json::from_str(&text)?))),
            b'C' => {
                let number = fds.next().ok_or_else(missing)?;
                let gone = fds.next().ok_or_else(missing)?;
                return Ok(Some(Self::Command(number.into(), gone.into())));
            }
            b'P' => {
                let namespaces = Namespaces::of(fds);
                return Ok(Some(Self::Plan(serde_json::from_str(&text)?, namespaces)));
            }
            _ => {}
        }
        let mut json = Vec::new();
        File::from(fds.next().ok_or_else(missing)?).read_to_end(&mut json)?;
        if letter == b'L' {
            let (layout, is_recorded, is_ahead) = serde_json::from_slice(&json)?;
            return Ok(Some(Self::Layout(layout, is_recorded, is_ahead)));
        }
        let (Some(stdin), Some(stdout), Some(stderr)) = (fds.next(), fds.next(), fds.next()) else {
            return Err(missing());
        };
        let streams = Streams {
            stdin,
            stdout,
            stderr,
        };
        Ok(Some(Self::Order(serde_json::from_slice(&json)?, streams)))
    }
}

impl Namespaces {
    fn fds(&self) -> [BorrowedFd<'_>; 4] {
        [
            self.user.as_fd(),
            self.network.as_fd(),
            self.processes.as_fd(),
            self.number.as_fd(),
        ]
    }

    fn of(mut fds: impl Iterator<Item = OwnedFd>) -> Option<Self> {
        Some(Self {
            user: fds.next()?,
            network: fds.next()?,
            processes: fds.next()?,
            number: fds.next()?.into(),
        })
    }
}

impl LauncherMessage {
    /// Sends the message.
    pub fn send(&self, to: impl AsFd) -> Result<(), Errno> {
        match self {
            Self::Session(fds) => {
                let fds: Vec<_> = fds.iter().map(OwnedFd::as_fd).collect();
                send(to, b'N', "", &fds)
            }
            Self::Changes(listener) => send(to, b'C', "", &[listener.as_fd()]),
            Self::Stale(path) => send(to, b'S', path, &[]),
            Self::Running => send(to, b'R', "", &[]),
            Self::Ended(status) => send(to, b'E', &status.to_string(), &[]),
            Self::NoProgram(reason) => send(to, b'X', reason, &[]),
            Self::Failed(reason) => send(to, b'F', reason, &[]),
        }
    }

    /// Receives the next message; `None` if the launcher has exited.
    pub fn receive(from: impl AsFd) -> Result<Option<Self>, Errno> {
        let packet = Packet::receive(from)?;
        Ok(packet.map(|mut packet| match packet.letter {
            b'N' => Self::Session(packet.fds),
            b'C' if !packet.fds.is_empty() => Self::Changes(packet.fds.remove(0)),
            b'S' => Self::Stale(packet.text),
            b'R' => Self::Running,
            b'E' if let Ok(status) = packet.text.parse() => Self::Ended(status),
            b'X' => Self::NoProgram(packet.text),
            _ => Self::Failed(packet.text),
        }))
    }
}

impl Packet {
    fn receive(from: impl AsFd) -> Result<Option<Self>, Errno> {
        let mut bytes = [0; TEXT + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let length = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&from, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                // The other side has ended without reading all. What it has sent before comes next, and then its end.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                received => break received?.bytes,
            }
        };
        let fds = ancillary
            .drain()
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<OwnedFd>>(),
                _ => Vec::new(),
            })
            .collect();
        let packet = bytes[..length].split_first();
        Ok(packet.map(|(letter, text)| Self {
            letter: *letter,
            text: String::from_utf8_lossy(text).into_owned(),
            fds,
        }))
    }
}

/// Returns a file with the JSON of what is longer than a packet may be.
fn file_of(value: &impl Serialize) -> io::Result<File> {
    let mut file = File::from(memfd_create("message", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(value)?)?;
    file.rewind()?;
    Ok(file)
}

fn send(to: impl AsFd, letter: u8, text: &str, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let text = &text.as_bytes()[..text.len().min(TEXT)];
    let letter = [letter];
    let parts = [IoSlice::new(&letter), IoSlice::new(text)];
    sendmsg(to, &parts, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}
