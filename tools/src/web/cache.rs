//! Pages that were read a moment ago. Time is an argument.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::page::Page;

/// How long a page counts as it was.
const FRESH: Duration = Duration::from_secs(15 * 60);
/// How many pages are kept, and how much text.
const PAGES: usize = 50;
const BYTES: usize = 20_000_000;

/// The pages, the oldest first.
#[derive(Default)]
pub struct Cache {
    entries: VecDeque<Entry>,
    bytes: usize,
}

struct Entry {
    address: String,
    page: Arc<Page>,
    since: Instant,
}

impl Cache {
    /// The page at `address`, if it is fresh.
    pub fn get(&mut self, address: &str, now: Instant) -> Option<Arc<Page>> {
        self.forget(now);
        let mut entries = self.entries.iter();
        let found = entries.find(|entry| entry.address == address);
        found.map(|entry| entry.page.clone())
    }

    /// Keeps a page, and lets go of older ones where there are too many.
    pub fn put(&mut self, address: String, page: Arc<Page>, now: Instant) {
        self.remove(|entry| entry.address == address);
        self.bytes += page.text.len();
        self.entries.push_back(Entry {
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

    fn remove(&mut self, is_gone: impl Fn(&Entry) -> bool) {
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
    fn the_oldest_go_first() {
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
