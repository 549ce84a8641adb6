//! The session of a sandbox, as the agent sees it: what all its commands share, so that they can reach each other's servers
//! and end each other's processes.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;

use super::waiting::{Gone, LauncherProcess, Membership, on_lasting_thread};
use super::wire::{LauncherMessage, Namespaces, ParentMessage};
use crate::access::Tier;
use crate::command::SetupError;
use crate::proxy::Proxy;
use crate::proxy::thread::serve;

/// Namespaces of users, network and processes with a first process in them. When dropped, it ends, and the kernel ends all
/// other processes in them.
pub(super) struct Session {
    process: LauncherProcess,
    user: OwnedFd,
    network: OwnedFd,
    processes: OwnedFd,
    /// Its first process.
    first: OwnedFd,
    /// Stops the proxy when dropped.
    _proxy: oneshot::Sender<()>,
}

impl Session {
    /// Makes a session in which `proxy` is served. `program` and `workspace` are those of its process.
    pub fn start(
        program: PathBuf,
        workspace: PathBuf,
        tier: Tier,
        proxy: Proxy,
    ) -> Result<Self, SetupError> {
        let start = move || LauncherProcess::start(&program, &workspace, true);
        let process = on_lasting_thread(start).map_err(SetupError::of)?;
        let message = ParentMessage::Session(tier);
        message.send(process.link()).map_err(SetupError::of)?;
        let fds = match LauncherMessage::receive(process.link()).map_err(SetupError::of)? {
            Some(LauncherMessage::Session(fds)) => fds,
            Some(LauncherMessage::Failed(reason)) => return Err(SetupError::Sandbox(reason)),
            _ => return Err(SetupError::of("the launcher exited unexpectedly")),
        };
        let [listener, user, network, processes, first] = <[OwnedFd; 5]>::try_from(fds)
            .map_err(|_| SetupError::of("the launcher sent no namespaces"))?;
        Ok(Self {
            process,
            user,
            network,
            processes,
            first,
            _proxy: serve(listener.into(), proxy).map_err(SetupError::of)?,
        })
    }

    /// Returns whether its first process is still there.
    pub fn is_alive(&self) -> bool {
        let mut polled = [PollFd::new(self.process.link(), PollFlags::empty())];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(0))
    }

    /// Adds a command, which need not be started.
    pub fn admit(&self) -> io::Result<Membership> {
        let (told, number) = io::pipe()?;
        let (gone, left) = io::pipe()?;
        ParentMessage::Command(told, left).send(self.process.link())?;
        Ok(Membership {
            namespaces: Namespaces {
                user: self.user.try_clone()?,
                network: self.network.try_clone()?,
                processes: self.processes.try_clone()?,
                number,
            },
            gone: Gone {
                told: gone,
                first: self.first.try_clone()?,
            },
        })
    }
}
