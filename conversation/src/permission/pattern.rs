//! Matching of rule contents against texts and paths.

use std::path::{Path, PathBuf};

/// Base directories of path patterns. Paths have no symbolic links, like those of the calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatternRoots {
    /// The working directory.
    pub cwd: PathBuf,
    /// Root of the project.
    pub project: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
}

/// Whether `text` matches `pattern`, where `*` matches anything; `\*` and `\\` are literal.
pub(super) fn wildcard(pattern: &str, text: &str) -> bool {
    matches(&pieces(pattern), text)
}

/// Backtracks to the last star only, so that the time is at most the product of both lengths.
pub(super) fn matches(pattern: &[Piece], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // Position of the last star, and how much of the text it matches so far.
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < text.len() {
        match pattern.get(at) {
            Some(Piece::Any) => {
                star = Some((at, seen));
                at += 1;
            }
            Some(piece) if piece.is(text[seen]) => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else {
                    return false;
                };
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                seen = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|piece| *piece == Piece::Any)
}

/// Returns the rule content that matches exactly `text`.
pub(super) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('*', "\\*")
}

/// Returns the number of bytes before the pattern's first star, which always match literally.
pub(super) fn fixed_length(pattern: &str) -> usize {
    pieces(pattern)
        .iter()
        .map_while(|piece| match piece {
            Piece::One(c) => Some(c.len_utf8()),
            Piece::Class { .. } | Piece::Any => None,
        })
        .sum()
}

/// Whether a pattern has no wildcard star.
pub(super) fn is_exact(pattern: &str) -> bool {
    !pieces(pattern).contains(&Piece::Any)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// This character.
    One(char),
    /// One of these characters, or none of them if negated.
    Class { of: Vec<char>, is_negated: bool },
    /// Any characters.
    Any,
}

impl Piece {
    fn is(&self, c: char) -> bool {
        match self {
            Self::One(wanted) => *wanted == c,
            Self::Class { of, is_negated } => in_class(of, c) != *is_negated,
            Self::Any => true,
        }
    }
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        pieces.push(match c {
            '*' => Piece::Any,
            '\\' => Piece::One(rest.next_if(|next| matches!(next, '*' | '\\')).unwrap_or(c)),
            _ => Piece::One(c),
        });
    }
    pieces
}

/// Whether `pattern`, in the syntax of `.gitignore`, matches `path` or a folder above it. `//` starts at the root of
/// the file system, `~/` at home, `/` at the project root; anything else in the working directory, or anywhere below
/// it if it has no slash.
pub(super) fn names_path(pattern: &str, path: &Path, places: &PatternRoots) -> bool {
    let (root, pattern) = rooted(pattern, places);
    let Some(below) = root.and_then(|root| path.strip_prefix(root).ok()) else {
        return false;
    };
    let wanted = parts_of(pattern);
    let parts: Vec<_> = below
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    names_parts(&wanted, &parts)
}

/// Returns the parts of a pattern below its base directory.
pub(super) fn parts_of(pattern: &str) -> Vec<&str> {
    let is_anchored = pattern.trim_end_matches('/').contains('/');
    let anywhere = (!is_anchored).then_some("**");
    let parts = pattern.split('/');
    anywhere
        .into_iter()
        .chain(parts.filter(|part| !matches!(*part, "" | ".")))
        .collect()
}

/// Returns the base directory of a pattern and the rest of the pattern.
pub(super) fn rooted<'a>(
    pattern: &'a str,
    places: &'a PatternRoots,
) -> (Option<&'a Path>, &'a str) {
    if let Some(rest) = pattern.strip_prefix("//") {
        (Some(Path::new("/")), rest)
    } else if let Some(rest) = pattern.strip_prefix("~/") {
        (places.home.as_deref(), rest)
    } else if let Some(rest) = pattern.strip_prefix('/') {
        (Some(places.project.as_path()), rest)
    } else {
        (Some(places.cwd.as_path()), pattern)
    }
}

/// Returns the pattern with the links in the literal beginning of its path resolved by `real`; `None` if there are
/// none.
pub(super) fn behind_links(
    pattern: &str,
    places: &PatternRoots,
    real: impl Fn(&Path) -> Option<PathBuf>,
) -> Option<String> {
    const WILD: [char; 3] = ['*', '?', '['];
    let (root, pattern) = rooted(pattern, places);
    let mut path = root?.to_owned();
    let mut rest = pattern.split('/').peekable();
    while let Some(part) = rest.next_if(|part| !part.contains(WILD)) {
        path.push(part);
    }
    let target = real(&path).filter(|target| *target != path)?;
    let target = target.to_str().filter(|target| !target.contains(WILD))?;
    let parts: Vec<_> = std::iter::once(target.trim_matches('/'))
        .chain(rest)
        .collect();
    Some(format!("//{}", parts.join("/")))
}

/// Whether the pattern's parts match the path's parts, or the first of them: everything below a matching folder
/// matches too.
fn names_parts(wanted: &[&str], parts: &[String]) -> bool {
    // Element `n` tells whether the pattern so far can match the first `n` parts of the path.
    let mut reached = vec![false; parts.len() + 1];
    reached[0] = true;
    for pattern in wanted {
        if *pattern == "**" {
            let first = reached.iter().position(|is_reached| *is_reached);
            reached[first.unwrap_or(parts.len())..].fill(first.is_some());
            continue;
        }
        let pattern = part_pieces(pattern);
        let mut next = vec![false; parts.len() + 1];
        for at in 0..parts.len() {
            next[at + 1] = reached[at] && matches(&pattern, &parts[at]);
        }
        reached = next;
    }
    reached.contains(&true)
}

/// Parses one part of a path: `*` for any characters, `?` for one, `[a-z]` for one of several.
pub(super) fn part_pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        pieces.push(match (c, rest.split_once(']')) {
            ('*', _) => Piece::Any,
            ('?', _) => Piece::Class {
                of: Vec::new(),
                is_negated: true,
            },
            ('[', Some((class, behind))) if !class.is_empty() => {
                rest = behind;
                let without = class.strip_prefix(['!', '^']);
                Piece::Class {
                    of: without.unwrap_or(class).chars().collect(),
                    is_negated: without.is_some(),
                }
            }
            _ => Piece::One(c),
        });
    }
    pieces
}

fn in_class(class: &[char], c: char) -> bool {
    match class {
        [] => false,
        [first, '-', last, others @ ..] => (first..=last).contains(&&c) || in_class(others, c),
        [first, others @ ..] => *first == c || in_class(others, c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_anything_unless_escaped() {
        for (pattern, text, matches) in [
            ("npm run *", "npm run test", true),
            ("npm run *", "npm run", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b", "aXbY", false),
            (r"rm \*.o", "rm *.o", true),
            (r"rm \*.o", "rm x.o", false),
            (r"a\\*", r"a\b", true),
            (r"grep \bx", r"grep \bx", true),
        ] {
            assert_eq!(wildcard(pattern, text), matches, "{pattern} for {text}");
        }
        assert!(wildcard(
            &escape(r"find . -name \*.rs \\"),
            r"find . -name \*.rs \\"
        ));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "*a".repeat(200);
        assert!(!wildcard(&pattern, &"a".repeat(199)));
        let places = PatternRoots::default();
        let deep = format!("//{}b", "**/a/".repeat(60));
        assert!(!names_path(&deep, Path::new(&"/a".repeat(120)), &places));
    }

    #[test]
    fn paths_match_as_in_gitignore() {
        let places = PatternRoots {
            cwd: "/w/p/sub".into(),
            project: "/w/p".into(),
            home: Some("/home/u".into()),
        };
        for (pattern, path, matches) in [
            ("*.env", "/w/p/sub/a/b/x.env", true),
            ("*.env", "/w/p/x.env", false),
            (".env", "/w/p/sub/.env", true),
            ("./.env", "/w/p/sub/.env", true),
            ("./.env", "/w/p/sub/a/.env", false),
            ("src/**", "/w/p/sub/src/a/b", true),
            ("src/*", "/w/p/sub/src/a", true),
            ("src/*.rs", "/w/p/sub/src/a/b.rs", false),
            ("secrets", "/w/p/sub/a/secrets/key", true),
            ("secrets/", "/w/p/sub/secrets/key", true),
            ("/docs/**", "/w/p/docs/x", true),
            ("/docs/**", "/docs/x", false),
            ("//etc/**", "/etc/passwd", true),
            ("//etc/**", "/w/p/sub/etc/passwd", false),
            ("~/.ssh/**", "/home/u/.ssh/id", true),
            ("~/.ssh/**", "/home/u/x", false),
            ("a/**/z", "/w/p/sub/a/b/c/z", true),
            ("a/**/z", "/w/p/sub/a/z", true),
            ("[a-c]?.rs", "/w/p/sub/bx.rs", true),
            ("[!a-c]?.rs", "/w/p/sub/bx.rs", false),
            ("**", "/w/p/sub/x", true),
            ("**", "/w/p/x", false),
        ] {
            let found = names_path(pattern, Path::new(path), &places);
            assert_eq!(found, matches, "{pattern} for {path}");
        }
    }
}
