//! The files that deny rules keep from a command and from all that it starts, as they are when it starts.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ah_conversation::{Content, Denied, HiddenFiles, Output};
use ah_process::{Bounds, Command, Sandbox, Withheld};
use parking_lot::Mutex;

/// Number of names that are looked at for the patterns of all rules, those nearest to their folders first.
const LOOKED_AT: usize = 30_000;
/// Longest time in which the clock of a file system may stand still: that of FAT, which is the coarsest.
const TICK: Duration = Duration::from_secs(2);
/// Number of files and folders that are withheld of each kind.
const MOST: usize = 1_000;
/// Folders of the system, which are not searched for a pattern that stands for all files.
const SYSTEM: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/sbin", "/sys",
    "/usr",
];
/// Files that are many programs by their names: without one, all others would be gone.
const MANY_IN_ONE: [&str; 4] = ["busybox", "coreutils", "toybox", "uutils"];

/// What programs say of a file that is withheld.
const REFUSALS: [&str; 5] = [
    "Permission denied",
    "PermissionError",
    "Read-only file system",
    "Device or resource busy",
    "Operation not permitted",
];

/// Returns what is kept from the command; nothing where this machine cannot do it.
pub(crate) fn from(command: &Command, denied: &Denied) -> Withheld {
    // A sandbox withholds by itself.
    let can_be_kept = || command.sandbox.is_some() || Withheld::can_be_kept();
    if denied.is_empty() || !can_be_kept() {
        return Withheld::default();
    }
    Withheld {
        reading: found(&denied.reading),
        editing: found(&denied.editing),
        running: programs(command, &denied.programs),
    }
}

/// Keeps from a command that may do all else what rules deny, and the terminal.
pub fn kept_from(command: Command, denied: &Denied) -> Command {
    let withheld = from(&command, denied);
    anything_but(command, withheld)
}

/// Keeps from a command that may do all else what is withheld, and the terminal; nothing where it cannot be kept.
pub(crate) fn anything_but(command: Command, withheld: Withheld) -> Command {
    let is_apart = command.sandbox.is_some() || !Bounds::can_be_kept();
    if is_apart && withheld.is_empty() {
        return command;
    }
    let bounds = Bounds {
        anything_else: true,
        withheld,
        ..Bounds::default()
    };
    Command {
        bounds: Some(bounds),
        ..command
    }
}

/// Returns the files and folders that patterns of rules stand for now, without those in others, and behind links.
pub fn found(files: &HiddenFiles) -> Vec<PathBuf> {
    let whole = files.paths().into_iter();
    let places = whole.chain(matching(files)).take(MOST);
    let places: BTreeSet<PathBuf> = places.filter_map(|path| path.canonicalize().ok()).collect();
    let mut outermost: Vec<PathBuf> = Vec::new();
    for place in places {
        if !outermost.last().is_some_and(|last| place.starts_with(last)) {
            outermost.push(place);
        }
    }
    outermost
}

/// Looks for the files and folders that patterns stand for by a part of their path.
fn matching(files: &HiddenFiles) -> Vec<PathBuf> {
    let mut kept = KEPT.lock();
    let mut before = match kept.iter().position(|(of, _)| of == files) {
        Some(at) => kept.swap_remove(at).1,
        None => HashMap::new(),
    };
    let mut now = HashMap::new();
    let mut found = Vec::new();
    let mut folders: VecDeque<PathBuf> = files.searched().into();
    let mut seen: BTreeSet<PathBuf> = folders.iter().cloned().collect();
    let mut left = LOOKED_AT;
    while let Some(folder) = folders.pop_front() {
        let known = before.remove(&folder);
        let listing = Listing::of(&folder, files, known, left);
        found.extend(listing.matching.iter().cloned());
        let below = listing
            .folders
            .iter()
            .filter(|path| seen.insert((*path).clone()));
        folders.extend(below.cloned());
        let count = listing.count;
        now.insert(folder, listing);
        let Some(fewer) = left.checked_sub(count).filter(|left| *left > 0) else {
            break;
        };
        left = fewer;
    }
    kept.truncate(MOST_SEARCHES - 1);
    kept.insert(0, (files.clone(), now));
    found
}

/// Folders with what was found in them.
type Listings = HashMap<PathBuf, Listing>;

/// The last searches: most of what they have looked at is the same for the next command.
static KEPT: Mutex<Vec<(HiddenFiles, Listings)>> = Mutex::new(Vec::new());

/// Number of searches that are kept: those of two kinds of rules, in two places.
const MOST_SEARCHES: usize = 4;

/// What was found in a folder.
struct Listing {
    /// The folder as it was before; `None` if it had just been changed, and may have been again within the same moment.
    as_was: Option<Identity>,
    count: usize,
    matching: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

/// What changes when a name comes into a folder or goes.
#[derive(PartialEq)]
struct Identity {
    file: (u64, u64),
    /// The time that no program can set.
    changed: SystemTime,
}

impl Identity {
    fn of(folder: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(folder).ok()?;
        let seconds = Duration::from_secs(u64::try_from(found.ctime()).ok()?);
        let rest = Duration::from_nanos(u64::try_from(found.ctime_nsec()).ok()?);
        Some(Self {
            file: (found.dev(), found.ino()),
            changed: SystemTime::UNIX_EPOCH + seconds + rest,
        })
    }

    /// Whether the clock of the file system has gone on since: two changes at once have one time.
    fn is_settled(&self) -> bool {
        self.changed.elapsed().is_ok_and(|age| age > TICK)
    }
}

impl Listing {
    /// Lists at most `most` names of a folder, unless it is as it was.
    fn of(folder: &Path, files: &HiddenFiles, known: Option<Self>, most: usize) -> Self {
        let identity = Identity::of(folder);
        let is_known =
            |known: &Self| identity.is_some() && known.as_was == identity && known.count <= most;
        if let Some(known) = known.filter(is_known) {
            return known;
        }
        let mut listing = Self {
            as_was: identity.filter(Identity::is_settled),
            count: 0,
            matching: Vec::new(),
            folders: Vec::new(),
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.take(most) {
            listing.count += 1;
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if SYSTEM.iter().any(|system| path == Path::new(system)) {
                continue;
            }
            if files.hides(&path) {
                listing.matching.push(path);
            } else if is_folder {
                listing.folders.push(path);
            }
        }
        if listing.count == most {
            listing.as_was = None;
        }
        listing
    }
}

/// Returns the files of programs, but for the shell that runs the command.
fn programs(command: &Command, names: &[String]) -> Vec<PathBuf> {
    let variables = command.environment.iter();
    let search_path = variables.filter(|(name, _)| name == "PATH");
    let folders: Vec<PathBuf> = search_path
        .flat_map(|(_, folders)| std::env::split_paths(folders))
        .collect();
    let own = command.program.canonicalize().ok();
    let files = names.iter().flat_map(|name| match name.contains('/') {
        true => vec![command.cwd.join(name)],
        false => folders.iter().map(|folder| folder.join(name)).collect(),
    });
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        path.is_file()
            && Some(path) != own.as_ref()
            && !MANY_IN_ONE.iter().any(|many| name == *many)
    };
    let files = files.filter_map(|path| path.canonicalize().ok());
    let files: BTreeSet<PathBuf> = files.filter(is_one).take(MOST).collect();
    files.into_iter().collect()
}

/// Adds to the output of a command that has failed at what is withheld which files these are.
pub(crate) fn told(output: Output, withheld: &Withheld) -> Output {
    let (Content::Bytes(bytes), true, false) =
        (&output.content, output.is_error, withheld.is_empty())
    else {
        return output;
    };
    let text = String::from_utf8_lossy(bytes);
    let refused: Vec<&str> = text
        .lines()
        .filter(|line| REFUSALS.iter().any(|words| line.contains(words)))
        .collect();
    // A program names a file as its user has: by the end of its path.
    let named = |path: &Path| {
        let ends = path
            .ancestors()
            .map(|above| path.strip_prefix(above).unwrap_or(path));
        let is_named = |end: &&Path| {
            let end = end.to_string_lossy();
            !end.is_empty() && refused.iter().any(|line| line.contains(&*end))
        };
        let lengths = ends.filter(is_named).map(|end| end.as_os_str().len());
        lengths.max().unwrap_or_default()
    };
    let kinds = [&withheld.reading, &withheld.editing, &withheld.running];
    let met = { kinds.into_iter().flatten() }
        .map(|path| (named(path), path))
        .filter(|(length, _)| *length > 0)
        .max_by_key(|(length, _)| *length);
    let Some((_, path)) = met else {
        return output;
    };
    let text = format!(
        "{}\n[a rule denies `{}` to all commands]",
        text.trim_end(),
        path.display()
    );
    Output {
        content: Content::Bytes(text.into_bytes()),
        ..output
    }
}

/// Adds to the output of a command that has failed why it may not have been able to read what it has made itself.
pub(crate) fn told_beside(
    output: Output,
    sandbox: Option<&Sandbox>,
    withheld: &Withheld,
) -> Output {
    let hides = |sandbox: &Sandbox| {
        let has_mounts = sandbox.proxy_port().is_some();
        let is_seen = sandbox.confinement().hidden.is_empty() && withheld.reading.is_empty();
        !has_mounts && !is_seen
    };
    let (Content::Bytes(bytes), true) = (&output.content, output.is_error) else {
        return output;
    };
    let text = String::from_utf8_lossy(bytes);
    if !sandbox.is_some_and(hides) || !text.contains("Permission denied") {
        return output;
    }
    let text = format!(
        "{}\n[on this machine, a command cannot read files that it creates next to hidden ones; the next command can]",
        text.trim_end()
    );
    Output {
        content: Content::Bytes(text.into_bytes()),
        ..output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of FAT goes on every two seconds.
    #[test]
    fn a_folder_that_was_changed_a_moment_ago_may_change_again_at_the_same_time() {
        for (age, is_settled) in [(0, false), (1_900, false), (2_500, true)] {
            let changed = SystemTime::now() - Duration::from_millis(age);
            let identity = Identity {
                file: (1, 2),
                changed,
            };
            assert_eq!(identity.is_settled(), is_settled, "{age}");
        }
        let later = SystemTime::now() + Duration::from_secs(60);
        let identity = Identity {
            file: (1, 2),
            changed: later,
        };
        assert!(!identity.is_settled());
    }
}
