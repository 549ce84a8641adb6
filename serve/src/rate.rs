//! How many requests are answered: a number per second, and some more after a pause. A function of the time.

use std::time::Instant;

/// Requests per second.
const PER_SECOND: f64 = 100.0;
/// Requests at once after a pause.
const MOST: f64 = 400.0;

/// Requests that are left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    left: f64,
    at: Instant,
}

impl Rate {
    /// All that are allowed at once are left.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            left: MOST,
            at: now,
        }
    }

    /// Takes one; returns whether there was one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * PER_SECOND).min(MOST);
        self.at = now;
        let is_left = self.left >= 1.0;
        if is_left {
            self.left -= 1.0;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_used_comes_back() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let at_once = (0..1_000).filter(|_| rate.take(start)).count();
        assert_eq!(at_once, 400);
        let later = start + Duration::from_millis(500);
        assert_eq!((0..1_000).filter(|_| rate.take(later)).count(), 50);
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..1_000).filter(|_| rate.take(much_later)).count(), 400);
    }
}
