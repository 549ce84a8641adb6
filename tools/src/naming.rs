//! Differences between the two interfaces: the name of the path argument (either one is accepted under both), the texts of
//! descriptions, and the paths that are accepted.

use std::path::Path;

use ah_conversation::Interface;

/// Returns the name of the path argument.
pub(crate) fn path_argument(interface: Interface) -> &'static str {
    interface.pick("path", "file_path")
}

/// Returns a description with each `{{native|sdk}}` in it resolved for `interface`.
pub(crate) fn describe(interface: Interface, text: &str) -> String {
    let mut described = String::new();
    let mut rest = text.trim_end();
    while let Some((before, (native, sdk), behind)) = choice(rest) {
        described.push_str(before);
        described.push_str(interface.pick(native, sdk));
        rest = behind;
    }
    described + rest
}

/// Returns whether `interface` accepts the form of `path`: the Agent SDKs' tools take only absolute paths and `~`.
pub(crate) fn accepts(interface: Interface, path: &str) -> bool {
    interface == Interface::Native || Path::new(path).is_absolute() || path.starts_with('~')
}

/// Splits `text` at its first choice: the text before it, its two alternatives, the text behind it.
fn choice(text: &str) -> Option<(&str, (&str, &str), &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (choice, behind) = rest.split_once("}}")?;
    Some((before, choice.split_once('|')?, behind))
}
