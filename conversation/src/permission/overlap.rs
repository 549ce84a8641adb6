//! Whether a rule about files may match one of the paths that a shell pattern stands for.

use std::path::Path;

use super::PatternRoots;
use super::pattern::{Piece, matches, part_pieces, parts_of, rooted};

/// Whether the file pattern `rule` may match a path that `paths` stands for: an absolute path in which `*`, `?` and
/// `[…]` mean what they mean in a shell, and `**` any number of folders. In doubt it may.
pub(super) fn may_match(rule: &str, paths: &Path, places: &PatternRoots) -> bool {
    let (root, pattern) = rooted(rule, places);
    let Some(root) = root else {
        return false;
    };
    let names = |path: &Path| -> Vec<String> {
        let parts = path.iter().filter(|part| *part != "/");
        parts
            .map(|part| part.to_string_lossy().into_owned())
            .collect()
    };
    let mut wanted: Vec<Part> = names(root).into_iter().map(Part::Name).collect();
    wanted.extend(parts_of(pattern).into_iter().map(|part| match part {
        "**" => Part::Any,
        part if part.contains(['*', '?', '[']) => Part::Pattern(part.to_owned()),
        part => Part::Name(part.to_owned()),
    }));
    let given: Vec<Part> = names(paths)
        .into_iter()
        .map(|part| match part.as_str() {
            "**" => Part::Any,
            text if text.contains(['*', '?', '[']) => Part::Pattern(part),
            _ => Part::Name(part),
        })
        .collect();
    // Element `n` tells whether the rule so far can match the first `n` parts of the paths.
    let mut reached = vec![false; given.len() + 1];
    reached[0] = true;
    spread(&mut reached, &given, false);
    for part in &wanted {
        let is_any = matches!(part, Part::Any);
        let mut next = vec![false; given.len() + 1];
        for at in 0..=given.len() {
            // A `**` of the paths stands for this part as well.
            let by_paths = matches!(given.get(at), Some(Part::Any));
            next[at] |= reached[at] && (is_any || by_paths);
            if let Some(name) = given.get(at) {
                next[at + 1] |= reached[at] && part.may_be(name);
            }
        }
        spread(&mut next, &given, is_any);
        reached = next;
    }
    // Everything below a matching folder matches too.
    reached.contains(&true)
}

/// Extends each reached place over what may stand for nothing: a `**` of the paths, and with `is_any` anything.
fn spread(reached: &mut [bool], given: &[Part], is_any: bool) {
    for at in 0..given.len() {
        reached[at + 1] |= reached[at] && (is_any || matches!(given[at], Part::Any));
    }
}

/// One part of a path.
enum Part {
    Name(String),
    Pattern(String),
    /// `**`.
    Any,
}

impl Part {
    /// Whether this part of a rule may match the part `name` of a path.
    fn may_be(&self, name: &Self) -> bool {
        match (self, name) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Name(wanted), Self::Name(name)) => wanted == name,
            (Self::Pattern(wanted), Self::Name(name)) => matches(&part_pieces(wanted), name),
            // In a shell only a dot matches a dot at the beginning.
            (Self::Name(wanted), Self::Pattern(name)) => {
                let is_hidden = wanted.starts_with('.') && name.starts_with(['*', '?']);
                !is_hidden && matches(&shell_pieces(name), wanted)
            }
            (Self::Pattern(wanted), Self::Pattern(name)) => {
                have_same_ends(&part_pieces(wanted), &shell_pieces(name))
            }
        }
    }
}

/// Parses a part of a shell pattern; what brackets contain differs between shells, so they stand for anything.
fn shell_pieces(pattern: &str) -> Vec<Piece> {
    part_pieces(pattern.split('[').next().unwrap_or_default())
        .into_iter()
        .chain(pattern.contains('[').then_some(Piece::Any))
        .collect()
}

/// Whether the literal beginnings, and the literal ends, of two patterns agree as far as both go.
fn have_same_ends(one: &[Piece], other: &[Piece]) -> bool {
    fn agree<'a>(
        one: impl Iterator<Item = &'a Piece>,
        other: impl Iterator<Item = &'a Piece>,
    ) -> bool {
        let literal = |piece: &&Piece| matches!(piece, Piece::One(_));
        one.take_while(literal)
            .zip(other.take_while(literal))
            .all(|(one, other)| one == other)
    }
    agree(one.iter(), other.iter()) && agree(one.iter().rev(), other.iter().rev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_may_stand_for_a_file_of_a_rule() {
        let places = PatternRoots {
            cwd: "/w/p".into(),
            project: "/w/p".into(),
            home: Some("/home/u".into()),
        };
        for (rule, paths, may) in [
            ("s/**", "/w/p/s/*", true),
            ("s/**", "/w/p/*", true),
            ("s/**", "/w/p/*/key", true),
            ("s/**", "/w/p/t/*", false),
            ("s/key", "/w/p/s/k*", true),
            ("s/key", "/w/p/s/*.rs", false),
            ("s/key", "/w/p/**", true),
            ("s/key", "/w/p/s/**", true),
            ("s/key", "/w/p/t/**", false),
            (".env", "/w/p/.en?", true),
            (".env", "/w/p/.[e]nv", true),
            (".env", "/w/p/[.]env", true),
            (".env", "/w/p/*", false),
            (".env", "/w/p/*env", false),
            (".env", "/w/p/src/**", true),
            (".env", "/w/p/a/.env", true),
            ("*.pem", "/w/p/*.rs", false),
            ("*.pem", "/w/p/*", true),
            ("*.pem", "/w/p/a*", true),
            ("a*.pem", "/w/p/b*", false),
            ("//etc/**", "/w/p/*", false),
            ("//etc/**", "/**", true),
            ("~/.ssh/**", "/home/u/.ssh/*", true),
            ("~/.ssh/**", "/w/p/**", false),
            ("a/**/z", "/w/p/a/*/z", true),
            ("a/**/z", "/w/p/a/b", false),
            ("a/**/z", "/w/p/a/**", true),
        ] {
            let found = may_match(rule, Path::new(paths), &places);
            assert_eq!(found, may, "{rule} for {paths}");
        }
    }
}
