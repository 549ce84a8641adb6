//! Says when files of a folder have changed, so that those who wait for another process need not look again and again.
//!
//! On Linux, inotify reports a commit when SQLite writes it; readers see it only after it is synced to the disk. So each event is
//! followed by several looks, after pauses that double from 10 ms up to a minute: a commit is seen late by at most as long as it
//! took. Elsewhere the files are looked at every 100 ms.

use std::path::Path;
use std::time::Duration;

#[cfg(target_os = "linux")]
use {
    futures_util::StreamExt as _,
    inotify::{EventStream, Inotify, WatchMask},
    std::ffi::OsStr,
    std::future::pending,
    std::os::unix::ffi::OsStrExt as _,
    tokio::runtime::Handle,
    tokio::sync::Mutex,
    tokio::time::{Instant, timeout, timeout_at},
};

use crate::paths::{Paths, file_name};

/// Pause between two looks where the system does not tell.
const LOOK: Duration = Duration::from_millis(100);
/// The first pause after a change.
#[cfg(target_os = "linux")]
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest one. Who waits looks as often in any case.
#[cfg(target_os = "linux")]
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Changes of the files in a folder whose names begin alike, such as a database and its log.
#[derive(Debug)]
pub struct Changes {
    /// `None` if the system does not tell: there is no runtime to wait in, or too many folders are watched.
    #[cfg(target_os = "linux")]
    events: Option<Mutex<Events>>,
    #[cfg(target_os = "linux")]
    prefix: String,
}

#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Events {
    stream: EventStream<[u8; 1024]>,
    /// Pause after the last event or look that was due, and its end.
    pause: Duration,
    due: Instant,
}

impl Changes {
    /// Begins to watch a session's messages.
    pub fn of_session(paths: &Paths) -> Self {
        Self::of(paths.folder(), &file_name(paths.database()))
    }
}

#[cfg(not(target_os = "linux"))]
impl Changes {
    pub(crate) fn of(_: &Path, _: &str) -> Self {
        Self {}
    }

    /// Whether the system reports changes.
    pub(crate) fn are_told(&self) -> bool {
        false
    }

    /// Waits for a change, or until it may be time to look.
    pub async fn next(&self, at_most: Duration) {
        tokio::time::sleep(at_most.min(LOOK)).await;
    }
}

#[cfg(target_os = "linux")]
impl Changes {
    /// Begins to watch the files in `folder` whose names begin with `prefix`.
    pub(crate) fn of(folder: &Path, prefix: &str) -> Self {
        let watch = || {
            Handle::try_current().ok()?;
            let inotify = Inotify::init().ok()?;
            let kinds = WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO;
            inotify.watches().add(folder, kinds).ok()?;
            inotify.into_event_stream([0; 1024]).ok()
        };
        Self {
            events: watch().map(Events::new).map(Mutex::new),
            prefix: prefix.to_owned(),
        }
    }

    /// Whether the system reports changes.
    pub(crate) fn are_told(&self) -> bool {
        self.events.is_some()
    }

    /// Waits for a change since the last call, at most so long. A change may have been another one, or none.
    pub async fn next(&self, at_most: Duration) {
        let Some(events) = &self.events else {
            return tokio::time::sleep(at_most.min(LOOK)).await;
        };
        let looked_for = async {
            let mut events = events.lock().await;
            let due = events.due;
            let pause = match timeout_at(due, self.told(&mut events.stream)).await {
                Ok(()) => FIRST_PAUSE,
                Err(_) => events.pause.saturating_mul(2).min(LONGEST_PAUSE),
            };
            events.pause = pause;
            events.due = Instant::now() + pause;
        };
        // What has changed is found by looking, and without an event it is time to look.
        let _ = timeout(at_most, looked_for).await;
    }

    /// Waits for an event of our files.
    async fn told(&self, events: &mut EventStream<[u8; 1024]>) {
        while let Some(Ok(event)) = events.next().await {
            if self.is_ours(event.name.as_deref()) {
                return;
            }
        }
        pending::<()>().await;
    }

    /// Whether an event is of our files. Without a name, events were lost.
    fn is_ours(&self, name: Option<&OsStr>) -> bool {
        name.is_none_or(|name| name.as_bytes().starts_with(self.prefix.as_bytes()))
    }
}

#[cfg(target_os = "linux")]
impl Events {
    fn new(stream: EventStream<[u8; 1024]>) -> Self {
        Self {
            stream,
            pause: FIRST_PAUSE,
            due: Instant::now() + FIRST_PAUSE,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    /// Far more than a change takes to be told.
    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_change_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let changes = Changes::of(folder.path(), "queue");
        assert!(changes.are_told());
        let mut events = changes.events.as_ref().unwrap().lock().await;
        for name in ["session", "queue-wal"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        changes.told(&mut events.stream).await;
    }

    #[tokio::test(start_paused = true)]
    async fn looks_follow_a_change_after_pauses_that_double() {
        let folder = tempfile::tempdir().unwrap();
        let changes = Changes::of(folder.path(), "queue");
        fs::write(folder.path().join("queue"), "x").unwrap();
        // One event is of the new file, the other of what is in it.
        for _ in 0..2 {
            changes.next(LONG).await;
        }
        let start = Instant::now();
        let mut looks = Vec::new();
        for _ in 0..15 {
            changes.next(LONG).await;
            looks.push(start.elapsed().as_millis());
        }
        assert_eq!(looks[..4], [10, 30, 70, 150]);
        assert_eq!(looks[14] - looks[13], 60_000);
        // Others that are waited for do not put them off.
        fs::write(folder.path().join("queue"), "y").unwrap();
        changes.next(LONG).await;
        let start = Instant::now();
        for _ in 0..20 {
            changes.next(Duration::from_millis(1)).await;
        }
        assert_eq!(start.elapsed().as_millis(), 20);
    }

    #[tokio::test]
    async fn only_changes_of_our_files_count() {
        let folder = tempfile::tempdir().unwrap();
        let changes = Changes::of(folder.path(), "queue");
        let is_ours = |name: &str| changes.is_ours(Some(OsStr::new(name)));
        assert!(is_ours("queue") && is_ours("queue-wal"));
        assert!(!is_ours("session") && !is_ours(""));
        assert!(changes.is_ours(None));
    }
}
