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

#[cfg(test)]
mod tests {
    use super::*;

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
