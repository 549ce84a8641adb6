//! First layer: a file system namespace that contains only granted paths.
//!
//! All sources are opened before anything of them is covered, and mounted by file descriptor. So no path can change its
//! meaning in between, even while other commands work in the same directories. What is the same for every command is
//! built before there is one.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxAttributes, StatxFlags,
    makedev, openat2, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{getgid, getuid, pivot_root};

use super::numbers::{NAMES, list_at, numbers_of_commands, renumbered};
use super::setup::{DescribeError, SetupResult};
use crate::environment::NODE_PROXY;
use crate::plan::{Layout, Mount, MountSource, ResourceLimits};

/// Mount point of the new root during setup: exists on every system, and nothing in it is mounted inside.
const BUILD_POINT: &str = "/proc";
/// Places in the new root where devices and processes are built.
const BUILT_DEVICES: &str = "/.dev";
const BUILT_PROCESSES: &str = "/.proc";
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Files of `/proc` that expose the kernel or give access to it.
const HIDDEN: [&str; 17] = [
    "config.gz",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "modules",
    "sched_debug",
    "slabinfo",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
];
/// Number of commands of a session that can have as many processes as each may have, before others have none left.
const COMMANDS: u64 = 4;
const FROZEN: [&str; 5] = ["sys", "irq", "bus", "acpi", "fs"];

/// Source opened on the host, to be mounted inside.
struct OpenedMount<'a> {
    mount: &'a Mount,
    tree: Option<OwnedFd>,
}

fn open(mount: &Mount) -> SetupResult<OpenedMount<'_>> {
    let source = match &mount.source {
        MountSource::Same => &mount.path,
        MountSource::Other(path) => path,
        MountSource::Empty { .. } => return Ok(OpenedMount { mount, tree: None }),
    };
    let tree = clone(CWD, source).describe(source.display())?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if mount.access.is_read_only() {
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    if !mount.access.execute {
        attributes |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    set_attributes(&tree, attributes, true).describe(source.display())?;
    Ok(OpenedMount {
        mount,
        tree: Some(tree),
    })
}

/// Clones the mounts at `path`, detached. Fails if the path has symbolic links, which were resolved before.
fn clone(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let found = openat2(
        at,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(&found, "", flags)
}

pub(super) fn attach(tree: &OwnedFd, target: impl AsFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags)
}

pub(super) fn new_file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> SetupResult<OwnedFd> {
    let mount = || {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (name, value) in options {
            fsconfig_set_string(&context, *name, *value)?;
        }
        fsconfig_create(&context)?;
        let attributes = attributes | MountAttrFlags::MOUNT_ATTR_NOSUID;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    mount().describe(format!("mount {kind}"))
}

pub(super) fn set_attributes(
    tree: &OwnedFd,
    attributes: MountAttrFlags,
    is_recursive: bool,
) -> Result<(), Errno> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let change = Attributes {
        set: attributes.bits().into(),
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    let recursive = if is_recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: both pointers are to values that outlive the call, and the last argument is the size of the second.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const change,
            size_of::<Attributes>(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

/// Root directory of the new file system.
pub(crate) struct NewRoot(OwnedFd);

impl NewRoot {
    /// Builds what every command gets: devices and processes, at places of their own. Returns besides what the kernel tells
    /// of processes and its settings, which can be changed there.
    pub fn begin(limits: ResourceLimits) -> SetupResult<(Self, OwnedFd)> {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).describe("make mounts private")?;
        let devices = DEVICES
            .map(|name| clone(CWD, &Path::new("/dev").join(name)).map(|tree| (name, tree)))
            .into_iter()
            .filter_map(Result::ok)
            .collect();
        let limited = new_file_system(
            "tmpfs",
            &[("mode", "755"), ("size", "16m")],
            MountAttrFlags::empty(),
        )?;
        let target = fs::File::open(BUILD_POINT).describe(BUILD_POINT)?;
        attach(&limited, &target).describe("mount the new root")?;
        let root = Self(limited);
        root.devices(devices)?;
        let proc = root.proc(limits)?;
        root.node_proxy()?;
        Ok((root, proc))
    }

    /// Replaces the file system of this process by one that contains only `layout`, besides what every command gets.
    pub fn complete(self, layout: &Layout) -> SetupResult<()> {
        let opened: Vec<_> = layout.mounts.iter().map(open).collect::<SetupResult<_>>()?;
        let mut pinned = layout.pinned.iter().peekable();
        for opened in opened {
            // Before what is mounted in them, so that it needs no copy.
            let depth = opened.mount.path.components().count();
            while let Some(path) = pinned.next_if(|path| path.components().count() < depth) {
                self.pin(path)?;
            }
            self.mount(opened)?;
        }
        for path in pinned {
            self.pin(path)?;
        }
        for (link, target) in &layout.links {
            // Inside a granted directory, the link exists already.
            let _ = self.link(link, target);
        }
        for (built, place) in [(BUILT_DEVICES, "/dev"), (BUILT_PROCESSES, "/proc")] {
            self.relocate(built, place).describe(place)?;
        }
        self.name_users(&layout.masked)?;
        self.mask(&layout.masked)?;
        for folder in ["/run", "/home", "/var", "/root"] {
            let _ = self.folder(Path::new(folder));
        }
        self.become_root()
    }

    /// Moves what is mounted at `built` to its place, over what a grant has put there.
    fn relocate(&self, built: &str, place: &str) -> Result<(), Errno> {
        let tree = self.find(Path::new(built))?;
        attach(&tree, self.folder(Path::new(place))?)?;
        unlinkat(&self.0, built.trim_start_matches('/'), AtFlags::REMOVEDIR)
    }

    fn mount(&self, opened: OpenedMount<'_>) -> SetupResult<()> {
        let path = &opened.mount.path;
        let tree = match opened.tree {
            Some(tree) => tree,
            None => temporary(opened.mount)?,
        };
        let is_folder = rustix::fs::fstat(&tree)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir());
        let target = if is_folder {
            self.folder(path)
        } else {
            self.file(path)
        }
        .describe(path.display())?;
        attach(&tree, &target).describe(path.display())
    }

    /// Opens the directory at `path`, and creates missing ones. A link on the way, which a command may have left in a
    /// kept directory, is an error: it could lead to the host's file system, which is still the root.
    fn folder(&self, path: &Path) -> Result<OwnedFd, Errno> {
        match (self.find(path), path.parent(), path.file_name()) {
            (Err(Errno::NOENT), Some(parent), Some(name)) => {
                let parent = self.folder(parent)?;
                match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
                    // In a read-only grant it stays missing.
                    Ok(()) | Err(Errno::EXIST | Errno::ROFS | Errno::ACCESS | Errno::PERM) => {}
                    Err(errno) => return Err(errno),
                }
                self.find(path)
            }
            (found, _, _) => found,
        }
    }

    /// Opens the file at `path`, and creates it if missing.
    fn file(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.file_of_mode(path, Mode::from_raw_mode(0o644))
    }

    fn file_of_mode(&self, path: &Path, mode: Mode) -> Result<OwnedFd, Errno> {
        if let Ok(found) = self.find(path) {
            return Ok(found);
        }
        let folder = self.folder(path.parent().unwrap_or(Path::new("/")))?;
        let name = path.file_name().unwrap_or_default();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::WRONLY;
        rustix::fs::openat(folder, name, flags, mode)?;
        self.find(path)
    }

    fn find(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let relative = path.strip_prefix("/").unwrap_or(path);
        let relative = if relative.as_os_str().is_empty() {
            Path::new(".")
        } else {
            relative
        };
        openat2(
            &self.0,
            relative,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
        )
    }

    fn link(&self, link: &Path, target: &Path) -> Result<(), Errno> {
        let folder = self.folder(link.parent().unwrap_or(Path::new("/")))?;
        rustix::fs::symlinkat(target, folder, link.file_name().unwrap_or_default())
    }

    fn devices(&self, devices: Vec<(&str, OwnedFd)>) -> SetupResult<()> {
        let folder = Path::new(BUILT_DEVICES);
        let noexec = MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let own = new_file_system("tmpfs", &[("mode", "755"), ("size", "64k")], noexec)?;
        attach(&own, self.folder(folder).describe("/dev")?).describe("/dev")?;
        for (name, tree) in devices {
            let target = self.file(&folder.join(name)).describe(name)?;
            attach(&tree, target).describe(name)?;
        }
        for (link, target) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
        ] {
            self.link(&folder.join(link), Path::new(target))
                .describe(link)?;
        }
        let terminals =
            new_file_system("devpts", &[("ptmxmode", "0666"), ("mode", "620")], noexec)?;
        let target = self.folder(&folder.join("pts")).describe("/dev/pts")?;
        attach(&terminals, target).describe("/dev/pts")?;
        let target = self.folder(&folder.join("shm")).describe("/dev/shm")?;
        let shared = new_file_system(
            "tmpfs",
            &[("mode", "1777"), ("size", "256m")],
            MountAttrFlags::MOUNT_ATTR_NODEV,
        )?;
        attach(&shared, target).describe("/dev/shm")?;
        set_attributes(&own, MountAttrFlags::MOUNT_ATTR_RDONLY, false).describe("/dev")
    }

    fn proc(&self, limits: ResourceLimits) -> SetupResult<OwnedFd> {
        let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let own = new_file_system("proc", &[], attributes)?;
        let folder = Path::new(BUILT_PROCESSES);
        attach(&own, self.folder(folder).describe("/proc")?).describe("/proc")?;
        let writable = self.copy(folder).describe("/proc")?;
        // Before Linux 6.14 this limit is global; RLIMIT_NPROC has to suffice there.
        let most = limits.processes * COMMANDS;
        let _ = write(&own, "sys/kernel/pid_max", most.to_string());
        for name in FROZEN {
            let path = folder.join(name);
            if let Ok(tree) = self.copy(&path) {
                set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY, true).describe(name)?;
                attach(&tree, self.find(&path).describe(name)?).describe(name)?;
            }
        }
        self.mask(&HIDDEN.map(|name| folder.join(name)))?;
        Ok(writable)
    }

    fn node_proxy(&self) -> SetupResult<()> {
        let (path, text) = NODE_PROXY;
        self.file(Path::new(path)).describe(path)?;
        write(&self.0, path.trim_start_matches('/'), text).describe(path)
    }

    /// Gives the user and its group the names that they have outside, where commands have other numbers.
    fn name_users(&self, hidden: &[PathBuf]) -> SetupResult<()> {
        let Some((as_user, as_group)) = numbers_of_commands() else {
            return Ok(());
        };
        let (user, group) = (getuid().as_raw(), getgid().as_raw());
        let own = Path::new("/.names");
        for path in NAMES.map(Path::new) {
            if hidden.iter().any(|hidden| path.starts_with(hidden)) {
                continue;
            }
            let (Ok(target), Some(list)) = (self.find(path), list_at(&self.0, path)) else {
                continue;
            };
            let list = match path.ends_with("group") {
                true => renumbered(&list, 2, group, as_group),
                false => renumbered(&renumbered(&list, 2, user, as_user), 3, group, as_group),
            };
            let is_covered = || {
                self.file(own)?;
                write(&self.0, ".names", &list)?;
                let tree = self.copy(own)?;
                set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY, false)?;
                attach(&tree, target)?;
                unlinkat(&self.0, ".names", AtFlags::empty())
            };
            is_covered().describe(path.display())?;
        }
        Ok(())
    }

    /// Covers files and directories with empty ones.
    fn mask(&self, paths: &[PathBuf]) -> SetupResult<()> {
        let (file, folder) = (Path::new("/.empty-file"), Path::new("/.empty"));
        let closed = Path::new("/.closed-file");
        self.file(file).describe("mask")?;
        self.file_of_mode(closed, Mode::empty()).describe("mask")?;
        self.folder(folder).describe("mask")?;
        for path in paths {
            let Ok(target) = self.find(path) else {
                continue;
            };
            let is_folder = rustix::fs::fstat(&target)
                .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir());
            let empty = match path.starts_with("/etc") {
                _ if is_folder => folder,
                // As few may read it outside, programs expect an error.
                true => closed,
                false => file,
            };
            let tree = self.copy(empty).describe(path.display())?;
            set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY, false)
                .describe(path.display())?;
            attach(&tree, target).describe(path.display())?;
        }
        Ok(())
    }

    /// Mounts a directory on itself, since a mount point can be neither renamed nor replaced.
    fn pin(&self, path: &Path) -> SetupResult<()> {
        let tree = self.copy(path).describe(path.display())?;
        attach(&tree, self.find(path).describe(path.display())?).describe(path.display())
    }

    fn copy(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let found = self.find(path)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        open_tree(&found, "", flags)
    }

    /// Makes this the root directory, and detaches the old one.
    fn become_root(self) -> SetupResult<()> {
        set_attributes(&self.0, MountAttrFlags::MOUNT_ATTR_RDONLY, false)
            .describe("freeze the new root")?;
        rustix::process::fchdir(&self.0).describe("enter the new root")?;
        pivot_root(".", ".").describe("pivot_root")?;
        unmount(".", UnmountFlags::DETACH).describe("leave the old root")?;
        rustix::process::chdir("/").describe("chdir")
    }
}

/// Returns a path of the layout that does not lead to what was mounted there any more. The kernel takes a mount away when
/// its mount point is removed or replaced outside, and a renamed folder takes the mounts in it along; the path then leads
/// to a file that the mount was to cover.
pub(crate) fn out_of_place(layout: &Layout) -> Option<&Path> {
    let look = |path: &Path| {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        statx(CWD, path, flags, StatxFlags::TYPE | StatxFlags::INO)
    };
    let is_mount_point = |found: &Statx| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    // The number of this process does not tell any more whether the names are covered: it has that of commands already.
    let built = ["/dev", "/proc"].into_iter().chain(NAMES).map(Path::new);
    let covers = |path: &Path| {
        let masked = layout.masked.iter().map(PathBuf::as_path);
        masked
            .chain(built.clone())
            .any(|above| path.starts_with(above))
    };
    let mounts = layout.mounts.iter().enumerate();
    let uncovered = mounts.filter(|(at, mount)| {
        let mut later = layout.mounts[at + 1..].iter();
        !covers(&mount.path) && !later.any(|later| later.path == mount.path)
    });
    let moved = uncovered.map(|(_, mount)| mount).find(|mount| {
        let is_as_mounted = |found: Statx| {
            let device = makedev(found.stx_dev_major, found.stx_dev_minor);
            let is_same = |identity| identity == (device, found.stx_ino);
            is_mount_point(&found) && mount.identity.is_none_or(is_same)
        };
        !look(&mount.path).is_ok_and(is_as_mounted)
    });
    // Where nothing was found to cover, there may be a link.
    let is_exposed = |found: Statx| {
        let kind = FileType::from_raw_mode(found.stx_mode.into());
        !kind.is_symlink() && !is_mount_point(&found)
    };
    let mut kept = layout.masked.iter().chain(&layout.pinned);
    moved
        .map(|mount| &mount.path)
        .or_else(|| kept.find(|path| look(path).is_ok_and(is_exposed)))
        .map(PathBuf::as_path)
}

/// Creates an empty temporary file system.
fn temporary(mount: &Mount) -> SetupResult<OwnedFd> {
    let MountSource::Empty { mebibytes } = mount.source else {
        return Err(format!("{}: not an empty directory", mount.path.display()));
    };
    let size = format!("{mebibytes}m");
    let is_shared = mount.path.ends_with("tmp");
    let mode = if is_shared { "1777" } else { "700" };
    let options = [
        ("mode", mode),
        ("size", size.as_str()),
        ("nr_inodes", "200k"),
    ];
    new_file_system("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NODEV)
}

/// Writes to a file that there is.
pub(super) fn write(folder: &OwnedFd, name: &str, text: impl AsRef<[u8]>) -> Result<(), Errno> {
    let mut text = text.as_ref();
    let file = rustix::fs::openat(
        folder,
        name,
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    while !text.is_empty() {
        let written = rustix::io::write(&file, text)?;
        text = &text[written..];
    }
    Ok(())
}
