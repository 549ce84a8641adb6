//! Cache of pages that were read lately. Time is an argument.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::page::Page;

/// Time for which a page is kept.
const FRESH: Duration = Duration::from_secs(15 * 60);
/// Limits for the number of pages and the bytes of their text.
const PAGES: usize = 50;
const BYTES: usize = 20_000_000;

/// The cached pages, the oldest first.
#[derive(Default)]
pub struct Cache {
    entries: VecDeque<CachedPage>,
    bytes: usize,
}

struct CachedPage {
    address: String,
    page: Arc<Page>,
    since: Instant,
}

impl Cache {
    /// Returns the page at `address`, if it is fresh.
    pub fn get(&mut self, address: &str, now: Instant) -> Option<Arc<Page>> {
        self.forget(now);
        self.entries
            .iter()
            .find(|entry| entry.address == address)
            .map(|entry| entry.page.clone())
    }

    /// Adds a page, and evicts the oldest ones beyond the limits.
    pub fn put(&mut self, address: String, page: Arc<Page>, now: Instant) {
        self.remove(|entry| entry.address == address);
        self.bytes += page.text.len();
        self.entries.push_back(CachedPage {
            address,
            page,
            since: now,
        });
        self.forget(now);
    }

    fn forget(&mut self, now: Instant) {
        self.remove(|entry| now.saturating_duration_since(entry.since) >= FRESH);
        while self.entries.len() > PAGES || self.bytes > BYTES {
            let Some(oldest) = self.entries.pop_front() else {
                return;
            };
            self.bytes -= oldest.page.text.len();
        }
    }

    fn remove(&mut self, is_gone: impl Fn(&CachedPage) -> bool) {
        let bytes = &mut self.bytes;
        self.entries.retain(|entry| {
            let is_gone = is_gone(entry);
            if is_gone {
                *bytes -= entry.page.text.len();
            }
            !is_gone
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Arc<Page> {
        Arc::new(Page {
            text: text.to_owned(),
            bytes: text.len(),
            ..Page::default()
        })
    }

    #[test]
    fn pages_are_kept_for_a_quarter_of_an_hour() {
        let start = Instant::now();
        let mut cache = Cache::default();
        cache.put("a".into(), page("1"), start);
        let later = start + FRESH - Duration::from_secs(1);
        assert_eq!(cache.get("a", later).unwrap().text, "1");
        cache.put("a".into(), page("2"), later);
        assert_eq!(cache.get("a", start + FRESH).unwrap().text, "2");
        assert!(cache.get("b", later).is_none());
        assert!(cache.get("a", later + FRESH).is_none());
        assert_eq!((cache.entries.len(), cache.bytes), (0, 0));
    }

    #[test]
    fn the_oldest_pages_are_evicted_first() {
        let now = Instant::now();
        let mut cache = Cache::default();
        for at in 0..=PAGES {
            cache.put(at.to_string(), page("x"), now);
        }
        assert!(cache.get("0", now).is_none() && cache.get("1", now).is_some());
        let large = "x".repeat(BYTES - 10);
        cache.put("large".into(), page(&large), now);
        assert_eq!(cache.entries.len(), 11);
        cache.put("too large".into(), page(&"x".repeat(BYTES + 1)), now);
        assert_eq!((cache.entries.len(), cache.bytes), (0, 0));
    }
}
