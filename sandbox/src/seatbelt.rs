//! Profile of a policy for Seatbelt, the sandbox of macOS.
//!
//! A pure function, which every platform compiles and tests. Everything is denied that no rule allows, and of the rules
//! that match an operation the last one decides.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::access::Access;
use crate::plan::{Layout, Mount, MountSource};

/// Rules that do not depend on the policy: processes see and signal those of the same sandbox, use terminals and the
/// harmless devices, and look up users and certificates. Keychains, the clipboard, other programs and DNS stay out of
/// reach.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.trustd.agent"))
(allow file-read* file-write* file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx")
  (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom") (subpath "/dev/fd"))
(allow file-read* (literal "/"))
"#;

/// Returns the profile of a policy. `protected` are absolute paths that can be neither written nor created, below
/// `workspace`; `proxy_port` is the only one that can be connected to, on the loopback.
///
/// # Errors
///
/// If a path cannot be written into a profile.
pub(crate) fn profile(
    layout: &Layout,
    workspace: &Path,
    protected: &[PathBuf],
    proxy_port: Option<u16>,
) -> Result<String, String> {
    let mut profile = BASE.to_owned();
    for rule in rules(layout, workspace, protected) {
        let path = rule
            .path
            .to_str()
            .filter(|path| !path.contains(char::is_control));
        if path.is_none() {
            let path = rule.path.display();
            return Err(format!(
                "`{path}` has characters that a profile cannot hold"
            ));
        }
        profile.push_str(&rule.to_string());
    }
    // A file that runs as its owner would give these rights to anyone who runs it outside.
    profile.push_str("(deny file-write-setugid)\n");
    if let Some(port) = proxy_port {
        profile.push_str(&format!(
            "(allow network-outbound (remote ip \"localhost:{port}\"))\n"
        ));
    }
    Ok(profile)
}

/// Rule about a path.
#[derive(Debug)]
struct Rule<'a> {
    is_allowed: bool,
    operations: &'static [&'static str],
    /// Whether it covers everything below the path as well.
    is_deep: bool,
    path: &'a Path,
}

impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_allowed { "allow" } else { "deny" };
        let filter = if self.is_deep { "subpath" } else { "literal" };
        let path = self.path.to_string_lossy();
        let path = path.replace('\\', "\\\\").replace('"', "\\\"");
        let operations = self.operations.join(" ");
        writeln!(f, "({verb} {operations} ({filter} \"{path}\"))")
    }
}

const READING: &[&str] = &["file-read*"];
const WRITING: &[&str] = &["file-write*"];
const CHANGING: &[&str] = &["file-write-data"];
const CREATING: &[&str] = &["file-write-create", "file-write-unlink"];
const EXECUTING: &[&str] = &["process-exec*", "file-map-executable"];
const EVERYTHING: &[&str] = &[
    "file-read*",
    "file-write*",
    "process-exec*",
    "file-map-executable",
];
const LOOKING_UP: &[&str] = &["file-read-metadata"];
/// Removing, and renaming to another name.
const REMOVING: &[&str] = &["file-write-unlink"];

fn rules<'a>(layout: &'a Layout, workspace: &'a Path, protected: &'a [PathBuf]) -> Vec<Rule<'a>> {
    let mut rules = Vec::new();
    let mut rule = |is_allowed, operations, is_deep, path| {
        rules.push(Rule {
            is_allowed,
            operations,
            is_deep,
            path,
        });
    };
    for mount in &layout.mounts {
        match &mount.source {
            MountSource::Same => grant(&mut rule, &mount.path, mount.access),
            // A folder cannot be replaced; another one is used at its own path, below.
            MountSource::Other(_) | MountSource::Empty { .. } => {
                rule(false, EVERYTHING, true, &mount.path);
            }
        }
    }
    for mount in &layout.mounts {
        if let MountSource::Other(path) = &mount.source {
            grant(&mut rule, path, mount.access);
        }
    }
    // A path is looked up through the folders and links above it.
    let visible = layout.mounts.iter().map(Mount::place);
    let links = layout.links.iter().map(|(link, _)| link.as_path());
    let mut above: Vec<_> = visible.chain(links).flat_map(Path::ancestors).collect();
    above.sort();
    above.dedup();
    for path in above {
        rule(true, LOOKING_UP, false, path);
    }
    for path in &layout.masked {
        rule(false, EVERYTHING, true, path);
    }
    for path in &layout.pinned {
        rule(false, REMOVING, false, path);
    }
    for path in protected {
        rule(false, WRITING, true, path);
        // Neither can a folder above be moved away, and another be put in its place.
        let above = path.ancestors().skip(1);
        for folder in above.take_while(|folder| folder.starts_with(workspace)) {
            rule(false, REMOVING, false, folder);
        }
    }
    rules
}

/// Adds the rules of a granted path. What is not granted is denied, since a folder above may grant it.
fn grant<'a>(
    rule: &mut impl FnMut(bool, &'static [&'static str], bool, &'a Path),
    path: &'a Path,
    access: Access,
) {
    rule(access.read, READING, true, path);
    match (access.write, access.create) {
        (true, true) => rule(true, WRITING, true, path),
        (write, create) => {
            rule(false, WRITING, true, path);
            if write {
                rule(true, CHANGING, true, path);
            }
            if create {
                rule(true, CREATING, true, path);
            }
        }
    }
    rule(access.execute, EXECUTING, true, path);
}

impl Mount {
    /// Returns the path at which the content is found if no folder can be replaced.
    fn place(&self) -> &Path {
        match &self.source {
            MountSource::Other(path) => path,
            MountSource::Same | MountSource::Empty { .. } => &self.path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(path: &str, source: MountSource, access: &str) -> Mount {
        Mount {
            path: path.into(),
            source,
            access: access.parse().unwrap_or_default(),
            identity: None,
        }
    }

    /// The layout of a project with a folder of its own, a hidden file and temporary folders.
    fn layout() -> Layout {
        let other = |name: &str| MountSource::Other(format!("/scratch/{name}").into());
        Layout {
            mounts: vec![
                mount("/usr", MountSource::Same, "rx"),
                mount("/private/tmp", other("tmp"), "rwxc"),
                mount("/Users/u", other("home"), "rwxc"),
                mount("/Users/u/p", MountSource::Same, "rwxc"),
                mount("/Users/u/p/.git/config", MountSource::Same, "rx"),
                mount(
                    "/Users/u/p/hidden",
                    MountSource::Empty { mebibytes: 1 },
                    "r",
                ),
                mount("/Users/u/p/log", MountSource::Same, "w"),
            ],
            links: vec![("/tmp".into(), "private/tmp".into())],
            masked: vec!["/Users/u/p/.env".into()],
            pinned: vec!["/Users/u/p/.git".into()],
            ..Layout::default()
        }
    }

    fn protected() -> Vec<PathBuf> {
        ["/Users/u/p/.git/config", "/Users/u/p/a/.envrc"]
            .map(PathBuf::from)
            .to_vec()
    }

    #[test]
    fn a_policy_becomes_a_profile() {
        let profile = profile(&layout(), "/Users/u/p".as_ref(), &protected(), Some(3128)).unwrap();
        let own = profile.strip_prefix(BASE).unwrap();
        assert_eq!(own, include_str!("seatbelt/example.sb"));
    }

    #[test]
    fn a_path_is_quoted_and_one_that_cannot_be_is_an_error() {
        let of = |path: &str| {
            let layout = Layout {
                mounts: vec![mount(path, MountSource::Same, "r")],
                ..Layout::default()
            };
            profile(&layout, "/w".as_ref(), &[], None)
        };
        let quoted = of(r#"/a "b" \c"#).unwrap();
        assert!(
            quoted.contains(r#"(allow file-read* (subpath "/a \"b\" \\c"))"#),
            "{quoted}"
        );
        assert!(!quoted.contains("network"), "{quoted}");
        assert!(of("/a\n(allow default)").is_err());
    }

    /// Returns whether the profile allows an operation: the last rule that matches decides.
    fn allows(operation: &str, path: &str) -> bool {
        let (layout, protected) = (layout(), protected());
        let rules = rules(&layout, "/Users/u/p".as_ref(), &protected);
        let matches = |rule: &&Rule<'_>| {
            let path = Path::new(path);
            let is_there = match rule.is_deep {
                true => path.starts_with(rule.path),
                false => path == rule.path,
            };
            let mut operations = rule.operations.iter();
            let is_meant = operations.any(|known| match known.strip_suffix('*') {
                Some(start) => operation.starts_with(start),
                None => operation == *known,
            });
            is_there && is_meant
        };
        rules
            .iter()
            .rfind(matches)
            .is_some_and(|rule| rule.is_allowed)
    }

    #[test]
    fn the_last_rule_of_a_path_is_that_of_the_policy() {
        let operations = [
            ("r", "file-read-data"),
            ("w", "file-write-data"),
            ("c", "file-write-create"),
            ("d", "file-write-unlink"),
            ("x", "process-exec"),
        ];
        for (path, expected) in [
            ("/usr/bin/git", "rx"),
            ("/etc/passwd", ""),
            ("/private/tmp/x", ""),
            ("/scratch/tmp/x", "rwcdx"),
            ("/Users/u/.ssh/id", ""),
            ("/Users/u/p/src/a.rs", "rwcdx"),
            ("/Users/u/p/.git/config", "rx"),
            ("/Users/u/p/.git", "rwcx"),
            ("/Users/u/p/.git/objects/aa", "rwcdx"),
            ("/Users/u/p/a", "rwcx"),
            ("/Users/u/p/a/b", "rwcdx"),
            // Protected, and missing as yet.
            ("/Users/u/p/a/.envrc", "rx"),
            ("/Users/u/p/.env", ""),
            ("/Users/u/p/hidden/x", ""),
            ("/Users/u/p/log/x", "w"),
            // The workspace itself stays where it is.
            ("/Users/u/p", "rwcx"),
        ] {
            let found: String = operations
                .iter()
                .filter(|(_, operation)| allows(operation, path))
                .map(|(letter, _)| *letter)
                .collect();
            assert_eq!(found, expected, "{path}");
        }
        for path in ["/Users", "/Users/u", "/scratch", "/tmp"] {
            assert!(allows("file-read-metadata", path), "{path}");
            assert!(!allows("file-read-data", path), "{path}");
        }
    }
}
