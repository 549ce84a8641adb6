//! How tools and their arguments are named under each interface. Both names of a path argument are understood under
//! either.

use std::path::Path;

use ah_conversation::Interface;

/// Returns the name of the argument that names a file.
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

/// Whether `interface` accepts the form of `path`: the Agent SDKs' tools take only absolute paths and `~`.
pub(crate) fn accepts(interface: Interface, path: &str) -> bool {
    interface == Interface::Native || Path::new(path).is_absolute() || path.starts_with('~')
}

/// Splits `text` at its first choice: the text before it, its two alternatives, the text behind it.
fn choice(text: &str) -> Option<(&str, (&str, &str), &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (choice, behind) = rest.split_once("}}")?;
    Some((before, choice.split_once('|')?, behind))
}
