//! Ids of sessions and messages: ULIDs whose 128 bits are also a version 7 UUID, so that programs that identify
//! sessions by UUID see the same id in another notation.

use std::time::{SystemTime, UNIX_EPOCH};

use ah_conversation::{Clock, MessageId, SessionId, Time};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use ulid::Ulid;

/// The length of a ULID as text.
pub const ULID_LEN: usize = 26;
/// The length of the time at its beginning.
pub const TIME_LEN: usize = 10;
/// Version and variant of a UUIDv7, within the 80 bits after the time.
const UUID_MARKS: u128 = (0x7 << 76) | (0b10 << 62);
/// Masks of the random bits before and after the variant.
const HIGH_BITS: u128 = (1 << 12) - 1;
const LOW_BITS: u128 = (1 << 62) - 1;
/// Number of random bits of an id.
const RANDOM_BITS: u32 = 74;

/// The system clock. Its ids increase even within a millisecond and when the clock is set back.
#[derive(Debug, Default)]
pub struct SystemClock {
    last: Mutex<LastId>,
}

/// Time and random bits of the last id.
#[derive(Debug, Default, Clone, Copy)]
struct LastId {
    milliseconds: u64,
    random: u128,
}

impl SystemClock {
    fn next(&self) -> Ulid {
        let now = u64::try_from(now().0).unwrap_or(0);
        // The only change is one assignment, so a panic leaves nothing half done.
        let mut last = self.last.lock();
        *last = last.after(now, random_bits());
        last.ulid()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        now()
    }

    fn message_id(&self) -> MessageId {
        MessageId::from(self.next().to_string())
    }
}

impl LastId {
    /// Returns the next id at the time `now`: a new random one if time has passed, else the last one plus a random
    /// step.
    fn after(self, now: u64, random: u128) -> Self {
        if now > self.milliseconds {
            return Self {
                milliseconds: now,
                random,
            };
        }
        let next = self.random + 1 + (random & 0xffff);
        if next >> RANDOM_BITS == 0 {
            Self {
                random: next,
                ..self
            }
        } else {
            Self {
                milliseconds: self.milliseconds + 1,
                random,
            }
        }
    }

    fn ulid(self) -> Ulid {
        let high = (self.random >> 62) & HIGH_BITS;
        let low = self.random & LOW_BITS;
        Ulid::from_parts(self.milliseconds, (high << 64) | low | UUID_MARKS)
    }
}

/// Returns the current time.
pub fn now() -> Time {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// Returns a new session id that is greater than `newest`, so that ids sort by age even if the clock was set back.
pub fn fresh_session_id(newest: Option<&SessionId>) -> SessionId {
    let last = newest
        .and_then(|newest| Ulid::from_string(newest.as_str()).ok())
        .map_or_else(LastId::default, |newest| LastId {
            milliseconds: newest.timestamp_ms(),
            random: (1 << RANDOM_BITS) - 1,
        });
    let clock = SystemClock {
        last: Mutex::new(last),
    };
    SessionId::from(clock.next().to_string())
}

/// Returns a new session id of a session begun at this time.
pub fn session_id_at(time: Time) -> SessionId {
    let id = LastId {
        milliseconds: u64::try_from(time.0).unwrap_or_default(),
        random: random_bits() & ((1 << RANDOM_BITS) - 1),
    };
    SessionId::from(id.ulid().to_string())
}

/// Returns the id that follows from a time and a seed.
pub fn id_from(time: Time, seed: &str) -> String {
    let digest = Sha256::digest(seed);
    let random = digest
        .iter()
        .take(16)
        .fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
    let id = LastId {
        milliseconds: u64::try_from(time.0).unwrap_or_default(),
        random: random & ((1 << RANDOM_BITS) - 1),
    };
    id.ulid().to_string()
}

/// Returns a session id as a UUID of the same 128 bits; an id that is not a ULID is returned unchanged.
pub fn uuid_of(id: &SessionId) -> String {
    let Ok(ulid) = Ulid::from_string(id.as_str()) else {
        return id.to_string();
    };
    let hex = format!("{:032x}", ulid.0);
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// Returns the session id of the same 128 bits as `uuid`; `None` if that is not a UUID.
pub fn session_of(uuid: &str) -> Option<SessionId> {
    let groups: Vec<_> = uuid.split('-').map(str::len).collect();
    let is_hex = uuid
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    if groups != [8, 4, 4, 4, 12] || !is_hex {
        return None;
    }
    let bits = u128::from_str_radix(&uuid.replace('-', ""), 16).ok()?;
    Some(SessionId::from(Ulid(bits).to_string()))
}

/// Returns the message id of the same 128 bits as `uuid`; `None` if that is not a UUID.
pub fn message_of(uuid: &str) -> Option<MessageId> {
    session_of(uuid).map(|id| MessageId::from(id.as_str()))
}

/// Returns the creation time of the session `id`, which its first bits hold.
pub fn created_at(id: &SessionId) -> Time {
    let milliseconds = Ulid::from_string(id.as_str()).map_or(0, |ulid| ulid.timestamp_ms());
    Time(i64::try_from(milliseconds).unwrap_or(i64::MAX))
}

/// Returns whether `text` is a ULID in the canonical notation.
pub fn is_ulid(text: &str) -> bool {
    let is_canonical = |ulid: Ulid| ulid.array_to_str(&mut [0; ULID_LEN]) == text;
    text.len() == ULID_LEN && Ulid::from_string(text).is_ok_and(is_canonical)
}

/// Returns random bits for an id. If the system has none, time and pid make collisions unlikely.
fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let nanoseconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        bytes = (nanoseconds ^ (u128::from(std::process::id()) << 40)).to_le_bytes();
    }
    u128::from_le_bytes(bytes) & ((1 << RANDOM_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_and_are_uuids_of_version_7() {
        let clock = SystemClock::default();
        let ids: Vec<_> = (0..10_000).map(|_| clock.message_id()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        for id in ids {
            let session = SessionId::from(id.as_str());
            let uuid = uuid_of(&session);
            assert_eq!(&uuid[14..15], "7", "{uuid}");
            assert!("89ab".contains(&uuid[19..20]), "{uuid}");
            assert_eq!(session_of(&uuid), Some(session));
        }
    }

    #[test]
    fn ids_increase_when_the_clock_is_set_back_and_when_the_random_bits_overflow() {
        let full = (1 << RANDOM_BITS) - 1;
        for (milliseconds, random, now) in [(5, 1, 3), (5, full, 5), (5, full, 3), (5, 7, 6)] {
            let last = LastId {
                milliseconds,
                random,
            };
            assert!(last.after(now, 0).ulid() > last.ulid());
        }
        let newest = SessionId::from("7ZZZZZZZZY7ZZZZZZZZZZZZZZZ");
        assert!(fresh_session_id(Some(&newest)) > newest);
    }

    #[test]
    fn text_that_is_not_a_uuid_or_ulid_is_rejected() {
        for text in ["", "0192", "----", "0192d3e0-7e1f-7abc-8def-0123456789zz"] {
            assert_eq!(session_of(text), None);
        }
        assert!(!is_ulid("01jabc"));
        assert!(!is_ulid("UUUUUUUUUUUUUUUUUUUUUUUUUU"));
    }
}
