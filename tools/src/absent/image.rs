//! Pictures in a build that cannot decode them: no format is known, so a picture is a binary file.

use ah_conversation::Image;

/// Format of a picture; has no values.
#[derive(Clone, Copy)]
pub(crate) enum ImageFormat {}

/// A picture for the model.
pub(crate) struct Picture {
    pub(crate) image: Image,
    pub(crate) scaled: Option<[(u32, u32); 2]>,
}

/// Returns `None`.
pub(crate) fn sniff(_: &[u8]) -> Option<ImageFormat> {
    None
}

/// Returns an error: pictures cannot be decoded.
///
/// # Errors
///
/// Always; the text continues the file's name.
pub fn picture(_: &[u8]) -> Result<Image, String> {
    Err("cannot be shown: this build does not support pictures".to_owned())
}

/// Cannot be called, as there is no format.
pub(crate) fn fit(_: &[u8], format: ImageFormat) -> Result<Picture, String> {
    match format {}
}
