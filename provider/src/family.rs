//! Families of Claude models: which model is the newest of its family, by the version in its name. Pure.

/// Families whose names are aliases of their newest models.
pub const FAMILIES: [&str; 4] = ["fable", "haiku", "opus", "sonnet"];

/// The version in a model's name, `claude-FAMILY-VERSION[-DATE]`. Of two names with the same version, the one without a
/// date is greater, as it is the one that the vendor documents.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    /// Its numbers, greatest first: 5 and 5 of `claude-opus-5-5`.
    pub(crate) numbers: Vec<u32>,
    is_undated: bool,
    date: Option<u32>,
}

/// Returns the name of the newest model of `family` among `names`, each with or without `anthropic/` before it.
pub fn newest<'a>(family: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let versions = names.filter_map(|name| {
        let (its_family, version) = parse(name)?;
        (its_family == family).then_some((version, name))
    });
    versions.max().map(|(_, name)| name)
}

/// Returns the newest of OpenAI's small models among `names`, `gpt-VERSION-mini`.
pub fn newest_mini<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let versions = names.filter_map(|name| {
        let version = name.strip_prefix("gpt-")?.strip_suffix("-mini")?;
        let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
        Some((numbers.ok()?, name))
    });
    versions.max().map(|(_, name)| name)
}

/// Returns the family in a model's name.
pub fn of(name: &str) -> Option<&str> {
    parse(name).map(|(family, _)| family)
}

/// Returns the family and the version in a model's name.
pub(crate) fn parse(name: &str) -> Option<(&str, Version)> {
    let name = name.strip_prefix("anthropic/").unwrap_or(name);
    let mut parts = name.strip_prefix("claude-")?.split('-');
    let family = parts.next()?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    if is_number(family) {
        // Before the fourth generation the version stood first.
        return None;
    }
    let mut numbers = Vec::new();
    let mut date = None;
    for part in parts {
        let number = part.parse().ok().filter(|_| is_number(part))?;
        match part.len() {
            8 if date.is_none() => date = Some(number),
            1 | 2 if date.is_none() => numbers.push(number),
            _ => return None,
        }
    }
    let version = Version {
        is_undated: date.is_none(),
        numbers,
        date,
    };
    (!version.numbers.is_empty()).then_some((family, version))
}

/// Returns the name of a model without the date at its end, `-20251101` or `-2026-03-17`.
pub(crate) fn without_date(name: &str) -> Option<&str> {
    ["-########", "-####-##-##"].into_iter().find_map(|shape| {
        let (undated, date) = name.split_at_checked(name.len().checked_sub(shape.len())?)?;
        let is_like = |(c, shape): (u8, u8)| c == shape || (shape == b'#' && c.is_ascii_digit());
        date.bytes()
            .zip(shape.bytes())
            .all(is_like)
            .then_some(undated)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_no_part_of_the_name() {
        for (name, expected) in [
            ("claude-opus-4-5-20251101", Some("claude-opus-4-5")),
            (
                "openai/gpt-5.4-mini-2026-03-17",
                Some("openai/gpt-5.4-mini"),
            ),
            ("gpt-4-0613", None),
            ("ä-1234567", None),
            ("o1", None),
        ] {
            assert_eq!(without_date(name), expected, "{name}");
        }
    }

    #[test]
    fn the_newest_mini_has_the_greatest_version() {
        let names = [
            "gpt-5-mini",
            "gpt-5.10-mini",
            "gpt-5.4-mini",
            "gpt-4.1-mini-2025-04-14",
            "gpt-9-nano",
            "gpt-4o-mini",
            "openai/gpt-9-mini",
        ];
        assert_eq!(newest_mini(names.into_iter()), Some("gpt-5.10-mini"));
        assert_eq!(newest_mini(names[3..].iter().copied()), None);
    }

    #[test]
    fn the_newest_has_the_greatest_version() {
        for (names, expected) in [
            (
                &["claude-opus-4-6", "claude-opus-5", "claude-opus-4-10"][..],
                Some("claude-opus-5"),
            ),
            (
                &["claude-opus-5-5", "claude-opus-5"],
                Some("claude-opus-5-5"),
            ),
            (
                &["claude-opus-5-9", "claude-opus-5-10"],
                Some("claude-opus-5-10"),
            ),
            (
                &["claude-opus-4-5", "claude-opus-4-5-20251101"],
                Some("claude-opus-4-5"),
            ),
            (
                &["claude-opus-4-5-20250101", "claude-opus-4-5-20251101"],
                Some("claude-opus-4-5-20251101"),
            ),
            (
                &["claude-opus-4-6", "anthropic/claude-opus-6"],
                Some("anthropic/claude-opus-6"),
            ),
            // Other families, other vendors' servers, previews and the names of old are no candidates.
            (
                &[
                    "claude-sonnet-9",
                    "litellm/claude-opus-9",
                    "claude-opus-9-preview",
                    "claude-3-opus",
                    "claude-opus-latest",
                    "claude-opus-20251101",
                    "claude-opus-9-",
                    "opus-9",
                ],
                None,
            ),
        ] {
            assert_eq!(newest("opus", names.iter().copied()), expected, "{names:?}");
        }
    }
}
