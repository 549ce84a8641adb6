//! Numbers and times as text.

/// Formats a number of tokens: `950`, `12.3k`, `1.5m`.
pub fn count(tokens: u64) -> String {
    let scaled = |unit: u64, letter| {
        let tenths = tokens / (unit / 10);
        format!("{}.{}{letter}", tenths / 10, tenths % 10)
    };
    match tokens {
        1_000_000.. => scaled(1_000_000, 'm'),
        1_000.. => scaled(1_000, 'k'),
        _ => tokens.to_string(),
    }
}

/// Formats a running time in seconds: `59s`, `1m05s`.
pub fn elapsed(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        _ => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

/// Formats dollars for a glance: `$0.02`, `<$0.01`.
pub fn money(dollars: f64) -> String {
    if dollars > 0.0 && dollars < 0.01 {
        "<$0.01".to_owned()
    } else {
        format!("${dollars:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_are_not_shown_as_nothing() {
        for (dollars, expected) in [
            (0.0, "$0.00"),
            (0.0049, "<$0.01"),
            (0.0151, "$0.02"),
            (12.0, "$12.00"),
        ] {
            assert_eq!(money(dollars), expected);
        }
    }

    #[test]
    fn numbers_get_shorter() {
        for (tokens, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0k"),
            (12_345, "12.3k"),
            (999_999, "999.9k"),
            (1_500_000, "1.5m"),
        ] {
            assert_eq!(count(tokens), expected);
        }
    }
}
