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

/// Returns an error: pictures cannot be decoded.
///
/// # Errors
///
/// Always; the text stands in the picture's place.
pub fn checked_picture(_: &Image) -> Result<Image, String> {
    Err("[a picture that cannot be shown: this build does not support pictures]".to_owned())
}

/// Returns an error: pictures cannot be decoded.
///
/// # Errors
///
/// Always; the text continues a sentence.
pub fn in_base64(_: &str) -> Result<Image, String> {
    picture(&[])
}

/// Cannot be called, as there is no format.
pub(crate) fn fit(_: &[u8], format: ImageFormat) -> Result<Picture, String> {
    match format {}
}
