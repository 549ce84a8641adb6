//! Today's date, where the user is.

use std::fs;
use std::path::Path;

use ah_conversation::Environment;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// File with the rules of the system's time zone.
const ZONE: &str = "/etc/localtime";

/// Returns today's date as `YYYY-MM-DD`.
///
/// Without a zone in `TZ`, one file has the rules. The library would also look for the name of the zone, among the files of
/// all zones.
pub(crate) fn today(environment: &Environment) -> String {
    let zone = match environment.get("TZ") {
        None => zone_of(Path::new(ZONE)),
        Some(_) => None,
    };
    date(Timestamp::now(), zone.unwrap_or_else(TimeZone::system))
}

fn zone_of(file: &Path) -> Option<TimeZone> {
    TimeZone::tzif("local", &fs::read(file).ok()?).ok()
}

fn date(now: Timestamp, zone: TimeZone) -> String {
    now.to_zoned(zone).date().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one zone, nine hours east of Greenwich.
    fn east() -> Vec<u8> {
        let counts = |types: u8, letters: u8| {
            let mut counts = [0; 24];
            (counts[19], counts[23]) = (types, letters);
            counts
        };
        let offset = (9 * 3_600_i32).to_be_bytes();
        let head = [b"TZif2".as_slice(), &[0; 15]].concat();
        let part = [&head[..], &counts(1, 4), &offset, &[0, 0], b"JST\0"].concat();
        [&part[..], &part, b"\nJST-9\n"].concat()
    }

    #[test]
    fn the_date_is_that_of_the_zone_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("localtime");
        assert_eq!(zone_of(&file), None);
        fs::write(&file, "not a zone").unwrap();
        assert_eq!(zone_of(&file), None);
        fs::write(&file, east()).unwrap();
        let late: Timestamp = "2026-11-24T15:30:00Z".parse().unwrap();
        assert_eq!(date(late, TimeZone::UTC), "2026-11-24");
        assert_eq!(date(late, zone_of(&file).unwrap()), "2026-11-25");
    }
}
