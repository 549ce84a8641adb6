//! Truncation of long outputs for the model: a head and a tail with a notice between them. The store keeps the whole
//! output.

use std::borrow::Cow;

use ah_conversation::{Content, ResultBlock, ToolUseId, Truncation};

/// Returns the part of `content` for the model: within the `limit` of the tool, and of at most `most` bytes, as much as the
/// context window has room for. Invalid UTF-8 becomes U+FFFD; images are never truncated.
pub(crate) fn truncate(
    content: &Content,
    limit: Truncation,
    most: usize,
    call: &ToolUseId,
) -> Vec<ResultBlock> {
    let limit = Truncation {
        bytes: limit.bytes.min(most),
        ..limit
    };
    let text = match content {
        Content::Blocks(blocks) => return cut_blocks(blocks, most, call),
        Content::Bytes(bytes) if bytes.len() <= limit.bytes => String::from_utf8_lossy(bytes),
        Content::Bytes(bytes) => {
            let (head, tail) = bytes.split_at(bytes.len() / 2);
            Cow::Owned(cut_bytes(head, tail, bytes.len() as u64, limit.bytes, call))
        }
        Content::Spool(spool) => Cow::Owned(cut_bytes(
            &spool.head,
            &spool.tail,
            spool.len,
            limit.bytes,
            call,
        )),
    };
    let text = match limit.lines {
        Some(lines) => cut_lines(&text, lines, call),
        None => text.into_owned(),
    };
    vec![ResultBlock::Text { text }]
}

/// Returns the blocks with all their texts together cut to `most` bytes, each in proportion.
fn cut_blocks(blocks: &[ResultBlock], most: usize, call: &ToolUseId) -> Vec<ResultBlock> {
    let length = |block: &ResultBlock| match block {
        ResultBlock::Text { text } => text.len(),
        ResultBlock::Image(_) | ResultBlock::Audio(_) => 0,
    };
    let all: usize = blocks.iter().map(length).sum();
    if all <= most {
        return blocks.to_vec();
    }
    let cut = blocks.iter().map(|block| match block {
        ResultBlock::Text { text } => {
            let share = most as u128 * text.len() as u128 / all as u128;
            let share = usize::try_from(share).unwrap_or(most);
            let (head, tail) = text.as_bytes().split_at(text.len() / 2);
            let text = cut_bytes(head, tail, text.len() as u64, share, call);
            ResultBlock::Text { text }
        }
        ResultBlock::Image(_) | ResultBlock::Audio(_) => block.clone(),
    });
    cut.collect()
}

/// Returns the first `limit` characters of `content` with a notice, and the total number of characters, if it is
/// longer (the setting `maxToolResultChars`). Spooled output is measured in bytes.
pub(crate) fn cut_to_characters(
    content: &Content,
    limit: usize,
    tool: &str,
) -> Option<(ResultBlock, usize)> {
    let (start, bytes) = match content {
        Content::Blocks(_) => return None,
        Content::Bytes(bytes) => (bytes, None),
        Content::Spool(spool) => (&spool.head, usize::try_from(spool.len).ok()),
    };
    let text = String::from_utf8_lossy(start);
    let all = bytes.unwrap_or_else(|| text.chars().count());
    if all <= limit {
        return None;
    }
    let shown: String = text.chars().take(limit).collect();
    let count = shown.chars().count();
    let notice = format!(
        "[OUTPUT TRUNCATED: Showing {} of {} characters from {tool}]",
        grouped(count),
        grouped(all)
    );
    let text = format!("{shown}\n\n{notice}");
    Some((ResultBlock::Text { text }, all))
}

/// Formats a number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns the first and last half of `limit` bytes of an output that begins with `head`, ends with `tail` and has
/// `len` bytes in total.
fn cut_bytes(head: &[u8], tail: &[u8], len: u64, limit: usize, call: &ToolUseId) -> String {
    let half = limit / 2;
    let head = floor(&head[..head.len().min(half)]);
    let tail = ceil(&tail[tail.len().saturating_sub(limit - half)..]);
    let removed = len - (head.len() + tail.len()) as u64;
    format!(
        "{}\n\n[{removed} bytes removed from the middle; the `result` tool shows all of tool_use_id {call}]\n\n{}",
        String::from_utf8_lossy(head),
        String::from_utf8_lossy(tail),
    )
}

fn cut_lines(text: &str, limit: usize, call: &ToolUseId) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.len() <= limit {
        return text.to_owned();
    }
    let (head, rest) = lines.split_at(limit / 2);
    let (omitted, tail) = rest.split_at(rest.len() - (limit - limit / 2));
    format!(
        "{}[{} lines omitted; the `result` tool shows all of tool_use_id {call}]\n{}",
        head.concat(),
        omitted.len(),
        tail.concat(),
    )
}

/// Removes an incomplete character at the end.
fn floor(bytes: &[u8]) -> &[u8] {
    let start = bytes.len().saturating_sub(4);
    match bytes[start..].iter().rposition(|byte| byte & 0xC0 != 0x80) {
        Some(at) if width(bytes[start + at]) > bytes.len() - start - at => &bytes[..start + at],
        _ => bytes,
    }
}

/// Removes an incomplete character at the beginning.
fn ceil(bytes: &[u8]) -> &[u8] {
    let cut = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xC0 == 0x80)
        .count();
    &bytes[cut..]
}

/// Returns the length of the character that starts with `byte`.
fn width(byte: u8) -> usize {
    match byte {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::Spool;
    use proptest::prelude::*;

    use super::*;

    fn shown(content: &Content, bytes: usize, lines: Option<usize>) -> String {
        match truncate(
            content,
            Truncation { bytes, lines },
            usize::MAX,
            &"t1".into(),
        )
        .remove(0)
        {
            ResultBlock::Text { text } => text,
            ResultBlock::Image(_) | ResultBlock::Audio(_) => unreachable!("text in, text out"),
        }
    }

    fn bytes(text: &str) -> Content {
        Content::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn a_short_output_is_shown_whole() {
        assert_eq!(shown(&bytes("abc\n"), 4, Some(1)), "abc\n");
    }

    #[test]
    fn head_and_tail_stay_and_the_notice_names_the_call() {
        insta::assert_snapshot!(shown(&bytes("aaaa----bbbb"), 8, None), @r"
        aaaa

        [4 bytes removed from the middle; the `result` tool shows all of tool_use_id t1]

        bbbb
        ");
        insta::assert_snapshot!(shown(&bytes("1\n2\n3\n4\n5\n"), 100, Some(3)), @r"
        1
        [2 lines omitted; the `result` tool shows all of tool_use_id t1]
        4
        5
        ");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for limit in 1..12 {
            assert!(
                !shown(&bytes("äöü€😀äöü€😀"), limit, None).contains('\u{FFFD}'),
                "{limit}"
            );
        }
    }

    #[test]
    fn a_spooled_output_reads_like_one_in_memory() {
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let (head, tail) = text.as_bytes().split_at(text.len() / 3);
        let spool = Spool {
            path: "spool".into(),
            len: text.len() as u64,
            left_out: 0,
            sha256: String::new(),
            head: head.to_vec(),
            tail: tail[tail.len() - 2000..].to_vec(),
        };
        assert_eq!(
            shown(&Content::Spool(spool), 1000, Some(9)),
            shown(&bytes(&text), 1000, Some(9))
        );
    }

    #[test]
    fn the_texts_of_blocks_share_what_the_window_has_room_for() {
        let text = |text: &str| ResultBlock::Text {
            text: text.to_owned(),
        };
        let blocks = vec![text(&"a".repeat(3_000)), text(&"b".repeat(1_000))];
        let content = Content::Blocks(blocks.clone());
        let cut = |most| truncate(&content, Truncation::DEFAULT, most, &"t1".into());
        assert_eq!(cut(4_000), blocks);
        let shown = cut(2_000);
        let lengths: Vec<_> = { shown.iter() }
            .map(|block| match block {
                ResultBlock::Text { text } => text.matches(['a', 'b']).count(),
                ResultBlock::Image(_) | ResultBlock::Audio(_) => 0,
            })
            .collect();
        // The notices have letters as well.
        assert!((1_500..1_510).contains(&lengths[0]), "{lengths:?}");
        assert!((500..510).contains(&lengths[1]), "{lengths:?}");
    }

    proptest! {
        #[test]
        fn a_truncated_output_is_bounded_and_keeps_both_ends(data in prop::collection::vec(any::<u8>(), 0..400), limit in 2usize..80) {
            let text = shown(&Content::Bytes(data.clone()), limit, None);
            // An invalid byte takes three bytes as U+FFFD.
            prop_assert!(text.len() <= 3 * limit + 120);
            if data.len() <= limit {
                prop_assert_eq!(text, String::from_utf8_lossy(&data));
            }
        }

        #[test]
        fn lines_are_counted_correctly(count in 0usize..50, limit in 2usize..20) {
            let text: String = (0..count).map(|line| format!("{line}\n")).collect();
            let shown = shown(&bytes(&text), 10_000, Some(limit));
            prop_assert_eq!(shown.lines().count(), if count <= limit { count } else { limit + 1 });
        }
    }
}
