//! Times at which runs are queued again.

use ah_config::Error;
use ah_conversation::Time;
use cronexpr::{FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};

/// Returns the first time of a crontab's line after `after`. The line may end with a time zone; it is UTC otherwise.
///
/// # Errors
///
/// If it is none, or there is no such time.
pub fn next_time(cron: &str, after: Time) -> Result<Time, Error> {
    let unclear = |error: cronexpr::Error| {
        Error::usage(format!("`{cron}` has no next time: {error}"))
            .hint("it is minute, hour, day, month and weekday, and a time zone if not UTC: `0 6 * * 1-5 Europe/Rome`")
    };
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    let crontab = parse_crontab_with(cron, options).map_err(unclear)?;
    let after = MakeTimestamp::from_millisecond(after.0).map_err(unclear)?;
    let next = crontab.find_next(after).map_err(unclear)?;
    Ok(Time(next.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_a_crontab_in_its_zone() {
        for (cron, after, expected) in [
            ("* * * * *", "2026-11-24T03:52:12Z", "2026-11-24T03:53:00Z"),
            ("0 6 * * *", "2026-11-24T06:00:00Z", "2026-11-25T06:00:00Z"),
            (
                "0 6 * * 1-5",
                "2026-11-27T12:00:00Z",
                "2026-11-30T06:00:00Z",
            ),
            (
                "0 6 * * * Europe/Rome",
                "2026-11-24T03:00:00Z",
                "2026-11-24T05:00:00Z",
            ),
            // In the night before, that time is left out.
            (
                "30 2 * * * Europe/Rome",
                "2026-03-28T12:00:00Z",
                "2026-03-30T00:30:00Z",
            ),
            ("0 6 * *", "2026-11-24T03:00:00Z", "none"),
            ("0 6 31 2 *", "2026-11-24T03:00:00Z", "none"),
            ("0 6 * * * Mars/Olympus", "2026-11-24T03:00:00Z", "none"),
        ] {
            let after: jiff::Timestamp = after.parse().unwrap();
            let next = next_time(cron, Time(after.as_millisecond()));
            let next = next.map(|next| jiff::Timestamp::from_millisecond(next.0).unwrap());
            let next = next.map_or("none".to_owned(), |next| next.to_string());
            assert_eq!(next, expected, "{cron}");
        }
    }
}
