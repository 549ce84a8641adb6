//! The options of tar, which may be written in three styles: which file it writes, and which programs it starts.

use super::word::Word;

/// Letters that take a value.
const WITH_VALUE: &str = "bCFfgHIKLNTVX";
/// Letters without one that are harmless.
const FLAGS: &str = "ABGJMOSUWZacdhijklmnoprtuvwxz";
/// Long options that are harmless, with their value behind `=`.
const LONG: &str = "\
    acls add-file after-date anchored append atime-preserve auto-compress backup block-number blocking-factor bzip2 \
    catenate check-device check-links checkpoint clamp-mtime compare compress concatenate confirmation create \
    delay-directory-restore delete dereference diff exclude exclude-backups exclude-caches exclude-caches-all \
    exclude-caches-under exclude-from exclude-ignore exclude-ignore-recursive exclude-tag exclude-tag-all \
    exclude-tag-under exclude-vcs exclude-vcs-ignores extract files-from force-local format full-time get group \
    group-map gunzip gzip hard-dereference help hole-detection ignore-case ignore-command-error ignore-failed-read \
    ignore-zeros incremental interactive keep-directory-symlink keep-newer-files keep-old-files label level list \
    lzip lzma lzop mode mtime multi-volume newer newer-mtime null numeric-owner occurrence old-archive \
    one-file-system overwrite overwrite-dir owner owner-map pax-option portability posix preserve-order \
    preserve-permissions quote-chars quoting-style read-full-records record-size recursion same-order same-owner \
    same-permissions seek selinux show-defaults show-omitted-dirs show-stored-names show-transformed-names \
    skip-old-files sort sparse sparse-version starting-file strip-components tape-length test-label to-stdout totals \
    touch uncompress ungzip unlink-first unquote update utc verbatim-files-from verbose verify version \
    warning wildcards wildcards-match-slash xattrs xattrs-exclude xattrs-include xz zstd";
/// Long options whose value is a program to start.
const PROGRAMS: [&str; 7] = [
    "checkpoint-action",
    "info-script",
    "new-volume-script",
    "rmt-command",
    "rsh-command",
    "to-command",
    "use-compress-program",
];

/// What is done at checkpoints without a program.
const HARMLESS_ACTIONS: [&str; 7] = ["bell", "dot", "echo", "sleep", "totals", "ttyout", "wait"];

/// What the options of a call of tar name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tar {
    /// Files that it writes.
    pub written: Vec<String>,
    /// Programs that it starts.
    pub started: Vec<String>,
    /// The last argument that is, or may become, an option which is not known.
    pub unknown: Option<usize>,
}

/// Returns what the options name. `arguments` are the words after the program.
pub(super) fn read(arguments: &[Word]) -> Tar {
    let mut reader = Reader {
        arguments,
        at: 0,
        archives: Vec::new(),
        folders: Vec::new(),
        is_local: false,
        creates: false,
        extracts: false,
        is_shown: false,
        renames: false,
        tar: Tar::default(),
    };
    while let Some(word) = arguments.get(reader.at) {
        let index = reader.at;
        reader.at += 1;
        let taken = match word.text.as_deref() {
            None if word.may_become_option() || index == 0 => None,
            None => Some(()),
            Some(text) => match text.strip_prefix("--") {
                Some(long) => reader.take_long(long),
                None if text.starts_with('-') || index == 0 => reader.take_letters(text),
                None => Some(()),
            },
        };
        if taken.is_none() {
            reader.tar.unknown = Some(index);
        }
    }
    reader.end()
}

/// Reads the arguments of tar.
struct Reader<'a> {
    arguments: &'a [Word],
    at: usize,
    archives: Vec<String>,
    /// Folders that are changed to.
    folders: Vec<String>,
    /// Whether a colon in the name of an archive does not stand for another machine.
    is_local: bool,
    creates: bool,
    extracts: bool,
    /// Whether files are extracted to the standard output.
    is_shown: bool,
    /// Whether files get other names.
    renames: bool,
    tar: Tar,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<String> {
        let word = self.arguments.get(self.at)?;
        self.at += 1;
        word.text.clone()
    }

    /// Takes a long option; `None` if it, or its value, is not known.
    fn take_long(&mut self, long: &str) -> Option<()> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let is = |option: &str| name.len() > 1 && option.starts_with(name);
        let is_any = |options: &[&str]| options.iter().copied().any(is);
        self.creates |= is_any(&[
            "create",
            "append",
            "update",
            "catenate",
            "concatenate",
            "delete",
        ]);
        self.extracts |= is_any(&["extract", "get"]);
        self.is_local |= name == "force-local";
        self.is_shown |= name == "to-stdout";
        if is_any(&["transform", "xform"]) && !LONG.split_whitespace().any(is) {
            self.renames = true;
            value.or_else(|| self.next())?;
            return Some(());
        }
        let is_harmless = LONG.split_whitespace().any(|known| known == name);
        if is_harmless || name.is_empty() || (name.starts_with("no-") && value.is_none()) {
            return Some(());
        }
        if is_any(&PROGRAMS) {
            let line = value.or_else(|| self.next())?;
            let kind = line.split('=').next().unwrap_or_default();
            let is_program = !is("checkpoint-action") || !HARMLESS_ACTIONS.contains(&kind);
            let line = line.strip_prefix("exec=").unwrap_or(&line);
            self.tar.started.extend(is_program.then(|| line.to_owned()));
        } else if is("file") {
            let archive = value.or_else(|| self.next())?;
            self.archives.push(archive);
        } else if is("directory") || name == "cd" {
            let folder = value.or_else(|| self.next())?;
            self.folders.push(folder);
        } else if is("one-top-level") {
            self.folders.extend(value);
        } else if is_any(&["index-file", "listed-incremental", "volno-file"]) {
            let file = value.or_else(|| self.next())?;
            self.tar.written.push(file);
        } else if is("suffix") {
            value.or_else(|| self.next())?;
        } else if !LONG.split_whitespace().any(is) {
            // The beginning of a known option is that option, or an error.
            return None;
        }
        Some(())
    }

    /// Takes short options; `None` if one, or a value, is not known.
    fn take_letters(&mut self, text: &str) -> Option<()> {
        let letters = text.strip_prefix('-').unwrap_or(text);
        let is_old = !text.starts_with('-');
        for (at, letter) in letters.char_indices() {
            self.creates |= "cruA".contains(letter);
            self.extracts |= letter == 'x';
            self.is_shown |= letter == 'O';
            if FLAGS.contains(letter) {
                continue;
            }
            if !WITH_VALUE.contains(letter) {
                return None;
            }
            // In the oldest style, values follow the word in order.
            let joined = &letters[at + letter.len_utf8()..];
            let is_joined = !is_old && !joined.is_empty();
            let value = if is_joined {
                joined.to_owned()
            } else {
                self.next()?
            };
            match letter {
                'f' => self.archives.push(value),
                'C' => self.folders.push(value),
                'g' => self.tar.written.push(value),
                'F' | 'I' => self.tar.started.push(value),
                _ => {}
            }
            if is_joined {
                break;
            }
        }
        Some(())
    }

    fn end(mut self) -> Tar {
        // The part before a colon is a machine, to which it connects.
        let is_remote = |name: &String| {
            { name.split_once(':') }.is_some_and(|(machine, _)| !machine.contains('/'))
        };
        if !self.is_local && self.archives.iter().any(is_remote) {
            self.tar.unknown = self.arguments.len().checked_sub(1);
        }
        if self.creates {
            self.archives.retain(|name| name != "-");
            self.tar.written.append(&mut self.archives);
        }
        if self.renames && !self.creates {
            // Names may become those of any file.
            self.tar.unknown = self.arguments.len().checked_sub(1);
        }
        if self.extracts && !self.is_shown {
            if self.folders.is_empty() {
                self.folders.push(".".to_owned());
            }
            self.tar.written.append(&mut self.folders);
        }
        self.tar
    }
}

#[cfg(test)]
mod tests {
    use super::super::word::{Influence, Spelling};
    use super::*;

    #[test]
    fn archives_and_programs_are_found_in_each_style() {
        for (line, written, started) in [
            ("cf a x", &["a"][..], &[][..]),
            ("-cf a x", &["a"], &[]),
            ("-cfa x", &["a"], &[]),
            ("-c -f a x", &["a"], &[]),
            ("--create --file=a x", &["a"], &[]),
            ("--cr --fil a x", &["a"], &[]),
            ("rf a x", &["a"], &[]),
            ("cIf p a x", &["a"], &["p"]),
            ("-cIp -f a x", &["a"], &["p"]),
            ("-xf a -I p", &["."], &["p"]),
            ("xf a --use-comp=p", &["."], &["p"]),
            ("-cF p -f a", &["a"], &["p"]),
            ("cgf s a x", &["s", "a"], &[]),
            ("cf - x", &[], &[]),
            ("tf a", &[], &[]),
            ("-C d -xzf a", &["d"], &[]),
            ("-C d -czf a x", &["a"], &[]),
            ("xf a --directory=d", &["d"], &[]),
            ("xf a --one-top-level=d", &["d"], &[]),
            ("xf a --checkpoint=9 --checkpoint-action=dot", &["."], &[]),
            ("xf a --checkpoint-action=exec=p", &["."], &["p"]),
            ("xzf a", &["."], &[]),
            ("-x -f a", &["."], &[]),
            ("--extract --file=a", &["."], &[]),
            ("--ex --one-top-level -f a", &["."], &[]),
            ("xOf a", &[], &[]),
            ("xf a --to-stdout -C d", &[], &[]),
            ("cf a x --transform s,x,y,", &["a"], &[]),
        ] {
            let words: Vec<_> = line.split(' ').map(word).collect();
            let mut tar = read(&words);
            tar.written.sort();
            let mut expected = written.to_vec();
            expected.sort_unstable();
            assert_eq!(tar.written, expected, "{line}");
            assert_eq!(tar.started, started, "{line}");
            assert_eq!(tar.unknown, None, "{line}");
        }
    }

    #[test]
    fn other_options_are_not_known() {
        for line in [
            "xPf a",
            "-xf a --absolute-names",
            "xf a -s/x/y/",
            "cf a --remove-files x",
            "xf a --transform s,a,b,",
            "xf a --transform=s,a,b,",
            "xf a --xform s,a,b,",
            "xf a --xfo=s,a,b,",
            "-x -f a --tr=s,a,b,",
            "xf h:a",
            "xf a --x=y",
        ] {
            let words: Vec<_> = line.split(' ').map(word).collect();
            assert!(read(&words).unknown.is_some(), "{line}");
        }
    }

    fn word(text: &str) -> Word {
        Word {
            raw: text.to_owned(),
            text: Some(text.to_owned()),
            spelling: Spelling::Literal,
            influence: Influence::None,
            may_begin_option: text.starts_with('-'),
            begins_wild: false,
        }
    }
}
