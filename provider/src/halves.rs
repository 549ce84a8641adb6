//! Characters that a server cuts in two.
//!
//! A server whose strings are UTF-16 (JavaScript, Java) may cut an emoji between two events: one ends with `\ud83d`, the next
//! one begins with `\ude00`. Each half alone would become U+FFFD ([`json`]). So an event that ends within a character waits
//! for the next one, which gives it the other half if it has it; if not, both are read as they are.

use ah_conversation::json;
use ah_http::sse;

/// The place between two events, where a character may be cut.
#[derive(Debug, Default)]
pub struct Seam {
    /// An event that ends within a character.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    name: String,
    data: String,
}

impl Seam {
    /// Hands the next event of a stream to `read`, or keeps it until the one after it.
    pub fn pass<E>(
        &mut self,
        event: sse::Event<'_>,
        mut read: impl FnMut(sse::Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = None;
        if let Some(Held { name, mut data }) = self.held.take() {
            if let Some((first, second)) = join(&data, event.data) {
                data = first;
                rest = Some(second);
            }
            let (name, data) = (&name, &data);
            read(sse::Event { name, data })?;
        }
        let data = rest.as_deref().unwrap_or(event.data);
        if json::halves(data).any(|half| is_at_end(data, half)) {
            self.held = Some(Held {
                name: event.name.to_owned(),
                data: data.to_owned(),
            });
            return Ok(());
        }
        read(sse::Event { data, ..event })
    }

    /// Hands the event that waits to `read`: no other follows.
    pub fn end<E>(
        &mut self,
        mut read: impl FnMut(sse::Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.held.take().map_or(Ok(()), |Held { name, data }| {
            let (name, data) = (&name, &data);
            read(sse::Event { name, data })
        })
    }
}

/// Moves the second halves at the beginnings of strings in `second` to the first ones at the ends of strings in `first`.
/// Returns `None` if they are not as many: a piece may be there twice, such as OpenRouter's `reasoning` and
/// `reasoning_details`.
fn join(first: &str, second: &str) -> Option<(String, String)> {
    let ends: Vec<_> = json::halves(first)
        .filter(|half| is_at_end(first, *half))
        .collect();
    let starts: Vec<_> = json::halves(second)
        .filter(|half| is_at_start(second, *half))
        .collect();
    if ends.len() != starts.len() {
        return None;
    }
    let (mut longer, mut shorter) = (first.to_owned(), second.to_owned());
    for (end, start) in ends.into_iter().zip(starts).rev() {
        let half = start.range();
        longer.insert_str(end.range().end, &second[half.clone()]);
        shorter.replace_range(half, "");
    }
    Some((longer, shorter))
}

/// Whether a half is the first of its character and the last of its string.
fn is_at_end(text: &str, half: json::Half) -> bool {
    half.is_first && text[half.range().end..].starts_with('"')
}

/// Whether a half is the second of its character and the first of its string.
fn is_at_start(text: &str, half: json::Half) -> bool {
    let quote = text[..half.at].strip_suffix('"');
    !half.is_first && quote.is_some_and(|before| !before.ends_with('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_at_the_seam_of_two_events_are_joined() {
        for (first, second, expected) in [
            (
                r#"{"text":"a \ud83d"}"#,
                r#"{"text":"\ude00 b"}"#,
                Some((r#"{"text":"a \ud83d\ude00"}"#, r#"{"text":" b"}"#)),
            ),
            // The pieces of reasoning that OpenRouter sends twice.
            (
                r#"{"a":"\ud83d","b":["\uD83D"]}"#,
                r#"{"a":"\ude00","b":["\uDE00x"]}"#,
                Some((
                    r#"{"a":"\ud83d\ude00","b":["\uD83D\uDE00"]}"#,
                    r#"{"a":"","b":["x"]}"#,
                )),
            ),
            (
                r#"["\ud83d\ud83d"]"#,
                r#"["\ude00\ude00"]"#,
                Some((r#"["\ud83d\ud83d\ude00"]"#, r#"["\ude00"]"#)),
            ),
            (r#"["\ud83d"]"#, r#"["b"]"#, None),
            (r#"["\ud83d"]"#, r#"["b \ude00"]"#, None),
            (r#"["\ud83d"]"#, r#"["b \"\ude00"]"#, None),
            (r#"["\ud83d"]"#, r#"["\ude00", "\ude00"]"#, None),
            (r#"["\ud83d"]"#, "[DONE]", None),
        ] {
            let joined = join(first, second);
            let joined = joined.as_ref().map(|(a, b)| (a.as_str(), b.as_str()));
            assert_eq!(joined, expected, "{first} {second}");
        }
    }

    #[test]
    fn an_event_waits_only_within_a_character() {
        let mut seam = Seam::default();
        let mut read = Vec::new();
        for data in [
            r#"["a"]"#,
            r#"["b\ud83d"]"#,
            r#"["\ude00c\ud83d"]"#,
            r#"["\ude01"]"#,
            r#"["d\ud83d"]"#,
            "{}",
            r#"["\ude00 e"]"#,
            r#"["f\ud83d"]"#,
        ] {
            let event = sse::Event { name: "n", data };
            let mut passed = String::new();
            seam.pass(event, |event| {
                passed.push_str(event.data);
                Ok::<_, ()>(())
            })
            .unwrap();
            read.push(passed);
        }
        seam.end(|event| {
            read.push(event.data.to_owned());
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(
            read,
            [
                r#"["a"]"#,
                "",
                r#"["b\ud83d\ude00"]"#,
                r#"["c\ud83d\ude01"][""]"#,
                "",
                r#"["d\ud83d"]{}"#,
                r#"["\ude00 e"]"#,
                "",
                r#"["f\ud83d"]"#,
            ]
        );
    }
}
