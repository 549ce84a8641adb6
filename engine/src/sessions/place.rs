//! Location of a run's session, and its preparation before the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    Interface, MailKind, Mailbox as _, Message, MessageId, Origin, Record, SessionId, Store as _,
    StoreError, Time, encoding, title_of,
};
use ah_ids::{SystemClock, uuid_of};
use ah_store::{KnownSessions, OpenError, Paths, SessionStore, Sessions, Tree};
use ah_transcript::is_of;

use ah_config::places::SESSIONS;
use ah_config::{Config, Error, ErrorKind};

pub use crate::sessions::folders::sessions;
use crate::sessions::folders::{
    LONGEST_TITLE, STRANGE, elsewhere, known_sessions, paths_of, sessions_in, way_to,
};
use crate::sessions::transcript_reader;

use crate::sessions::plan::{ResumePoint, SessionChoice, SessionPlan, is_uuid};

/// Location of a session.
#[derive(Debug)]
pub struct SessionLocation {
    paths: Paths,
    is_ephemeral: bool,
    /// The transcript that the session is created from, if it is not in a database.
    transcript: Option<Transcript>,
    /// The user's sessions, to which it is added when it is opened.
    known: Option<KnownSessions>,
    /// Whether the session was not there before: it is new, or a copy.
    is_made: bool,
    /// A newer session in the folder that is not the user's.
    left_alone: Option<SessionId>,
    /// The session, if it is there and not the user's yet.
    adopted: Option<SessionId>,
    /// Whether what is in it, or in the one that it is a copy of, may be somebody else's. It counts as the user's when what they have
    /// left to be done is gone.
    is_of_others: bool,
    /// Whether nobody knows whose it is: the user has named a file, of another name than sessions have.
    is_of_anybody: bool,
    /// The folder in which it is kept because the project cannot be written.
    outside: Option<PathBuf>,
}

/// A session that exists only as a transcript of the Agent SDKs.
#[derive(Debug)]
struct Transcript {
    path: PathBuf,
    uuid: String,
}

impl SessionLocation {
    /// Returns the session that `plan` chooses, or its copy if it is forked.
    ///
    /// # Errors
    ///
    /// If there is no such session, several are meant, or the copy cannot be made.
    pub fn find(plan: &SessionPlan, config: &Config) -> Result<Self, Error> {
        let folder = config.session_folder();
        let sessions = sessions_in(folder.path.clone(), config);
        let (paths, transcript) = chosen(plan, &sessions, config)?;
        let is_unnamed = matches!(plan.choice, SessionChoice::Newest | SessionChoice::LastUsed);
        let left_alone = if is_unnamed && !plan.ephemeral {
            sessions.newest_unknown()?
        } else {
            None
        };
        let is_copied = plan.fork && transcript.is_none() && paths.database().exists();
        if let Some(uuid) = plan
            .uuid
            .as_deref()
            .filter(|_| plan.fork && !is_its_own(plan))
        {
            unused(uuid, &sessions, config)?;
        }
        let original = paths.database().to_owned();
        let paths = if is_copied && !is_its_own(plan) {
            copy(&sessions, &paths)?
        } else {
            paths
        };
        let known = known_sessions(config.home.as_deref());
        let is_strange = |id: &SessionId| !sessions.is_own(id);
        // A file that somebody names is theirs, and may stand among others of its name.
        let is_of_name = !matches!(plan.choice, SessionChoice::File(_));
        let is_there = paths.database() == original && original.exists();
        let adopted = { paths.id() }.filter(|id| is_of_name && is_there && is_strange(id));
        let first = Paths::of(&original).id();
        Ok(Self {
            is_of_others: original.exists() && first.as_ref().is_some_and(is_strange),
            is_of_anybody: original.exists() && first.is_none(),
            is_ephemeral: plan.ephemeral,
            is_made: is_of_name && (paths.database() != original || !original.exists()),
            transcript,
            known,
            left_alone,
            adopted: adopted.filter(|_| !plan.ephemeral),
            outside: Some(folder)
                .filter(|folder| folder.is_outside && paths.database().starts_with(&folder.path))
                .map(|folder| folder.path),
            paths,
        })
    }

    /// Returns the paths of its files.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Returns whether the session is there already.
    pub(crate) fn is_stored(&self) -> bool {
        !self.is_ephemeral && self.transcript.is_none() && self.paths.database().exists()
    }

    /// Returns the paths of a session that was not there before.
    pub(crate) fn made(&self) -> Option<Paths> {
        (self.is_made && !self.is_ephemeral).then(|| self.paths.clone())
    }

    /// Opens the session for writing.
    pub fn open(&self) -> Result<SessionStore, OpenError> {
        if self.is_ephemeral {
            Ok(SessionStore::in_memory(&std::env::temp_dir())?)
        } else {
            // First, so that a session whose creation fails half-way is still the user's.
            if !self.is_of_others {
                self.make_known();
            }
            take(&self.paths)
        }
    }

    /// Adds the session to those of the user.
    fn make_known(&self) {
        if let (Some(known), Some(id)) = (&self.known, self.paths.id())
            && let Err(error) = known.add(&id, self.paths.folder())
        {
            tracing::warn!("cannot add the session to your list of sessions: {error}");
        }
    }

    /// Returns a notice for the user: the session is kept elsewhere because the project cannot be written, it came with the
    /// folder, or another did and was left alone.
    pub fn notice(&self) -> Option<String> {
        if let Some(folder) = self.outside.as_ref().filter(|_| !self.is_ephemeral) {
            let folder = folder.display();
            return Some(format!(
                "this folder cannot be written, so the session is kept in `{folder}`"
            ));
        }
        if let Some(id) = &self.adopted {
            return Some(format!(
                "the session {id} was {STRANGE}; it now counts as one of yours"
            ));
        }
        let id = self.left_alone.as_ref()?;
        Some(format!(
            "the session {id} in `{SESSIONS}` was not created by you, so it is not continued; `ah -r {id}` continues it"
        ))
    }

    /// Returns the paths of the opened session if `plan` begins it: it had an id perhaps, but has no message yet.
    ///
    /// # Errors
    ///
    /// If another run has begun it in the meantime.
    pub(crate) async fn begun(
        &self,
        session: &SessionStore,
        plan: &SessionPlan,
    ) -> Result<Option<Paths>, Error> {
        let (SessionChoice::New, Some(uuid), false) = (&plan.choice, &plan.uuid, self.is_ephemeral)
        else {
            return Ok(None);
        };
        match session.read(Tree::current).await? {
            None => Ok(Some(self.paths.clone())),
            Some(_) => Err(in_use(uuid)),
        }
    }

    /// Names the session, and checks out the message that the run forks at; returns what a transcript has lost. What somebody else
    /// has left to be run is not.
    ///
    /// # Errors
    ///
    /// If there is no such message, another session has the UUID, or the session cannot be written.
    pub async fn prepare(
        &self,
        session: &SessionStore,
        plan: &SessionPlan,
        config: &Config,
        fork_at: Option<u32>,
    ) -> Result<Vec<String>, Error> {
        let mut lost = Vec::new();
        if self.is_of_others {
            lost.extend(disown(session).await?);
            self.make_known();
        } else if self.is_of_anybody {
            // Its messages are perhaps the user's, and are only read.
            ah_agent::answer_open_calls(session, &SystemClock::default()).await?;
        }
        if let SessionChoice::Named(name) = &plan.choice {
            session.set_name(name.clone()).await?;
        }
        if let Some(transcript) = &self.transcript {
            lost = transcript.write_to(session).await?;
        }
        let known = self
            .transcript
            .as_ref()
            .filter(|_| !plan.fork)
            .map(|transcript| &transcript.uuid);
        if let Some(uuid) = plan.uuid.as_ref().or(known) {
            session.set_uuid(uuid.clone()).await?;
        }
        let is_listed = !self.is_ephemeral && !matches!(plan.choice, SessionChoice::File(_));
        if let Some(uuid) = plan.uuid.as_ref().filter(|_| is_listed) {
            // Another run may have begun with it in the meantime: of two, at least one finds the other.
            match sessions(config).look_up(uuid) {
                Ok(Some(paths)) if paths.database() == self.paths.database() => {}
                _ => return Err(in_use(uuid)),
            }
        }
        let at = plan.at.clone();
        if let Some(message) = session
            .read(move |tree| point(tree, at.as_ref(), fork_at))
            .await??
        {
            session.checkout(message).await?;
        }
        Ok(lost)
    }
}

/// Takes out of a session what somebody else has left to be done in it, and the user has neither said nor begun: open calls, also
/// those that were put off, and queued messages. Returns what to tell of these.
///
/// # Errors
///
/// If it cannot be read or written.
pub async fn disown(session: &SessionStore) -> Result<Option<String>, StoreError> {
    ah_agent::answer_open_calls(session, &SystemClock::default()).await?;
    let mut removed = Vec::new();
    for kind in [MailKind::Steer, MailKind::FollowUp] {
        for mail in session.mail(kind).await? {
            session.withdraw(mail.id).await?;
            removed.push(title_of(&mail.content, LONGEST_TITLE));
        }
    }
    let count = removed.len();
    Ok(removed.first().map(|first| {
        format!("the session came with queued messages, which were removed ({count}): `{first}`")
    }))
}

/// Returns the tree of the session that `plan` chooses, if there is one already.
pub(crate) fn existing(plan: &SessionPlan, config: &Config) -> Option<Tree> {
    Tree::open(&stored(plan, config).ok()??).ok()
}

/// Returns the files of the session that `plan` chooses; `None` if it would be a new one.
///
/// # Errors
///
/// If there is no such session, or several are meant.
pub fn stored(plan: &SessionPlan, config: &Config) -> Result<Option<Paths>, Error> {
    if plan.ephemeral || plan.choice == SessionChoice::New {
        return Ok(None);
    }
    let (paths, transcript) = chosen(plan, &sessions(config), config)?;
    let is_stored = transcript.is_none() && paths.database().exists();
    Ok(is_stored.then_some(paths))
}

/// The files of the session that `plan` chooses, which may be new, and the transcript to create it from.
fn chosen(
    plan: &SessionPlan,
    sessions: &Sessions,
    config: &Config,
) -> Result<(Paths, Option<Transcript>), Error> {
    let fresh = || {
        if let Err(error) = sessions.shrink_undo(config.tools.undo_megabytes.value << 20) {
            tracing::warn!("cannot drop what undo keeps beyond `undoMegabytes`: {error}");
        }
        sessions.fresh()
    };
    let mut transcript = None;
    let paths = match &plan.choice {
        SessionChoice::New => match &plan.uuid {
            Some(uuid) => unused(uuid, sessions, config)?.map_or_else(fresh, Ok)?,
            None => fresh()?,
        },
        SessionChoice::Newest => match sessions.newest()? {
            Some(paths) => paths,
            None => fresh()?,
        },
        SessionChoice::LastUsed => match sessions.last_written()? {
            Some(paths) => paths,
            // Hosts say so in every folder.
            None if config.interface == Interface::AgentSdk && !plan.is_listed => fresh()?,
            None => {
                return Err(
                    Error::failure("no session to resume").hint("omit `-c` or `-r` to start one")
                );
            }
        },
        SessionChoice::Find(wanted) => match sessions.look_up(wanted)? {
            Some(paths) => paths,
            None => {
                transcript = Transcript::find(wanted, config);
                match &transcript {
                    Some(_) => fresh()?,
                    // Hosts look for these words.
                    None if config.interface == Interface::AgentSdk && is_uuid(wanted) => {
                        return Err(Error::failure(format!(
                            "No conversation found with session ID: {wanted}"
                        )));
                    }
                    None => {
                        return Err(match elsewhere(wanted, config) {
                            Some(head) => Error::failure(format!(
                                "the session `{wanted}` belongs to another folder"
                            ))
                            .hint(way_to(&head, &config.environment)),
                            None => missing(sessions.unknown(wanted)),
                        });
                    }
                }
            }
        },
        SessionChoice::Named(name) => match sessions.named(name)? {
            Some(paths) => paths,
            None => fresh()?,
        },
        SessionChoice::File(path) => {
            paths_of(config.environment.cwd().join(path), config.home.as_deref())
        }
    };
    Ok((paths, transcript))
}

/// Returns the error for a session that is not there.
fn missing(error: StoreError) -> Error {
    let mut error = Error::from(error);
    error.kind = ErrorKind::NotFound;
    error
}

/// Whether the copy of a session would have the session's own UUID: then it goes on itself.
fn is_its_own(plan: &SessionPlan) -> bool {
    match (&plan.choice, &plan.uuid) {
        (SessionChoice::Find(wanted), Some(uuid)) => wanted.eq_ignore_ascii_case(uuid),
        _ => false,
    }
}

/// Returns the session that was given this UUID and has no message yet, if there is one.
///
/// # Errors
///
/// If a conversation has the UUID.
fn unused(uuid: &str, sessions: &Sessions, config: &Config) -> Result<Option<Paths>, Error> {
    let found = sessions.look_up(uuid)?;
    let is_empty =
        |paths: &Paths| -> Result<bool, StoreError> { Ok(Tree::open(paths)?.current()?.is_none()) };
    let is_used = match &found {
        Some(paths) => !is_empty(paths)?,
        None => Transcript::find(uuid, config).is_some(),
    };
    if is_used {
        return Err(in_use(uuid));
    }
    Ok(found)
}

/// Returns the error for a UUID that a conversation has; hosts look for these words.
fn in_use(uuid: &str) -> Error {
    Error::failure(format!("Session ID {uuid} is already in use."))
}

impl Transcript {
    fn find(wanted: &str, config: &Config) -> Option<Self> {
        let uuid = is_uuid(wanted).then(|| wanted.to_ascii_lowercase())?;
        let path = transcript_path(
            config.environment.cwd(),
            config.foreign_home.as_deref(),
            &uuid,
        )
        .filter(|path| path.is_file())?;
        Some(Self { path, uuid })
    }

    /// Writes the transcript into an empty session; returns what was left out.
    async fn write_to(&self, session: &SessionStore) -> Result<Vec<String>, Error> {
        let text = fs::read(&self.path).map_err(|error| {
            Error::failure(format!("cannot read `{}`: {error}", self.path.display()))
        })?;
        let (messages, left) = transcript_reader::transcript(&encoding::text_of(&text));
        let records = messages.into_iter().map(Arc::new).map(Record::Message);
        session.append(records.collect()).await?;
        let lost = transcript_reader::losses(&left).into_iter();
        let told =
            lost.map(|loss| format!("the transcript `{}`: left out: {loss}", self.path.display()));
        Ok(told.collect())
    }
}

/// Checks that the session that `plan` chooses has the message at which its copy is to go on.
///
/// # Errors
///
/// If it has not, or cannot be read.
pub(crate) fn check_point(
    plan: &SessionPlan,
    config: &Config,
    fork_at: Option<u32>,
) -> Result<(), Error> {
    match existing(plan, config) {
        Some(tree) => point(&tree, plan.at.as_ref(), fork_at)?.map(drop),
        None => Ok(()),
    }
}

/// Returns the message after which a run goes on, by its name or its number; `None` for the current one.
fn point(
    tree: &Tree,
    at: Option<&ResumePoint>,
    fork_at: Option<u32>,
) -> Result<Result<Option<MessageId>, Error>, StoreError> {
    if let Some(seq) = fork_at {
        return Ok(match tree.numbered(seq)? {
            Some(message) => Ok(Some(message)),
            None => Err(
                Error::new(ErrorKind::NotFound, format!("message not found: @{seq}"))
                    .hint("`ah scan` lists the messages"),
            ),
        });
    }
    at.map_or(Ok(Ok(None)), |at| Ok(found(tree, at)?.map(Some)))
}

/// Returns the message that a host names, on the current branch or elsewhere in the tree.
fn found(tree: &Tree, at: &ResumePoint) -> Result<Result<MessageId, Error>, StoreError> {
    let is = |id: &MessageId, name: &str| is_of(&uuid_of(&SessionId::from(id.as_str())), name);
    let branch = match tree.current()? {
        Some(current) => tree.branch(&current)?,
        None => Vec::new(),
    };
    let Some(kept) = branch.iter().position(|message| is(&message.id, &at.name)) else {
        let heads = tree.heads()?;
        let of_main = heads.iter().filter(|head| head.agent_id.is_none());
        let mut named = of_main.filter(|head| is(&head.message.id, &at.name));
        let kept = named.next().map(|head| head.message.id.clone());
        let name = &at.name;
        return Ok(kept.ok_or_else(|| {
            let message = format!("No message found with message.uuid of: {name}");
            Error::new(ErrorKind::NotFound, message)
        }));
    };
    if let Some(turn) = &at.drops
        && !is_all_of(&branch, kept, |id| is(id, turn))
    {
        return Ok(Err(Error::failure(format!(
            "Resume rejected by --resume-drops-turn: more would be left out than the turn of {turn}"
        ))));
    }
    Ok(Ok(branch[kept].id.clone()))
}

/// Returns whether all messages of a branch behind message `kept` belong to the turn whose prompt `is_meant`. The
/// results of the message's calls stay with it.
fn is_all_of(branch: &[Message], kept: usize, is_meant: impl Fn(&MessageId) -> bool) -> bool {
    let mut turn = None;
    let is_behind = |at: usize, message: &Message| {
        at > kept + usize::from(message.origin == Origin::Results && at == kept + 1)
    };
    branch.iter().enumerate().all(|(at, message)| {
        match message.origin {
            Origin::Prompt | Origin::FollowUp => turn = Some(&message.id),
            // Messages of senders who did not know of that turn.
            Origin::Steering | Origin::Task if at > kept => return false,
            _ => {}
        }
        !is_behind(at, message) || turn.is_some_and(&is_meant)
    })
}

fn copy(sessions: &Sessions, original: &Paths) -> Result<Paths, Error> {
    Ok(sessions.copy(original)?)
}

/// Returns the file in which the Agent SDKs look for the conversation; `None` if the session leaves nothing behind.
pub fn transcript(store: &SessionStore, config: &Config) -> Option<PathBuf> {
    let path = transcript_path(
        config.environment.cwd(),
        config.foreign_home.as_deref(),
        store.uuid(),
    )?;
    (!config.run.is_ephemeral).then_some(path)
}

/// Returns the file in which the Agent SDKs look for the transcript of the session with this UUID.
fn transcript_path(cwd: &Path, home: Option<&Path>, uuid: &str) -> Option<PathBuf> {
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    Some(ah_transcript::transcript_path(home?, &cwd, uuid))
}

/// Opens a new session for writing, as if it had been begun at that time.
///
/// # Errors
///
/// If it cannot be made.
pub fn take_new(config: &Config, begun: Time) -> Result<SessionStore, OpenError> {
    let paths = sessions(config).begun_at(begun);
    // First, so that a session whose creation fails half-way is still the user's.
    if let (Some(known), Some(id)) = (known_sessions(config.home.as_deref()), paths.id())
        && let Err(error) = known.add(&id, paths.folder())
    {
        tracing::warn!("cannot add the session to your list of sessions: {error}");
    }
    take(&paths)
}

/// Opens a session for writing. Commands that a killed holder has left running are ended first.
///
/// # Errors
///
/// If another process holds it, or it cannot be read.
pub fn take(paths: &Paths) -> Result<SessionStore, OpenError> {
    let session = SessionStore::open(paths)?;
    if let Some(killed) = session.predecessor() {
        ah_process::finish_orphans(killed);
    }
    Ok(session)
}
