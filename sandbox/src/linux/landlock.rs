//! Second layer: Landlock enforces the same policy again, so that a faulty mount is no escape.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use rustix::fs::{FileType, fstat};

use super::setup::SetupResult;
use crate::access::{Access, Tier};
use crate::bounds::Bounds;
use crate::environment::NODE_PROXY;
use crate::plan::Layout;

/// Required ABI: since version 3, truncation needs write permission.
const FLOOR: ABI = ABI::V3;
/// Newest ABI used if available.
const BEST: ABI = ABI::V6;

/// Restricts this process and its descendants. Paths are resolved in the file system that the process is in.
pub(crate) fn restrict(tier: Tier, layout: &Layout) -> SetupResult<()> {
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
    let status = ruleset(AccessFs::from_all, network, scope, rules(tier, layout))
        .and_then(|ruleset| beside_hidden(ruleset, layout))
        .and_then(RulesetCreated::restrict_self)
        .map_err(|error| format!("landlock: {error}"))?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("landlock: not enforced by this kernel".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// Returns a ruleset that keeps a process within the bounds. What they do not limit is not governed.
pub(crate) fn bounded(bounds: &Bounds) -> SetupResult<OwnedFd> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let hides = !bounds.hidden.is_empty();
    let content = if hides {
        AccessFs::ReadFile.into()
    } else {
        BitFlags::EMPTY
    };
    let device = AccessFs::WriteFile | AccessFs::IoctlDev | content;
    let devices = ["null", "zero", "full", "random", "urandom"];
    let devices = devices.map(|name| (Path::new("/dev").join(name), device));
    let writable = { bounds.writable.iter() }.map(|path| (path.clone(), rights(Access::ALL)));
    let mut rules: Vec<_> = devices.into_iter().chain(writable).collect();
    if hides {
        around(Path::new("/"), Access::READ, &bounds.hidden, &mut rules);
    }
    let governed = |abi| (AccessFs::from_all(abi) & !reading) | content;
    let scope = Scope::AbstractUnixSocket | Scope::Signal;
    let ruleset = ruleset(governed, AccessNet::from_all(BEST), scope, rules)
        .map_err(|error| format!("landlock: {error}"))?;
    Option::<OwnedFd>::from(ruleset).ok_or_else(|| "landlock: not known to this kernel".to_owned())
}

/// Returns the ruleset that refuses what it governs of an ABI's accesses to files, and of those to the network, but for what
/// the rules of paths allow, and what is in the scope with processes outside.
fn ruleset(
    governed: impl Fn(ABI) -> BitFlags<AccessFs>,
    network: BitFlags<AccessNet>,
    scope: BitFlags<Scope>,
    rules: Vec<(PathBuf, BitFlags<AccessFs>)>,
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
    for (path, rights) in rules {
        // Missing paths need no rule.
        let Ok(fd) = PathFd::new(&path) else { continue };
        let mut rights = rights & governed(BEST);
        let of_file = rights & AccessFs::from_file(BEST);
        if of_file != rights && !path.is_dir() {
            rights = of_file;
        }
        if !rights.is_empty() {
            ruleset = ruleset.add_rule(PathBeneath::new(fd, rights))?;
        }
    }
    Ok(ruleset)
}

/// Adds the rules for what is beside hidden files in folders that can be written, if it is still the same.
fn beside_hidden(
    mut ruleset: RulesetCreated,
    layout: &Layout,
) -> Result<RulesetCreated, RulesetError> {
    for (path, known) in &layout.beside {
        let Ok(fd) = PathFd::new(path) else { continue };
        let Ok(found) = fstat(&fd) else { continue };
        if (found.st_dev, found.st_ino) != *known {
            continue;
        }
        let is_folder = FileType::from_raw_mode(found.st_mode).is_dir();
        let rights = match is_folder {
            true => rights(Access::ALL),
            false => rights(Access::ALL) & AccessFs::from_file(BEST),
        };
        ruleset = ruleset.add_rule(PathBeneath::new(fd, rights))?;
    }
    Ok(ruleset)
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

fn rules(tier: Tier, layout: &Layout) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let mut rules = Vec::new();
    for mount in &layout.mounts {
        if layout.way.contains(&mount.path) {
            continue;
        }
        // With mounts of their own, hidden paths are covered already.
        if tier.has_namespaces() || !mount.access.is_read_only() {
            rules.push((mount.path.clone(), rights(mount.access)));
        } else {
            around(&mount.path, mount.access, &layout.masked, &mut rules);
        }
    }
    // What is read in these folders has rules of its own.
    let unread = rights(Access::ALL) & !(AccessFs::ReadFile | AccessFs::Execute);
    rules.extend(layout.way.iter().map(|folder| (folder.clone(), unread)));
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for name in ["null", "zero", "full", "random", "urandom", "tty", "ptmx"] {
        rules.push((Path::new("/dev").join(name), device));
    }
    // Else those are the terminals of the user, and a rule cannot be for new ones alone.
    if tier.has_namespaces() {
        rules.push(("/dev/pts".into(), device | AccessFs::ReadDir));
    }
    rules.push(("/dev/shm".into(), rights(Access::ALL)));
    if tier.has_namespaces() {
        // Debuggers write to `/proc/PID/mem`; the kernel checks which processes they may trace.
        rules.push(("/proc".into(), rights(Access::READ) | AccessFs::WriteFile));
        rules.push(("/".into(), AccessFs::ReadDir.into()));
        rules.push((NODE_PROXY.0.into(), rights(Access::READ)));
    } else {
        // The kernel consults Landlock about files of other processes.
        rules.push(("/proc".into(), rights(Access::READ)));
    }
    rules
}

/// Adds the rules of a folder. A rule holds for all below, so where something is hidden there, each of its neighbours
/// gets one; of the folders on the way, only the names can be seen.
fn around(
    path: &Path,
    access: Access,
    hidden: &[PathBuf],
    rules: &mut Vec<(PathBuf, BitFlags<AccessFs>)>,
) {
    if hidden.iter().any(|hidden| hidden == path) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        rules.push((path.to_owned(), rights(access)));
        return;
    }
    rules.push((path.to_owned(), AccessFs::ReadDir.into()));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        // The target of a link has rules at its own path.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            around(&entry.path(), access, hidden, rules);
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
