//! Models whose vendors have said when they end. Pure.

use crate::family;

/// Claude models by family and version, and the day from which on they are not served (`@anthropic-ai/sdk` 1.14.0,
/// 24 November 2026).
const ENDS: [(&str, &[u32], &str); 2] = [
    ("opus", &[4, 5], "22 January 2027"),
    ("sonnet", &[4, 5], "30 November 2026"),
];

/// Returns the family of the model `name`, which may stand behind the name of a gateway, and the day of its end, if that
/// is known.
pub(crate) fn end(name: &str) -> Option<(&'static str, &'static str)> {
    let name = name.rsplit(['/', '.']).next().unwrap_or_default();
    let (family, version) = family::parse(name)?;
    let mut known = ENDS.into_iter();
    let found = known.find(|(its, numbers, _)| *its == family && *numbers == version.numbers)?;
    Some((found.0, found.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_ends_under_all_its_names() {
        for (name, expected) in [
            ("claude-opus-4-5", Some("22 January 2027")),
            (
                "anthropic/claude-opus-4-5-20251101",
                Some("22 January 2027"),
            ),
            ("us.anthropic.claude-sonnet-4-5", Some("30 November 2026")),
            ("claude-opus-4-6", None),
            ("claude-opus-5", None),
            ("claude-haiku-4-5", None),
            ("gpt-6", None),
        ] {
            assert_eq!(end(name).map(|(_, day)| day), expected, "{name}");
        }
    }
}
