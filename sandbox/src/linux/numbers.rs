//! Which numbers root and its group have for commands, and the lists that name them.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::process::getuid;

/// Lists of users and groups.
pub(super) const NAMES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// Most bytes of a list: both have to fit into the root directory of commands, with longer numbers in them.
const MOST_BYTES: u64 = 4 << 20;

/// Returns the numbers that root and its group have for commands of a session, if this process is root's: who has number 0
/// there has no right of root's, so programs that ask for the number, to change owners or to refuse to run, would be misled.
pub(super) fn numbers_of_commands() -> Option<(u32, u32)> {
    const FIRST_OF_PEOPLE: u32 = 1000;
    let is_root = getuid().is_root();
    is_root.then_some((FIRST_OF_PEOPLE, FIRST_OF_PEOPLE))
}

/// Returns the list that is at `path` below `root`, unless it is too long or no file. A pipe in its place is not waited for.
pub(super) fn list_at(root: impl AsFd, path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    let below = path.strip_prefix("/").unwrap_or(path);
    let file = File::from(openat2(root, below, flags, Mode::empty(), within).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut list = Vec::new();
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut list).ok()?;
    (read as u64 <= MOST_BYTES).then_some(list)
}

/// Returns a list of users or groups with another number for one of them. `field` is the place of the number in an entry.
pub(super) fn renumbered(list: &[u8], field: usize, from: u32, to: u32) -> Vec<u8> {
    let (from, to) = (from.to_string(), to.to_string());
    let entry = |line: &[u8]| {
        let mut words: Vec<_> = line.split(|byte| *byte == b':').collect();
        match words.get_mut(field) {
            Some(number) if *number == from.as_bytes() => *number = to.as_bytes(),
            _ => {}
        }
        words.join(&b':')
    };
    let lines: Vec<_> = list.split(|byte| *byte == b'\n').map(entry).collect();
    lines.join(&b'\n')
}

#[cfg(test)]
mod tests {
    use rustix::fs::FileType;

    use super::*;

    #[test]
    fn only_a_file_of_usual_length_is_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let root = File::open(folder.path()).unwrap();
        let at = |name: &str| list_at(&root, &Path::new("/").join(name));
        std::fs::write(folder.path().join("list"), "u:x:1:1\n").unwrap();
        assert_eq!(at("list").unwrap(), b"u:x:1:1\n");
        let long = File::create(folder.path().join("long")).unwrap();
        long.set_len(MOST_BYTES).unwrap();
        assert_eq!(at("long").unwrap().len() as u64, MOST_BYTES);
        long.set_len(MOST_BYTES + 1).unwrap();
        assert_eq!(at("long"), None);
        // Nobody writes to it, so whoever waited would wait for ever.
        let mode = Mode::from_bits_truncate(0o600);
        rustix::fs::mknodat(&root, "pipe", FileType::Fifo, mode, 0).unwrap();
        assert_eq!(at("pipe"), None);
        std::os::unix::fs::symlink("list", folder.path().join("link")).unwrap();
        for name in ["link", "none", "."] {
            assert_eq!(at(name), None, "{name}");
        }
    }

    #[test]
    fn one_user_of_a_list_has_another_number() {
        let users = b"root:x:0:0:root:/root:/bin/bash\n+\nsync:x:4:0:0:/:/0\nu:x:1000:10::/home/u:";
        let now = renumbered(users, 2, 0, 1000);
        let now = String::from_utf8(renumbered(&now, 3, 0, 1000)).unwrap();
        assert_eq!(
            now,
            "root:x:1000:1000:root:/root:/bin/bash\n+\nsync:x:4:1000:0:/:/0\nu:x:1000:10::/home/u:"
        );
        let now = renumbered(b"root:x:0:0\nsudo:x:27:u,0\n", 2, 0, 1000);
        assert_eq!(now, b"root:x:1000:0\nsudo:x:27:u,0\n");
    }
}
