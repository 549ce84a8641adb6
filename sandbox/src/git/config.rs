//! Reads git's configuration files as git does, with everything that they include, whatever the condition: what holds
//! for one branch or folder today may hold for another tomorrow.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use gix_config::File;
use gix_config::file::Metadata;
use gix_config::file::init::Options;

/// Largest file that is read, in bytes.
pub(super) const LONGEST: u64 = 1 << 20;
/// Largest number of files that belong to one configuration. Git gives up at ten levels of inclusion.
const FILES: usize = 200;

/// One setting of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Section, in lower case.
    pub section: String,
    /// Subsection, as it is written.
    pub subsection: Option<Vec<u8>>,
    /// Name, in lower case.
    pub name: String,
    /// Value; empty if there is no equals sign.
    pub value: Vec<u8>,
}

/// Configuration: the settings of some files and of those that they include.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub list: Vec<Setting>,
    /// Included files, whether they exist or not.
    pub included: Vec<PathBuf>,
    /// Files that cannot be read as git would.
    pub not_understood: Vec<PathBuf>,
}

impl Settings {
    /// Reads configuration files, and those that they include. Files that do not exist are empty.
    pub fn read(files: impl IntoIterator<Item = PathBuf>, home: Option<&Path>) -> Self {
        let mut settings = Self::default();
        let mut waiting: Vec<_> = files.into_iter().collect();
        let mut seen = HashSet::new();
        while let Some(path) = waiting.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let list = (seen.len() <= FILES).then(|| read_file(&path)).flatten();
            let Some(list) = list else {
                settings.not_understood.push(path);
                continue;
            };
            for value in list.iter().filter_map(included) {
                match target(value, path.parent().unwrap_or(Path::new("/")), home) {
                    Target::At(target) => {
                        settings.included.push(target.clone());
                        waiting.push(target);
                    }
                    Target::Elsewhere => {}
                    Target::Unknown => settings.not_understood.push(path.clone()),
                }
            }
            settings.list.extend(list);
        }
        settings
    }

    /// Returns the last value of `section.name`.
    pub fn last(&self, section: &str, name: &str) -> Option<&[u8]> {
        let mut found = self.list.iter().rev();
        let found = found.find(|setting| {
            setting.section == section && setting.subsection.is_none() && setting.name == name
        });
        Some(&found?.value)
    }
}

/// Place that a path in a configuration names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    At(PathBuf),
    /// In a folder of git's installation.
    Elsewhere,
    /// The home of a user who is not known here.
    Unknown,
}

/// Returns the place that a path in a configuration names; a relative one is below `folder`.
pub(super) fn target(value: &[u8], folder: &Path, home: Option<&Path>) -> Target {
    let value = value.strip_prefix(b":(optional)").unwrap_or(value);
    if value.starts_with(b"%(prefix)/") {
        return Target::Elsewhere;
    }
    let path = Path::new(OsStr::from_bytes(value));
    let Some(rest) = value.strip_prefix(b"~") else {
        return Target::At(folder.join(path));
    };
    let end = rest.iter().position(|byte| *byte == b'/');
    let (user, below) = match end {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, &b""[..]),
    };
    let at = |home: &Path| Target::At(home.join(OsStr::from_bytes(below)));
    match user {
        // Without a home, git gives up.
        b"" => home.map_or(Target::Elsewhere, at),
        user => home_of(user).map_or(Target::Unknown, |home| at(&home)),
    }
}

/// Returns the home of another user of this machine.
fn home_of(user: &[u8]) -> Option<PathBuf> {
    let list = fs::read("/etc/passwd").ok()?;
    let mut lines = list.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let fields: Vec<_> = line.split(|byte| *byte == b':').collect();
        let is_meant = fields.first() == Some(&user);
        is_meant.then(|| PathBuf::from(OsStr::from_bytes(fields.get(5).copied().unwrap_or(b"/"))))
    })
}

fn included(setting: &Setting) -> Option<&[u8]> {
    let is_include = match setting.section.as_str() {
        "include" => setting.subsection.is_none(),
        "includeif" => setting.subsection.is_some(),
        _ => false,
    };
    let is_path = is_include && setting.name == "path";
    is_path.then_some(setting.value.as_slice())
}

/// Reads one file; `None` if git would read it otherwise, or not at all.
pub(super) fn read_file(path: &Path) -> Option<Vec<Setting>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => return Some(Vec::new()),
        Err(_) => return None,
    };
    if path.starts_with("/dev") {
        return Some(Vec::new());
    }
    // Reading a named pipe would block forever.
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    parse(&fs::read(path).ok()?)
}

/// Git goes on without a file that it cannot reach.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

/// Parses the text of a configuration file; `None` if it is not understood.
pub(super) fn parse(text: &[u8]) -> Option<Vec<Setting>> {
    // Git takes the rest of a value behind a NUL for absent.
    if text.contains(&0) {
        return None;
    }
    let file = File::from_bytes_no_includes(text, Metadata::api(), Options::default()).ok()?;
    let mut settings = Vec::new();
    for section in file.sections() {
        let header = section.header();
        let name = String::from_utf8_lossy(header.name()).to_ascii_lowercase();
        let mut names: Vec<_> = section.value_names().collect();
        names
            .iter_mut()
            .for_each(|name| name.make_ascii_lowercase());
        names.sort();
        names.dedup();
        for key in names {
            let setting = |value| Setting {
                section: name.clone(),
                subsection: header.subsection_name().map(|name| name.to_vec()),
                name: key.clone(),
                value,
            };
            let values = section.values(&key);
            settings.extend(values.into_iter().map(|value| setting(value.to_vec())));
        }
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Returns the settings as git reads them, in order of their names; `None` if it refuses the file.
    fn of_git(path: &Path) -> Option<Vec<(String, Vec<u8>)>> {
        let output = Command::new("git")
            .args(["config", "--list", "-z", "--no-includes", "--file"])
            .arg(path)
            .output()
            .unwrap();
        let entries = output.stdout.split(|byte| *byte == 0);
        let settings = entries.filter(|entry| !entry.is_empty()).map(|entry| {
            let mut parts = entry.splitn(2, |byte| *byte == b'\n');
            let name = String::from_utf8_lossy(parts.next().unwrap()).into_owned();
            (name, parts.next().unwrap_or_default().to_vec())
        });
        // A setting in front of all sections has no effect.
        let settings = settings.filter(|(name, _)| name.contains('.'));
        output.status.success().then(|| sorted(settings))
    }

    fn sorted(settings: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
        let mut settings: Vec<_> = settings.collect();
        settings.sort();
        settings
    }

    fn ours(path: &Path) -> Option<Vec<(String, Vec<u8>)>> {
        let settings = read_file(path)?.into_iter().map(|setting| {
            let section = match setting.subsection {
                Some(name) => format!("{}.{}", setting.section, String::from_utf8_lossy(&name)),
                None => setting.section,
            };
            (format!("{section}.{}", setting.name), setting.value)
        });
        Some(sorted(settings))
    }

    /// What git reads is read alike or not at all.
    #[test]
    fn files_are_read_as_git_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        for (text, is_understood) in [
            ("[core]\n\thooksPath = .husky/_\n", true),
            ("[core] hooksPath = x", true),
            ("[core]hooksPath=x\n[core]hookspath=y", true),
            ("[core]\n a = x ; comment\n b = y # comment\n", true),
            ("[core]\n a = \"x ; no comment\" # one\n", true),
            ("[core]\n a = one \\\n two\\\nthree\n", true),
            ("[core]\n a = \"one \\\n two\"\n", true),
            ("[core]\n a = a\"b\"c\\td\\ne\\\\f\\\"g\n", true),
            ("[core]\n a = \"\"\n b =\n c\n", true),
            ("[core]\n a   b = c\n", true),
            ("[core]\r\n a = b\r\n", true),
            ("\u{feff}[core]\n a = b\n", true),
            ("[include \"Sub \\\"x\\\" \\\\ y\"]\n path = z\n", true),
            ("[includeIf \"gitdir:~/x/\"] path = y", true),
            ("[Include.sub]\n path = x\n", true),
            ("[a]\n x = 1\n[a]\n x = 2\n[a \"b\"]\n x = 3\n", true),
            ("# [core]\n;a = b\n[core] # x\n a = b\n", true),
            ("[core]\n a = tab\tin\t it  \n", true),
            ("[core]\n a = ~/x\n b = %(prefix)/y\n", true),
            ("[core]\n a = umlaut \u{e4}\n", true),
            ("[core\n a = b\n", false),
            ("[core]\n a = \"open\n", false),
            ("[core]\n a = bad \\x escape\n", false),
            ("a = b\n", true),
            ("[core]\n 1a = b\n", false),
            ("[core]\n a = b\0c\n", false),
            ("[core]\n a = b\n[", false),
            ("[core]\n a = b\\", true),
            ("", true),
        ] {
            fs::write(&path, text).unwrap();
            let (git, ours) = (of_git(&path), ours(&path));
            assert_eq!(ours.is_some(), is_understood, "{text:?}: {git:?} {ours:?}");
            // What git refuses runs nothing.
            if ours.is_some() && git.is_some() {
                assert_eq!(ours, git, "{text:?}");
            }
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(150))]
        #[test]
        fn no_file_is_read_otherwise(parts in proptest::collection::vec(proptest::sample::select(vec![
            "[core]", "[a \"b\"]", "[a \"", "\"]", "[", "]", "\n", "\n", "\r\n", " ", "\t", "=", "x = y", "key", "value", "\"", "\\", "\\\n",
            "\\n", "\\\"", "#", ";", ".", "-", "path = p", "\u{b}", "\u{c}", "\u{e4}", "a.b", "1", "\u{a0}", "\r",
        ]), 0..24)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("config");
            let text = parts.concat();
            fs::write(&path, &text).unwrap();
            if let (Some(ours), Some(git)) = (ours(&path), of_git(&path)) {
                proptest::prop_assert_eq!(ours, git, "{:?}", text);
            }
        }
    }

    #[test]
    fn includes_are_followed_whatever_their_condition() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (name, text) in [
            (
                "config",
                "[include] path = one\n[includeIf \"onbranch:x\"]\npath = ~/two # why\n",
            ),
            (
                "one",
                "[include]\n path = sub/three\n path = one\n[core] a = 1",
            ),
            (
                "home/two",
                "[core] b = 2\n[include] path = ~nobody-of-this-name/x\n",
            ),
        ] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let settings = Settings::read([root.join("config")], Some(&root.join("home")));
        assert_eq!(settings.last("core", "a"), Some(&b"1"[..]));
        assert_eq!(settings.last("core", "b"), Some(&b"2"[..]));
        let mut included = settings.included.clone();
        included.sort();
        included.dedup();
        assert_eq!(
            included,
            ["home/two", "one", "sub/three"].map(|name| root.join(name))
        );
        assert_eq!(settings.not_understood, [root.join("home/two")]);
    }
}
