//! Which numbers root and its group have for commands, and the lists that name them.

use rustix::process::getuid;

/// Lists of users and groups.
pub(super) const NAMES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// Returns the numbers that root and its group have for commands of a session, if this process is root's: who has number 0
/// there has no right of root's, so programs that ask for the number, to change owners or to refuse to run, would be misled.
pub(super) fn numbers_of_commands() -> Option<(u32, u32)> {
    const FIRST_OF_PEOPLE: u32 = 1000;
    let is_root = getuid().is_root();
    is_root.then_some((FIRST_OF_PEOPLE, FIRST_OF_PEOPLE))
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
    use super::*;

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
