//! The place of a project in texts: in the check's command and variables it is the copy.

use std::path::Path;

/// Returns a text with the path `to` in the place of `from`, where that is a whole path or the beginning of one.
pub(crate) fn placed(text: &str, from: &Path, to: &Path) -> String {
    let (Some(from), Some(to)) = (from.to_str().filter(|it| it.len() > 1), to.to_str()) else {
        return text.to_owned();
    };
    let is_name = |c: char| c.is_alphanumeric() || "._-/@+~".contains(c);
    let (mut placed, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        // What follows a match goes on with it.
        let is_begun = before.ends_with(is_name) || before.is_empty() && rest.len() < text.len();
        let goes_on = after.starts_with(|c| is_name(c) && c != '/');
        placed.push_str(before);
        placed.push_str(if is_begun || goes_on { from } else { to });
        rest = after;
    }
    placed + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_path_is_placed() {
        for (text, expected) in [
            ("/w/p/bin:/w/p:/usr/bin", "/c/bin:/c:/usr/bin"),
            ("sh '/w/p/check.sh'", "sh '/c/check.sh'"),
            ("/w/p2:/w/p.old/x:/w/p-1", "/w/p2:/w/p.old/x:/w/p-1"),
            ("/x/w/p /w/p", "/x/w/p /c"),
            ("/w/p/w/p/a:/w/p", "/c/w/p/a:/c"),
            ("/w/p@2:/w/p+:/w/p~", "/w/p@2:/w/p+:/w/p~"),
        ] {
            assert_eq!(placed(text, Path::new("/w/p"), Path::new("/c")), expected);
        }
        assert_eq!(placed("/a", Path::new("/"), Path::new("/c")), "/a");
    }
}
