//! Word documents in a build that cannot read them.

use crate::blocking::Stop;

/// Returns an error: Word documents cannot be read.
pub(crate) fn text(_: &[u8], _: &Stop) -> Result<String, String> {
    Err("this build does not support Word documents".into())
}
