//! Ids of sessions and messages: ULIDs whose 128 bits are also a UUID of version 7, so that programs which know
//! sessions by UUID see the same id written otherwise.

use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use ah_conversation::{Clock, MessageId, SessionId, Time};
use ulid::Ulid;

/// The length of a ULID as text.
pub(crate) const ULID_LEN: usize = 26;
/// What must stand in the 80 bits behind the time to make them those of a UUIDv7: version and variant.
const UUID_MARKS: u128 = (0x7 << 76) | (0b10 << 62);
/// The random bits on both sides of the variant.
const HIGH_BITS: u128 = (1 << 12) - 1;
const LOW_BITS: u128 = (1 << 62) - 1;
/// How many random bits an id has.
const RANDOM_BITS: u32 = 74;

/// The system's clock; its ids increase, also within a millisecond and when the clock is set back.
#[derive(Debug, Default)]
pub struct SystemClock {
    last: Mutex<Last>,
}

/// The time and the random bits of the last id.
#[derive(Debug, Default, Clone, Copy)]
struct Last {
    milliseconds: u64,
    random: u128,
}

impl SystemClock {
    fn next(&self) -> Ulid {
        let now = u64::try_from(now().0).unwrap_or(0);
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
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

impl Last {
    /// What follows at the time `now`: a fresh id if time has passed, else the last one plus a random step.
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

/// The present moment.
pub(crate) fn now() -> Time {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// A fresh session id, greater than `newest`: the order of ids is the order of sessions even where the clock was
/// set back.
pub(crate) fn fresh_session_id(newest: Option<&SessionId>) -> SessionId {
    let last = newest
        .and_then(|newest| Ulid::from_string(newest.as_str()).ok())
        .map_or_else(Last::default, |newest| Last {
            milliseconds: newest.timestamp_ms(),
            random: (1 << RANDOM_BITS) - 1,
        });
    let clock = SystemClock {
        last: Mutex::new(last),
    };
    SessionId::from(clock.next().to_string())
}

/// The id of a session in the form of a UUID: the same 128 bits. Ids that are no ULID stay as they are.
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

/// The session whose id has the 128 bits of `uuid`; `None` if it is no UUID.
pub(crate) fn session_of(uuid: &str) -> Option<SessionId> {
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

/// The message whose id has the 128 bits of `uuid`; `None` if it is no UUID.
pub fn message_of(uuid: &str) -> Option<MessageId> {
    session_of(uuid).map(|id| MessageId::from(id.as_str()))
}

/// When the session `id` was made, as its first bits say.
pub(crate) fn created_at(id: &SessionId) -> Time {
    let milliseconds = Ulid::from_string(id.as_str()).map_or(0, |ulid| ulid.timestamp_ms());
    Time(i64::try_from(milliseconds).unwrap_or(i64::MAX))
}

/// Whether `text` is a ULID as we write it.
pub(crate) fn is_ulid(text: &str) -> bool {
    text.len() == ULID_LEN && Ulid::from_string(text).is_ok_and(|ulid| ulid.to_string() == text)
}

/// Random bits for an id. Where the system gives none, the time and the process make collisions unlikely.
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
    fn ids_increase_when_the_clock_is_set_back_and_when_the_random_bits_are_used_up() {
        let full = (1 << RANDOM_BITS) - 1;
        for (milliseconds, random, now) in [(5, 1, 3), (5, full, 5), (5, full, 3), (5, 7, 6)] {
            let last = Last {
                milliseconds,
                random,
            };
            assert!(last.after(now, 0).ulid() > last.ulid());
        }
        let newest = SessionId::from("7ZZZZZZZZY7ZZZZZZZZZZZZZZZ");
        assert!(fresh_session_id(Some(&newest)) > newest);
    }

    #[test]
    fn only_uuids_name_a_session_by_uuid() {
        for text in ["", "0192", "----", "0192d3e0-7e1f-7abc-8def-0123456789zz"] {
            assert_eq!(session_of(text), None);
        }
        assert!(!is_ulid("01jabc"));
        assert!(!is_ulid("UUUUUUUUUUUUUUUUUUUUUUUUUU"));
    }
}
