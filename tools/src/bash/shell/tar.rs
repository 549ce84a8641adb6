//! The options of tar, which may be written in three styles: which file it writes, and which programs it starts.

use super::word::Word;

/// Letters that take a value.
const WITH_VALUE: &str = "bCFfgHIKLNTVX";
/// Long options whose value is a program to start.
const PROGRAMS: [&str; 5] = [
    "info-script",
    "new-volume-script",
    "rmt-command",
    "rsh-command",
    "use-compress-program",
];

/// What the options of a call of tar name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tar {
    /// Files that it writes.
    pub written: Vec<String>,
    /// Programs that it starts.
    pub started: Vec<String>,
}

/// Returns what the options name; `None` if that is known only at run time. `arguments` are the words after the program.
pub(super) fn read(arguments: &[Word]) -> Option<Tar> {
    let mut tar = Tar::default();
    let mut archives = Vec::new();
    let mut creates = false;
    let mut rest = arguments.iter();
    let mut is_first = true;
    while let Some(word) = rest.next() {
        let Some(text) = word.text.as_deref() else {
            // An option that is known only at run time could be any.
            if is_first || word.raw.trim_start_matches(['"', '\'']).starts_with('-') {
                return None;
            }
            continue;
        };
        let mut next = || rest.next()?.text.clone();
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let is = |option: &str| name.len() > 1 && option.starts_with(name);
            creates |= ["create", "append", "update", "catenate", "concatenate"]
                .into_iter()
                .any(is);
            if PROGRAMS.into_iter().any(is) {
                tar.started.push(value.or_else(&mut next)?);
            } else if is("file") {
                archives.push(value.or_else(&mut next)?);
            } else if ["index-file", "listed-incremental"].into_iter().any(is) {
                tar.written.push(value.or_else(&mut next)?);
            }
        } else if let Some(letters) = text.strip_prefix('-').or(is_first.then_some(text)) {
            let is_old = !text.starts_with('-');
            for (at, letter) in letters.char_indices() {
                creates |= "cruA".contains(letter);
                if !WITH_VALUE.contains(letter) {
                    continue;
                }
                // In the oldest style, values follow the word in order.
                let joined = &letters[at + letter.len_utf8()..];
                let is_joined = !is_old && !joined.is_empty();
                let value = if is_joined {
                    joined.to_owned()
                } else {
                    next()?
                };
                match letter {
                    'f' => archives.push(value),
                    'g' => tar.written.push(value),
                    'F' | 'I' => tar.started.push(value),
                    _ => {}
                }
                if is_joined {
                    break;
                }
            }
        }
        is_first = false;
    }
    if creates {
        archives.retain(|name| name != "-");
        tar.written.append(&mut archives);
    }
    Some(tar)
}

#[cfg(test)]
mod tests {
    use super::super::word::Spelling;
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
            ("-xf a -I p", &[], &["p"]),
            ("xf a --use-comp=p", &[], &["p"]),
            ("-cF p -f a", &["a"], &["p"]),
            ("cgf s a x", &["s", "a"], &[]),
            ("cf - x", &[], &[]),
            ("tf a", &[], &[]),
            ("-C d -xzf a", &[], &[]),
        ] {
            let words: Vec<_> = line.split(' ').map(word).collect();
            let mut tar = read(&words).unwrap();
            tar.written.sort();
            let mut expected = written.to_vec();
            expected.sort_unstable();
            assert_eq!(tar.written, expected, "{line}");
            assert_eq!(tar.started, started, "{line}");
        }
    }

    fn word(text: &str) -> Word {
        Word {
            raw: text.to_owned(),
            text: Some(text.to_owned()),
            spelling: Spelling::Literal,
        }
    }
}
