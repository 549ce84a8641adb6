//! Conversion of unsigned numbers to the signed integers of SQLite and back.

/// Converts to an integer of SQLite; a number that does not fit becomes the largest one.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts from an integer of SQLite; NULL and negative numbers become 0.
pub(super) fn unsigned(number: Option<i64>) -> u64 {
    u64::try_from(number.unwrap_or(0)).unwrap_or(0)
}
