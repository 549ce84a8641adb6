//! UUIDs of the lines of a message.
//!
//! A message has one id here, but hosts see a line with a UUID for each of its blocks and tool results. These UUIDs are
//! derived from that of the message, so the message can be found from each of them without a table.

/// Digits in which the UUIDs of one message's lines differ: 16 bits of the random part, above those that count up.
const DIGITS: std::ops::Range<usize> = 24..28;
/// Marks tool results, so that they differ from all blocks of the answer that called the tools.
const RESULTS: u16 = 0x8000;

/// Returns the UUID of a block of the answer `uuid`; that of the first is `uuid` itself.
pub fn of_block(uuid: &str, index: usize) -> String {
    varied(uuid, u16::try_from(index).unwrap_or(RESULTS - 1))
}

/// Returns the UUID of the result of the call that is a block of the answer `uuid`.
pub fn of_result(uuid: &str, index: usize) -> String {
    let index = u16::try_from(index).unwrap_or(RESULTS - 1);
    varied(uuid, RESULTS | index)
}

/// Whether `name` is the UUID of a line of the message `uuid`.
pub fn is_of(uuid: &str, name: &str) -> bool {
    let rest = |text: &str| {
        let (before, behind) = (text.get(..DIGITS.start)?, text.get(DIGITS.end..)?);
        Some((before.to_ascii_lowercase(), behind.to_ascii_lowercase()))
    };
    uuid.len() == name.len() && rest(uuid).is_some() && rest(uuid) == rest(name)
}

fn varied(uuid: &str, by: u16) -> String {
    let digits = uuid
        .get(DIGITS)
        .map(|digits| u16::from_str_radix(digits, 16));
    let Some(Ok(digits)) = digits else {
        return uuid.to_owned();
    };
    let (before, behind) = (&uuid[..DIGITS.start], &uuid[DIGITS.end..]);
    format!("{before}{:04x}{behind}", digits ^ by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_unique_uuid_that_leads_to_its_message() {
        let uuid = "0193d5f0-7c1e-7000-8000-00a1b2c3d4e5";
        assert_eq!(of_block(uuid, 0), uuid);
        let mut names: Vec<_> = (0..300).map(|index| of_block(uuid, index)).collect();
        names.extend((0..300).map(|index| of_result(uuid, index)));
        assert!(names.iter().all(|name| is_of(uuid, name)));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 600);
        // The next message of the same millisecond, another message, and no UUID.
        for other in [
            "0193d5f0-7c1e-7000-8000-00a1b2c3d4e6",
            "0193d5f0-7c1f-7000-8000-00a1b2c3d4e5",
            "0193d5f0",
            "",
        ] {
            assert!(!is_of(uuid, other), "{other}");
        }
    }
}
