//! Second layer: Landlock enforces the same policy again, so that a faulty mount is no escape.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::setup::SetupResult;
use crate::access::{Access, Tier};
use crate::bounds::Bounds;
use crate::environment::NODE_PROXY;
use crate::plan::{Identity, Known, Layout};

/// Required ABI: since version 3, truncation needs write permission.
const FLOOR: ABI = ABI::V3;
/// Newest ABI used if available.
const BEST: ABI = ABI::V6;

/// What is allowed at a path, and below it.
struct Rule {
    path: PathBuf,
    rights: BitFlags<AccessFs>,
    /// What must be there still, if another command could put something else there.
    seen: Option<Seen>,
}

/// What was at a path when it was looked up.
enum Seen {
    Inode(Identity),
    Known(Known),
}

impl Seen {
    fn is(&self, found: &Metadata) -> bool {
        match self {
            Self::Inode(inode) => Known::of(found).inode == *inode,
            Self::Known(known) => Known::of(found) == *known,
        }
    }
}

impl Rule {
    fn new(path: impl Into<PathBuf>, rights: BitFlags<AccessFs>) -> Self {
        Self {
            path: path.into(),
            rights,
            seen: None,
        }
    }

    fn of(seen: Seen, path: &Path, rights: BitFlags<AccessFs>) -> Self {
        Self {
            path: path.to_owned(),
            rights,
            seen: Some(seen),
        }
    }
}

/// Restricts this process and its descendants. Paths are resolved in the file system that the process is in. Returns what was looked
/// at for that.
pub(crate) fn restrict(tier: Tier, layout: &Layout) -> SetupResult<Basis> {
    // Without a network namespace there is no network: the filter refuses sockets, and this the use of TCP.
    let network = match tier.has_namespaces() {
        true => BitFlags::EMPTY,
        false => AccessNet::from_all(BEST),
    };
    // In a process namespace there are only processes of the session, which commands may end.
    let scope = match tier.has_namespaces() {
        true => Scope::AbstractUnixSocket.into(),
        false => Scope::AbstractUnixSocket | Scope::Signal,
    };
    let (rules, basis) = rules(tier, layout);
    let status = ruleset(AccessFs::from_all, network, scope, rules)
        .and_then(RulesetCreated::restrict_self)
        .map_err(|error| format!("landlock: {error}"))?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("landlock: not enforced by this kernel".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(basis),
    }
}

/// Returns a ruleset that keeps a process within the bounds. What they do not limit is not governed.
pub(crate) fn bounded(bounds: &Bounds) -> SetupResult<OwnedFd> {
    let listed = AccessFs::ReadDir | AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let devices = ["null", "zero", "full", "random", "urandom"];
    let devices = devices.map(|name| Rule::new(Path::new(DEVICES).join(name), device));
    let writable = { bounds.writable.iter() }.map(|path| Rule::new(path, rights(Access::ALL)));
    let mut rules: Vec<_> = devices.into_iter().chain(writable).collect();
    readable(&bounds.hidden, &mut rules)?;
    let governed = |abi| AccessFs::from_all(abi) & !listed;
    let scope = Scope::AbstractUnixSocket | Scope::Signal;
    let ruleset = ruleset(governed, AccessNet::from_all(BEST), scope, rules)
        .map_err(|error| format!("landlock: {error}"))?;
    Option::<OwnedFd>::from(ruleset).ok_or_else(|| "landlock: not known to this kernel".to_owned())
}

/// Where devices are. What is typed at a terminal could be read there, by its number.
const DEVICES: &str = "/dev";

/// Adds the rules for reading everything but devices, and what is hidden.
fn readable(hidden: &[PathBuf], rules: &mut Vec<Rule>) -> SetupResult<()> {
    let mut around = Around::new(hidden);
    let top = Path::new("/");
    if around.hidden.contains(top) {
        return Ok(());
    }
    for entry in folders_at_top()?.flatten() {
        let path = entry.path();
        // The target of a link has rules at its own path.
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if !is_link && path != Path::new(DEVICES) {
            // What is mounted on demand is there from now on, so that the rule is for it.
            let mut as_folder = File::options();
            as_folder.custom_flags(libc::O_PATH | libc::O_DIRECTORY);
            let _ = as_folder.read(true).open(&path);
            around.add(&path, Access::READ, rules);
        }
    }
    let shared = Path::new(DEVICES).join("shm");
    around.add(&shared, Access::READ, rules);
    Ok(())
}

/// Lists what is at the top, where everything but devices has a rule.
pub(crate) fn folders_at_top() -> SetupResult<fs::ReadDir> {
    fs::read_dir("/").map_err(|error| format!("landlock: cannot list `/`: {error}"))
}

/// Returns the ruleset that refuses what it governs of an ABI's accesses to files, and of those to the network, but for what
/// the rules of paths allow, and what is in the scope with processes outside.
fn ruleset(
    governed: impl Fn(ABI) -> BitFlags<AccessFs>,
    network: BitFlags<AccessNet>,
    scope: BitFlags<Scope>,
    rules: Vec<Rule>,
) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(governed(FLOOR))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(governed(BEST))
        .and_then(|ruleset| ruleset.scope(scope))?;
    if !network.is_empty() {
        ruleset = ruleset.handle_access(network)?;
    }
    let mut ruleset = ruleset.create()?;
    for rule in rules {
        // Missing paths need no rule.
        let Ok((place, found)) = look(&rule.path) else {
            continue;
        };
        if rule.seen.is_some_and(|seen| !seen.is(&found)) {
            continue;
        }
        let mut rights = rule.rights & governed(BEST);
        if !found.is_dir() {
            rights &= AccessFs::from_file(BEST);
        }
        if !rights.is_empty() {
            ruleset = ruleset.add_rule(PathBeneath::new(place, rights))?;
        }
    }
    Ok(ruleset)
}

/// Opens what is at a path only as a place, and looks at it.
fn look(path: &Path) -> io::Result<(File, Metadata)> {
    let mut as_place = File::options();
    as_place.read(true).custom_flags(libc::O_PATH);
    let place = as_place.open(path)?;
    let found = place.metadata()?;
    Ok((place, found))
}

/// Returns whether this kernel has the required version.
pub(crate) fn is_new_enough() -> bool {
    const VERSION: u32 = 1;
    // SAFETY: asked for the version, the call reads no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    version >= FLOOR as i64
}

fn rules(tier: Tier, layout: &Layout) -> (Vec<Rule>, Basis) {
    let mut rules = Vec::new();
    let mut around = match tier.has_namespaces() {
        true => None,
        false => Some(Around::new(&layout.masked)),
    };
    for mount in &layout.mounts {
        if layout.way.iter().any(|(folder, _)| *folder == mount.path) {
            continue;
        }
        // With mounts of their own, hidden paths are covered already.
        let Some(around) = &mut around else {
            rules.push(Rule::new(&mount.path, rights(mount.access)));
            continue;
        };
        if !mount.access.is_read_only() {
            let rule = Rule::new(&mount.path, rights(mount.access));
            let seen = mount.identity.map(Seen::Inode);
            rules.push(Rule { seen, ..rule });
        } else {
            around.add(&mount.path, mount.access, &mut rules);
        }
    }
    // What is read in these folders has rules of its own.
    let unread = rights(Access::ALL) & !(AccessFs::ReadFile | AccessFs::Execute);
    let found = |(path, known): &(PathBuf, Known), rights| {
        // A command that runs could put a link there.
        Rule::of(Seen::Known(*known), path, rights)
    };
    rules.extend(layout.way.iter().map(|folder| found(folder, unread)));
    let beside = layout.beside.iter();
    rules.extend(beside.map(|beside| found(beside, rights(Access::ALL))));
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for name in ["null", "zero", "full", "random", "urandom", "tty", "ptmx"] {
        rules.push(Rule::new(Path::new("/dev").join(name), device));
    }
    // Else those are the terminals of the user, and a rule cannot be for new ones alone.
    if tier.has_namespaces() {
        rules.push(Rule::new("/dev/pts", device | AccessFs::ReadDir));
    }
    rules.push(Rule::new("/dev/shm", rights(Access::ALL)));
    if tier.has_namespaces() {
        // Debuggers write to `/proc/PID/mem`; the kernel checks which processes they may trace.
        rules.push(Rule::new(
            "/proc",
            rights(Access::READ) | AccessFs::WriteFile,
        ));
        rules.push(Rule::new("/", AccessFs::ReadDir.into()));
        rules.push(Rule::new(NODE_PROXY.0, rights(Access::READ)));
    } else {
        // The kernel consults Landlock about files of other processes.
        rules.push(Rule::new("/proc", rights(Access::READ)));
    }
    let basis = around.map(|around| around.basis);
    (rules, basis.unwrap_or_default())
}

/// What rules around hidden files were made of. They hold for what was there then, so they are of use for a command only if the same
/// rules would be made for it.
#[derive(Debug, Default)]
pub(crate) struct Basis {
    /// What is hidden, as it was found.
    hidden: Vec<(PathBuf, Option<Identity>)>,
    /// Folders whose entries have rules, as they were before they were listed; `None` of one that had just changed.
    listed: Vec<(PathBuf, Option<Stamp>)>,
}

/// A folder's inode, and the time at which a name came into it or went, which no program can set.
type Stamp = (Identity, SystemTime);

/// Longest time in which the clock of a file system may stand still: that of FAT, which is the coarsest.
const TICK: Duration = Duration::from_secs(2);

impl Basis {
    /// Returns whether it would show by now if a folder had changed since it was listed.
    pub fn is_settled(&self) -> bool {
        self.listed.iter().all(|(_, seen)| seen.is_some())
    }

    /// Returns a path at which something else is by now, or in which there may be.
    pub fn changed(&self) -> Option<&Path> {
        let is_other = |(path, seen): &&(PathBuf, Option<Stamp>)| {
            seen.is_some_and(|seen| stamp(path) != Some(seen))
        };
        let listed = self.listed.iter().filter(is_other);
        let hidden = { self.hidden.iter() }.filter(|(path, seen)| identity(path) != *seen);
        let mut changed = { listed.map(|(path, _)| path) }.chain(hidden.map(|(path, _)| path));
        changed.next().map(PathBuf::as_path)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn stamp(folder: &Path) -> Option<Stamp> {
    let found = fs::symlink_metadata(folder).ok()?;
    let seconds = Duration::from_secs(u64::try_from(found.ctime()).ok()?);
    let rest = Duration::from_nanos(u64::try_from(found.ctime_nsec()).ok()?);
    let changed = SystemTime::UNIX_EPOCH + seconds + rest;
    Some(((found.dev(), found.ino()), changed))
}

/// Returns whether a folder would have another stamp if it changed from now on.
fn is_settled((_, changed): &Stamp) -> bool {
    changed.elapsed().is_ok_and(|age| age > TICK)
}

/// What is hidden, for rules around it. A rule holds for all below, so where something is hidden there, each of its neighbours gets
/// one; of the folders on the way, only the names can be seen.
struct Around<'a> {
    /// In an order in which what is below a path comes next.
    hidden: BTreeSet<&'a Path>,
    /// What was looked at for the rules so far.
    basis: Basis,
    /// By which they are known under a name that they have been given meanwhile.
    inodes: HashSet<Identity>,
}

impl<'a> Around<'a> {
    fn new(hidden: &'a [PathBuf]) -> Self {
        let found: Vec<_> = { hidden.iter() }
            .map(|path| (path.clone(), identity(path)))
            .collect();
        Self {
            hidden: hidden.iter().map(PathBuf::as_path).collect(),
            inodes: found.iter().filter_map(|(_, inode)| *inode).collect(),
            basis: Basis {
                hidden: found,
                listed: Vec::new(),
            },
        }
    }

    /// Adds the rules that give this access to what is at a path and below, but for what is hidden.
    fn add(&mut self, path: &Path, access: Access, rules: &mut Vec<Rule>) {
        let is_hidden = |found: &Metadata| self.inodes.contains(&Known::of(found).inode);
        let Ok(found) = fs::symlink_metadata(path) else {
            return;
        };
        let next = self.hidden.range(path..).next();
        if is_hidden(&found) || next.is_some_and(|hidden| *hidden == path) {
            return;
        }
        let rule = |rights| Rule::of(Seen::Inode(Known::of(&found).inode), path, rights);
        if next.is_none_or(|hidden| !hidden.starts_with(path)) {
            rules.push(rule(rights(access)));
            return;
        }
        rules.push(rule(AccessFs::ReadDir.into()));
        let seen = stamp(path).filter(is_settled);
        self.basis.listed.push((path.to_owned(), seen));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            // The target of a link has rules at its own path.
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.add(&entry.path(), access, rules);
            }
        }
    }
}

fn rights(access: Access) -> BitFlags<AccessFs> {
    let mut rights = BitFlags::EMPTY;
    if access.read {
        rights |= AccessFs::ReadFile | AccessFs::ReadDir;
    }
    if access.write {
        rights |= AccessFs::WriteFile | AccessFs::Truncate;
    }
    if access.execute {
        rights |= AccessFs::Execute;
    }
    if access.create {
        // Device files cannot be created.
        rights |= AccessFs::MakeDir
            | AccessFs::MakeReg
            | AccessFs::MakeSock
            | AccessFs::MakeFifo
            | AccessFs::MakeSym
            | AccessFs::RemoveDir
            | AccessFs::RemoveFile
            | AccessFs::Refer;
    }
    rights
}
