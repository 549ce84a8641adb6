//! Patterns for names of branches in protection rules of hubs. Pure.

/// Returns whether `name` fits `pattern`, in which `*` stands for any characters.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns whether `name` fits `pattern`, in which `*` stands for any characters but `/`, and `**` for any.
pub(crate) fn fits_parts(pattern: &str, name: &str) -> bool {
    if pattern.contains("**") {
        return fits(pattern, name);
    }
    let (pattern, name): (Vec<_>, Vec<_>) =
        (pattern.split('/').collect(), name.split('/').collect());
    let mut pairs = pattern.iter().zip(&name);
    pattern.len() == name.len() && pairs.all(|(pattern, name)| fits(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("work/7", "work/7", true),
            ("work/7", "work/70", false),
            ("work/*", "work/7", true),
            ("*", "work/7", true),
            ("**", "work/7", true),
            ("work/*-fix", "work/7-fix", true),
            ("work/*-fix", "work/7", false),
            ("w*k/*7", "work/7", true),
            ("a*a", "a", false),
            ("main", "work/7", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn one_star_stays_within_a_part() {
        for (pattern, name, expected) in [
            ("*", "work/7", false),
            ("**", "work/7", true),
            ("work/*", "work/7", true),
            ("work/*", "work/7/x", false),
            ("release/**", "release/1/x", true),
        ] {
            assert_eq!(fits_parts(pattern, name), expected, "{pattern} {name}");
        }
    }
}
