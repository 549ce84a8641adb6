//! Where sessions are: those of the working directory, those of all folders that the user has worked in, and the way to
//! one of another folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_config::places::{SESSIONS, repository_of, short};
use ah_config::{Config, Error};
use ah_conversation::{Environment, title_of};
use ah_git::repository;
use ah_store::{KnownSessions, Paths, SessionHead, SessionStore, Sessions};

/// Longest title in a list, in characters.
pub(super) const LONGEST_TITLE: usize = 80;

/// The sessions of all folders.
#[derive(Debug, Default)]
pub struct Everywhere {
    /// The sessions, the last written first.
    pub heads: Vec<SessionHead>,
    /// Folders that had sessions once and are gone.
    pub gone: Vec<PathBuf>,
}

/// Returns the sessions of the working directory. Those that the user has not made are used only by their id, and without
/// trust the folder must not be a link.
pub fn sessions(config: &Config) -> Sessions {
    sessions_in(config.session_folder().path, config)
}

/// What lists say of a session that the user has not made.
pub const STRANGE: &str = "not made by you";

/// Returns the sessions in a folder of sessions, on the same conditions.
pub(crate) fn sessions_in(folder: PathBuf, config: &Config) -> Sessions {
    let queue = config.queue_folder(&folder);
    let sessions = Sessions::in_folder(folder).queued_in(queue);
    let sessions =
        { sessions.known_by(known_sessions(config.home.as_deref())) }.with_files_in(config.seals());
    if config.trust.is_given() {
        sessions
    } else {
        sessions.without_link()
    }
}

/// Returns the paths of the session in a database, which may be anywhere, with the key of this user's seals.
pub fn paths_of(database: impl Into<PathBuf>, home: Option<&Path>) -> Paths {
    Paths::of(database).sealed_by(seal_key(home))
}

/// Returns the path of the key of the user's seals; `None` without a home.
pub fn seal_key(home: Option<&Path>) -> Option<PathBuf> {
    known_sessions(home).map(|known| known.key())
}

/// Returns the list of the user's sessions; `None` without a home.
pub fn known_sessions(home: Option<&Path>) -> Option<KnownSessions> {
    Some(KnownSessions::at(home?.join("sessions")))
}

/// Returns the sessions of all folders in which the user has made some. Folders that cannot be read are left out.
///
/// # Errors
///
/// If the sessions of the working directory cannot be listed.
pub fn everywhere(config: &Config) -> Result<Everywhere, Error> {
    let own = config.session_folder().path;
    let mut all = Everywhere {
        heads: sessions(config).list()?,
        gone: Vec::new(),
    };
    for folder in other_folders(&own, config) {
        if !folder.is_dir() {
            all.gone.push(folder);
            continue;
        }
        let others = Sessions::in_folder(&folder).without_link();
        let others = others
            .known_by(known_sessions(config.home.as_deref()))
            .list();
        match others {
            Ok(heads) => all.heads.extend(heads),
            Err(error) => tracing::warn!("sessions are left out: {error}"),
        }
    }
    all.heads
        .sort_by_key(|head| (std::cmp::Reverse(head.last_written), head.id.clone()));
    Ok(all)
}

/// Returns the folders of sessions besides `own`: those in the user's list, and those of projects that cannot be written.
fn other_folders(own: &Path, config: &Config) -> Vec<PathBuf> {
    let mut folders =
        known_sessions(config.home.as_deref()).map_or_else(Vec::new, |known| known.folders());
    let projects = config.home.iter().map(|home| home.join("projects"));
    let entries = projects.filter_map(|projects| std::fs::read_dir(projects).ok());
    folders.extend(
        entries
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("sessions"))
            .filter(|folder| folder.is_dir()),
    );
    let mut seen = std::collections::HashSet::from([real(own)]);
    folders.retain(|folder| seen.insert(real(folder)));
    folders
}

fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Returns the title of a session in a list: its name, or what its first words ask for. What came with a folder is not the user's until it is
/// continued, and says so.
pub fn title(head: &SessionHead) -> String {
    let title = match &head.name {
        Some(name) => name.clone(),
        None => title_of(&head.first_text, LONGEST_TITLE),
    };
    match head.is_known {
        true => title,
        false => format!("[{STRANGE}] {title}"),
    }
}

/// Returns whether the session is one of the working directory.
pub fn is_here(head: &SessionHead, config: &Config) -> bool {
    let own = config.session_folder().path;
    head.paths.database().parent() == Some(&own)
}

/// Returns the folder in which the session is found by its id; `None` if that was not recorded.
pub fn directory(head: &SessionHead) -> Option<PathBuf> {
    let folder = head.paths.database().parent()?;
    let is_in_project = folder.file_name()? == SESSIONS;
    let above = folder.parent().filter(|_| is_in_project);
    match (above, &head.folder) {
        // Where the project was before it was moved does not count.
        (Some(above), Some(used)) if used.starts_with(above) && used.is_dir() => Some(used.clone()),
        (Some(above), _) => Some(above.to_owned()),
        (None, used) => used.clone(),
    }
}

/// Returns the command that continues the session in its folder: `cd ~/project && ah -r 01ARZ…`.
pub fn way_to(head: &SessionHead, environment: &Environment) -> String {
    let home = environment.home();
    if let Some(gone) = head.folder.as_ref().filter(|folder| !folder.is_dir())
        && let (Some(repository), Some(name)) = (repository_of(gone), gone.file_name())
    {
        let (repository, name) = (word(repository, home.as_deref()), name.to_string_lossy());
        return format!("cd {repository} && ah -w {name} -r {}", head.id);
    }
    match directory(head) {
        Some(folder) => format!("cd {} && ah -r {}", word(&folder, home.as_deref()), head.id),
        None => format!("ah --db {}", word(head.paths.database(), home.as_deref())),
    }
}

/// Returns the session of another folder with this id, beginning of an id, or name, if there is exactly one.
pub fn elsewhere(wanted: &str, config: &Config) -> Option<SessionHead> {
    let heads = everywhere(config).ok()?.heads;
    let prefix = wanted.to_ascii_uppercase();
    let is_meant = |head: &SessionHead| {
        let by_id = !prefix.is_empty() && head.id.as_str().starts_with(&prefix);
        (by_id || head.name.as_deref() == Some(wanted)) && !is_here(head, config)
    };
    let mut found = heads.into_iter().filter(is_meant);
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

/// Gives a session up that nothing else uses here. One without messages is removed.
pub async fn give_up(store: Arc<SessionStore>, config: &Config) {
    let is_empty = store.read(|tree| Ok(tree.heads()?.is_empty())).await;
    let paths = Paths::of(store.path());
    // Still locked, so no other process has started to use it.
    drop(store);
    if is_empty.is_ok_and(|is_empty| is_empty) {
        // `ah gc` removes what cannot be removed now.
        let _ = sessions(config).remove(&paths);
    }
}

/// Records in the session where it is used, for lists.
pub fn note_place(store: &SessionStore, cwd: &Path) {
    let branch = repository(cwd).and_then(|repository| repository.branch);
    store.note_place(cwd, branch.as_deref());
}

/// Returns a path as a word of a shell command.
fn word(path: &Path, home: Option<&Path>) -> String {
    let short = short(path, home);
    let is_plain = |c: char| c.is_alphanumeric() || "~/._-+@:,%".contains(c);
    if short.chars().all(is_plain) {
        return short;
    }
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        for (path, expected) in [
            ("/home/me/x", "~/x"),
            ("/home/me", "~"),
            ("/home/me/a b", "'/home/me/a b'"),
            ("/srv/it's", r"'/srv/it'\''s'"),
            ("/srv/$(x)", "'/srv/$(x)'"),
            ("/srv/plain-1.0", "/srv/plain-1.0"),
        ] {
            assert_eq!(word(Path::new(path), Some(Path::new("/home/me"))), expected);
        }
    }
}
