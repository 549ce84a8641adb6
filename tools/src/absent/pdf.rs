//! PDF files in a build that cannot read them.

use std::ops::RangeInclusive;

use crate::blocking::Stop;

/// The text of some pages.
pub(crate) struct Pages {
    pub(crate) text: String,
    pub(crate) given: RangeInclusive<u32>,
    pub(crate) count: u32,
}

/// Returns whether the start of a file is that of a PDF.
pub(crate) fn is_pdf(start: &[u8]) -> bool {
    start.trim_ascii_start().starts_with(b"%PDF-")
}

/// Returns an error: PDF files cannot be read.
pub(crate) fn read(_: &[u8], _: Option<&str>, _: &Stop) -> Result<Pages, String> {
    Err("this build does not support PDF files".into())
}
