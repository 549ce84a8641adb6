//! Moves a session, its files with it, so that one place has it at any time. What is on its way is in a folder beside the
//! sessions, where nothing continues it. The destination is complete before the source gives the session up, and the same
//! command finishes what was cut off.

mod parcel;
mod session_files;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ah_beneath::Folder;
use ah_config::{Config, Error};
use ah_conversation::{Clock as _, Environment, SessionId};
use ah_ids::SystemClock;
use ah_store::fleet::{Fleet, Timing};
use ah_store::{LocalFleet, Notice, OpenError, Paths, SessionStore};
use rustix::fs::OFlags;
use tokio::time::sleep;

use self::session_files::{copy, in_folder, remove, rename, unwritable};
use crate::carried::{Files, Home, capture, place};
use ah_engine::sessions::folders::{known_sessions, seal_key, sessions};
use ah_engine::sessions::place::disown;

/// Folder beside the sessions with those that are leaving.
const LEAVING: &str = "leaving";
/// Folder beside the sessions with those that are coming.
const COMING: &str = "coming";

/// A session, where it is now.
pub enum Source {
    /// Among the sessions of the folder: an id, the beginning of one, or a name.
    Here(String),
    /// In a store.
    Store(Arc<dyn Fleet>, SessionId),
    /// In a file that a move has written.
    File(PathBuf),
}

/// Where a session goes, besides the folder of the configuration.
pub enum Destination {
    /// To a store.
    Store(Arc<dyn Fleet>),
    /// Into a file, which must not exist.
    File(PathBuf),
}

/// What was moved.
#[derive(Debug)]
pub struct Moved {
    /// The session.
    pub session: SessionId,
    /// What stays behind, a sentence for each kind.
    pub left: Vec<String>,
    /// What was taken out of it, as it may be somebody else's.
    pub removed: Option<String>,
}

/// Moves a session away. Without files of its own it takes those of the folder.
///
/// # Errors
///
/// If it is in use, or one of the places cannot be read or written.
pub async fn away(config: &Config, from: Source, to: Destination) -> Result<Moved, Error> {
    let (mut left, mut removed) = (Vec::new(), None);
    let held = match from {
        Source::Here(wanted) => {
            let paths;
            (paths, left, removed) = leave(config, &wanted).await?;
            Held::Files(paths)
        }
        Source::Store(fleet, session) => {
            Held::lease(config.home.as_deref(), fleet, &session).await?
        }
        Source::File(file) => {
            // Anybody may have made it.
            let held = Held::file(file)?;
            removed = disown(&SessionStore::open(held.paths()).map_err(busy)?).await?;
            held
        }
    };
    let paths = held.paths();
    let session = id_of(paths)?;
    match to {
        Destination::Store(fleet) => store(&fleet, &session, paths).await?,
        Destination::File(file) => {
            let packed = parcel::pack(paths, &file);
            if let (Err(_), Held::Files(leaving)) = (&packed, &held) {
                // Nothing has become of it.
                rename(leaving, &in_folder(&config.session_folder().path, &session))?;
            }
            packed?;
        }
    }
    held.give_up().await?;
    Ok(Moved {
        session,
        left,
        removed,
    })
}

/// Whether a session was on its way into the folder of the configuration when that was cut off; for one that leaves it, whether
/// it is there, or was on its way out.
pub fn is_here(config: &Config, wanted: &str, leaves: bool) -> bool {
    let way = if leaves { LEAVING } else { COMING };
    let is_on_the_way = waiting(&config.session_folder().path.join(way), wanted).is_some();
    let is_kept = || {
        sessions(config)
            .look_up(wanted)
            .is_ok_and(|it| it.is_some())
    };
    is_on_the_way || leaves && is_kept()
}

/// Moves a session into the folder of the configuration, with its files.
///
/// # Errors
///
/// If it is in use, the folder has other files, or one of the places cannot be read or written.
pub async fn home(config: &Config, from: Source) -> Result<Moved, Error> {
    let folder = config.session_folder().path;
    let coming = on_the_way(&folder, COMING)?;
    let user = config.home.as_deref();
    // Anybody may have made a file, or a folder with sessions that are coming.
    let (held, is_of_others) = match from {
        Source::Here(wanted) => match waiting(&coming, &wanted) {
            Some(paths) => (Held::Files(paths), true),
            None => bring(config, &wanted, &coming).await?,
        },
        Source::Store(fleet, session) => (Held::lease(user, fleet, &session).await?, false),
        Source::File(file) => (Held::file(file)?, true),
    };
    let session = id_of(held.paths())?;
    let there = in_folder(&coming, &session);
    if held.paths() != &there {
        refuse_second(&folder, &session)?;
        remove(&there)?;
        copy(held.paths(), &there)?;
    }
    let opened = SessionStore::open(&there).map_err(busy)?;
    let removed = match is_of_others {
        true => disown(&opened).await?,
        false => None,
    };
    let files = Files::of(&opened).await?;
    let begun = format!("{session}.into");
    let cwd = config.environment.cwd();
    let is_trusted = config.trust.is_given();
    let home = match &files {
        Some(files) => {
            let into = read(&coming, &begun).unwrap_or_default();
            let was_new = [true, false];
            let was_new = was_new
                .into_iter()
                .find(|is_new| into == begin(cwd, *is_new));
            match Home::find(&config.environment, files, cwd, is_trusted, was_new).await {
                Ok(home) => Some(home),
                Err(error) if held.paths() == &there => return Err(error),
                Err(error) => {
                    drop(opened);
                    remove(&there)?;
                    return Err(held.explained(error, cwd));
                }
            }
        }
        None => None,
    };
    // A file is given up when all is done: nothing continues it.
    let file = match held {
        Held::Files(_) => None,
        Held::Lease(_) => {
            held.give_up().await?;
            None
        }
        Held::File { .. } => Some(held),
    };
    if let (Some(files), Some(home)) = (&files, home) {
        let written = write(&coming, &begun, &begin(cwd, home.is_new()));
        written.map_err(|error| unwritable(&coming.join(&begun), &error))?;
        let scratch = scratch()?;
        home.receive(&config.environment, files, &opened, scratch.path())
            .await?;
        Files::arrive(&opened).await?;
    }
    drop(opened);
    if let Some(known) = known_sessions(config.home.as_deref()) {
        // Without the list the session is still found by its id.
        let _ = known.add(&session, &folder);
    }
    settle(&config.environment, &folder, &session, &begun)?;
    if let Some(file) = file {
        file.give_up().await?;
    }
    Ok(Moved {
        session,
        left: Vec::new(),
        removed,
    })
}

/// Lets a session that has come be one of the folder, and removes what its move has left.
fn settle(
    environment: &Environment,
    folder: &Path,
    session: &SessionId,
    begun: &str,
) -> Result<(), Error> {
    let coming = on_the_way(folder, COMING)?;
    rename(&in_folder(&coming, session), &in_folder(folder, session))?;
    let _ = Folder::at(&coming).and_then(|coming| coming.remove_file(begun.as_ref()));
    let _ = Folder::follow(folder).and_then(|folder| folder.remove_folder(COMING.as_ref()));
    if let Ok(made) = place(environment, session)
        && let (Some(above), Some(name)) = (made.parent(), made.file_name())
    {
        let _ = Folder::follow(above).and_then(|above| above.remove_all(name));
    }
    Ok(())
}

/// A session that is held at its source until it is given up.
enum Held {
    /// Files that nobody continues.
    Files(Paths),
    /// A lease, and a copy of what is there.
    Lease(Box<Lease>),
    /// A file, and what is in it.
    File {
        file: PathBuf,
        paths: Paths,
        _scratch: tempfile::TempDir,
    },
}

struct Lease {
    fleet: Arc<dyn Fleet>,
    store: SessionStore,
    me: String,
    copy: Paths,
    sent: Vec<ah_conversation::MessageId>,
    _scratch: tempfile::TempDir,
}

impl Held {
    /// Reads a session from a file.
    fn file(file: PathBuf) -> Result<Self, Error> {
        let scratch = scratch()?;
        let paths = parcel::unpack(&file, scratch.path())?;
        Ok(Self::File {
            file,
            paths,
            _scratch: scratch,
        })
    }

    /// Leases a session, so that nobody continues it, and copies it.
    async fn lease(
        home: Option<&Path>,
        fleet: Arc<dyn Fleet>,
        session: &SessionId,
    ) -> Result<Self, Error> {
        let runs = fleet.runs(Some(session), 1000).await?;
        if runs
            .iter()
            .any(|run| run.state == ah_store::fleet::RunState::Running)
        {
            return Err(in_progress());
        }
        let me = format!("move-{}", SystemClock::default().message_id());
        let store = open(&fleet, session, &me).await?;
        let scratch = scratch()?;
        let key = seal_key(home);
        let copy = in_folder(scratch.path(), session).sealed_by(key);
        let contents = match Files::of(&store).await? {
            Some(files) => files.contents(),
            None => Vec::new(),
        };
        let sent = store.copy_to(&copy, &contents).await?;
        Ok(Self::Lease(Box::new(Lease {
            fleet,
            store,
            me,
            copy,
            sent,
            _scratch: scratch,
        })))
    }

    fn paths(&self) -> &Paths {
        match self {
            Self::Files(paths) | Self::File { paths, .. } => paths,
            Self::Lease(lease) => &lease.copy,
        }
    }

    /// Adds to the error of a folder with other files that the file with the session is one of them, if it is.
    fn explained(&self, error: Error, folder: &Path) -> Error {
        let is_within = |file: &PathBuf| {
            let places = [file.as_path(), folder].map(std::fs::canonicalize);
            matches!(places, [Ok(file), Ok(folder)] if file.starts_with(&folder))
        };
        match self {
            Self::File { file, .. } if is_within(file) => error.hint(format!(
                "`{}` is one; move it out of the folder first",
                file.display()
            )),
            _ => error,
        }
    }

    /// Ends the session at its source.
    async fn give_up(self) -> Result<(), Error> {
        match self {
            Self::Files(paths) => remove(&paths),
            Self::File { file, .. } => {
                std::fs::remove_file(&file).map_err(|error| unwritable(&file, &error))
            }
            Self::Lease(lease) => {
                let session = lease.store.id().clone();
                match lease.fleet.forget(&session, &lease.me, &lease.sent).await? {
                    true => Ok(()),
                    false => {
                        drop(lease.store);
                        lease.fleet.close(&session, &lease.me).await?;
                        Err(Error::failure(
                            "the session was written to in the meantime and was not moved",
                        )
                        .hint("run the same command again"))
                    }
                }
            }
        }
    }
}

/// Puts a session among those that are leaving, with the files of the folder unless it has its own, and without what somebody else
/// has left to be done in it; returns what stays behind, and what was taken out of it.
async fn leave(
    config: &Config,
    wanted: &str,
) -> Result<(Paths, Vec<String>, Option<String>), Error> {
    let folder = config.session_folder().path;
    let leaving = on_the_way(&folder, LEAVING)?;
    let all = sessions(config);
    let already = waiting(&leaving, wanted);
    let has_left = already.is_some();
    let paths = match already {
        Some(paths) => paths,
        None => all.find(wanted)?,
    };
    let session = id_of(&paths)?;
    let store = SessionStore::open(&paths).map_err(busy)?;
    let removed = match all.is_own(&session) {
        true => None,
        false => disown(&store).await?.or(told(&store).await),
    };
    let mut left = Vec::new();
    if has_left {
        return Ok((paths, left, removed));
    }
    if Files::of(&store).await?.is_none() {
        let (cwd, is_trusted) = (config.environment.cwd(), config.trust.is_given());
        let captured = capture(&config.environment, cwd, is_trusted).await?;
        left.clone_from(&captured.left);
        captured.keep(&store).await?;
    }
    let queue = LocalFleet::open(&all, Timing::default())?;
    queue.forget(&session, "", &[]).await?;
    drop(store);
    let there = in_folder(&leaving, &session);
    rename(&paths, &there)?;
    Ok((there, left, removed))
}

/// Returns what there is to tell of mail that its user has not sent.
async fn told(store: &SessionStore) -> Option<String> {
    let mut notices = store.take_notices().await.into_iter();
    let mail = notices.find(|notice| matches!(notice, Notice::QueuedByOthers { .. }));
    mail.map(|notice| notice.to_string())
}

/// Puts a session of the folder's workers among those that are coming; returns whether it is somebody else's.
async fn bring(config: &Config, wanted: &str, coming: &Path) -> Result<(Held, bool), Error> {
    let paths = sessions(config).find(wanted)?;
    let session = id_of(&paths)?;
    // As long as it is in the queue.
    let is_of_others = !sessions(config).is_own(&session);
    let store = SessionStore::open(&paths).map_err(busy)?;
    let Some(files) = Files::of(&store).await? else {
        return Err(Error::failure(format!("session {session} is here"))
            .hint("`--to` moves it to a store or a file"));
    };
    let cwd = config.environment.cwd();
    let is_trusted = config.trust.is_given();
    Home::find(&config.environment, &files, cwd, is_trusted, None).await?;
    let queue = LocalFleet::open(&sessions(config), Timing::default())?;
    queue.forget(&session, "", &[]).await?;
    drop(store);
    let there = in_folder(coming, &session);
    rename(&paths, &there)?;
    Ok((Held::Files(there), is_of_others))
}

/// Opens a session of a store. One whose holder was killed a moment ago, as a move that was cut off, is waited for until the
/// holder counts as dead.
async fn open(
    fleet: &Arc<dyn Fleet>,
    session: &SessionId,
    me: &str,
) -> Result<SessionStore, Error> {
    let Timing { beat, dead } = fleet.timing();
    let patience = Instant::now() + dead + beat;
    loop {
        match fleet.clone().open(session, me).await {
            Err(OpenError::Busy(_)) if Instant::now() < patience => sleep(beat).await,
            opened => return opened.map_err(busy),
        }
    }
}

/// Makes a session in a store, which has none with this id or the same one.
async fn store(fleet: &Arc<dyn Fleet>, session: &SessionId, paths: &Paths) -> Result<(), Error> {
    let me = format!("move-{}", SystemClock::default().message_id());
    let store = open(fleet, session, &me).await?;
    let done = store.become_copy_of(paths).await;
    drop(store);
    fleet.close(session, &me).await?;
    Ok(done?)
}

/// Reads a file among the sessions that are coming. They may be those of a project that came from anybody.
fn read(coming: &Path, name: &str) -> io::Result<String> {
    let file = Folder::at(coming)?.open_file(name.as_ref(), OFlags::RDONLY)?;
    io::read_to_string(file)
}

/// Writes a file among the sessions that are coming.
fn write(coming: &Path, name: &str, text: &str) -> io::Result<()> {
    let coming = Folder::at(coming)?;
    let _ = coming.remove_file(name.as_ref());
    let mut file = coming.create_file(name.as_ref(), 0o600)?;
    file.write_all(text.as_bytes())
}

/// Returns what is written down before files are made in a folder.
fn begin(folder: &Path, is_new: bool) -> String {
    let kind = if is_new { "new" } else { "filled" };
    format!("{kind} {}", folder.display())
}

/// Returns the folder of the sessions that are on their way. A symbolic link may have come with the project.
fn on_the_way(folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    match path.is_symlink() {
        false => Ok(path),
        true => Err(unwritable(
            &path,
            &io::Error::other("it is a symbolic link"),
        )),
    }
}

/// Returns a session that was on its way when the move was cut off.
fn waiting(folder: &Path, wanted: &str) -> Option<Paths> {
    let wanted = format!("{}.db", wanted.to_ascii_uppercase());
    let stem = wanted.trim_end_matches(".db");
    let names = Folder::at(folder).and_then(|folder| folder.files()).ok()?;
    let mut found = names.into_iter().filter_map(|name| {
        let paths = Paths::of(folder.join(name));
        let id = paths.id()?;
        (paths.database().extension()? == "db" && id.as_str().starts_with(stem)).then_some(paths)
    });
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn refuse_second(folder: &Path, session: &SessionId) -> Result<(), Error> {
    match in_folder(folder, session).database().exists() {
        true => Err(Error::failure(format!("session {session} is here, too"))
            .hint("remove one of them: `ah sessions rm` removes the one that is here")),
        false => Ok(()),
    }
}

fn id_of(paths: &Paths) -> Result<SessionId, Error> {
    let id = paths.id();
    id.ok_or_else(|| Error::failure("the session has no id"))
}

fn scratch() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(|error| Error::failure(format!("cannot make a folder: {error}")))
}

fn in_progress() -> Error {
    Error::failure("a run of the session is in progress").hint("`ah interrupt` stops it")
}

fn busy(error: OpenError) -> Error {
    match error {
        OpenError::Busy(_) => in_progress(),
        OpenError::Store(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// They came with a project.
    #[test]
    fn links_among_the_sessions_on_their_way_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (sessions, victim) = (folder.path().join(".ah"), folder.path().join("victim"));
        let coming = sessions.join(COMING);
        fs::create_dir_all(&coming).unwrap();
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, coming.join("x.into")).unwrap();
        assert!(read(&coming, "x.into").is_err());
        write(&coming, "x.into", "new").unwrap();
        assert_eq!(read(&coming, "x.into").unwrap(), "new");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        symlink(folder.path(), sessions.join(LEAVING)).unwrap();
        assert!(on_the_way(&sessions, LEAVING).is_err());
        assert!(on_the_way(&sessions, COMING).is_ok());
    }
}
