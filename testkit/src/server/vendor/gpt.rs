//! Versions of OpenAI's models, by which its rules apply.

/// Returns the version of a model whose name begins with `gpt-`, wherever it is served: `(5, 6)` of `gpt-5.6-sol`.
pub fn version(model: &str) -> Option<(u32, u32)> {
    let name = model.rsplit('/').next().unwrap_or_default();
    let name = name.strip_prefix("openai.").unwrap_or(name);
    let rest = name.strip_prefix("gpt-")?;
    let version = rest.split('-').next().unwrap_or_default();
    let mut numbers = version.split('.').map(str::parse);
    let major = numbers.next()?.ok()?;
    let minor = numbers.next().and_then(Result::ok).unwrap_or_default();
    Some((major, minor))
}

/// Whether answers of the model have phases.
pub fn has_phases(model: &str) -> bool {
    version(model).is_some_and(|version| version >= (5, 3))
}

/// Whether the model always reasons, so that the efforts `none` and `minimal` are refused.
pub fn always_reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    name.starts_with("gpt-6-astra")
        || name.starts_with("gpt-6.1-sol")
        || version(model).is_some_and(|version| version >= (6, 2))
}

/// Whether the model takes no value of the sampling but the default.
pub fn fixes_sampling(model: &str) -> bool {
    version(model).is_some_and(|version| version >= (6, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_a_name() {
        for (name, expected) in [
            ("gpt-5.6-sol", Some((5, 6))),
            ("gpt-6-astra", Some((6, 0))),
            ("openai/gpt-6.2-sol", Some((6, 2))),
            ("openai.gpt-6.1-terra", Some((6, 1))),
            ("gpt-4o", None),
            ("gpt-oss-120b", None),
            ("claude-opus-5", None),
        ] {
            assert_eq!(version(name), expected, "{name}");
        }
    }
}
