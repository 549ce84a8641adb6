//! Truncation of long outputs for the model: a head and a tail with a notice between them. The store keeps the whole
//! output.

use ah_conversation::{
    Content, LeftOut, LineCount, ResultBlock, ToolUseId, Truncation, WholeOutput,
};

/// The part of an output for the model.
pub(crate) struct Truncated {
    /// The part.
    pub(crate) content: Vec<ResultBlock>,
    /// Number of lines of the whole output, if it is only a part.
    pub(crate) lines: Option<u64>,
}

/// Returns the part of `content` for the model: within the `limit` of the tool, and of at most `most` bytes, as much as the
/// context window has room for. Invalid UTF-8 becomes U+FFFD; images are never truncated.
pub(crate) fn truncate(
    content: &Content,
    limit: Truncation,
    most: usize,
    call: &ToolUseId,
) -> Truncated {
    let limit = Truncation {
        bytes: limit.bytes.min(most),
        ..limit
    };
    let whole = match (content, WholeOutput::of_content(content)) {
        (Content::Blocks(blocks), _) => return cut_blocks(blocks, most, call),
        (_, None) => return cut_blocks(&[], most, call),
        (_, Some(whole)) => whole,
    };
    let cut = cut(whole, limit, call);
    let lines = cut.is_some().then(|| whole.lines());
    let text = cut.unwrap_or_else(|| content.text());
    Truncated {
        content: vec![ResultBlock::Text { text }],
        lines,
    }
}

/// Returns the first and last part of an output within the limits, with a notice between them; `None` if it is within them.
fn cut(whole: WholeOutput<'_>, limit: Truncation, call: &ToolUseId) -> Option<String> {
    let excerpt = whole.excerpt(limit)?;
    let notice = format!(
        "[{}; the `result` tool shows all of tool_use_id {call}]",
        excerpt.left_out
    );
    let head = String::from_utf8_lossy(excerpt.head);
    let tail = String::from_utf8_lossy(excerpt.tail);
    Some(match excerpt.left_out {
        LeftOut::Lines(_) => format!("{head}{notice}\n{tail}"),
        LeftOut::Bytes(_) => format!("{head}\n\n{notice}\n\n{tail}"),
    })
}

/// Returns the blocks with all their texts together cut to `most` bytes, each in proportion.
fn cut_blocks(blocks: &[ResultBlock], most: usize, call: &ToolUseId) -> Truncated {
    let length = |block: &ResultBlock| match block {
        ResultBlock::Text { text } => text.len(),
        ResultBlock::Image(_) | ResultBlock::Audio(_) => 0,
    };
    let all: usize = blocks.iter().map(length).sum();
    if all <= most {
        return Truncated {
            content: blocks.to_vec(),
            lines: None,
        };
    }
    let pieces = blocks.iter().map(|block| match block {
        ResultBlock::Text { text } => {
            let share = most as u128 * text.len() as u128 / all as u128;
            let share = usize::try_from(share).unwrap_or(most);
            let limit = Truncation {
                bytes: share,
                lines: None,
            };
            let cut = cut(WholeOutput::of(text.as_bytes()), limit, call);
            let text = cut.unwrap_or_else(|| text.clone());
            ResultBlock::Text { text }
        }
        ResultBlock::Image(_) | ResultBlock::Audio(_) => block.clone(),
    });
    Truncated {
        content: pieces.collect(),
        lines: Some(LineCount::of(ResultBlock::text_of(blocks))),
    }
}

/// Returns the first `limit` characters of `content` with a notice, and the total number of characters, if it is
/// longer (the setting `maxToolResultChars`). Of output in a file, the number of bytes is known, which is no less.
pub(crate) fn cut_to_characters(
    content: &Content,
    limit: usize,
    tool: &str,
) -> Option<(Truncated, String)> {
    let lines = WholeOutput::of_content(content)?.lines();
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
    let count = grouped(shown.chars().count());
    let how_many = match bytes {
        None => format!("{count} of {} characters", grouped(all)),
        Some(bytes) => format!("{count} characters of {} bytes", grouped(bytes)),
    };
    let notice = format!("[OUTPUT TRUNCATED: Showing {how_many} from {tool}]");
    let text = format!("{shown}\n\n{notice}");
    let truncated = Truncated {
        content: vec![ResultBlock::Text { text }],
        lines: Some(lines),
    };
    Some((truncated, how_many))
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
        .content
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
    fn what_is_left_out_is_counted_in_the_whole_output() {
        let numbers: String = (1..=14_000).map(|number| format!("{number}\n")).collect();
        let limit = Truncation {
            bytes: 30_000,
            lines: Some(256),
        };
        let content = Content::Bytes(numbers.into_bytes());
        let truncated = truncate(&content, limit, usize::MAX, &"t1".into());
        assert_eq!(truncated.lines, Some(14_000));
        let text = ResultBlock::text_of(&truncated.content);
        assert!(text.contains("\n128\n[13744 lines omitted;"), "{text}");
        assert!(text.contains("]\n13873\n"), "{text}");
        let (start, _) = cut_to_characters(&content, 5, "bash").unwrap();
        assert_eq!(start.lines, Some(14_000));
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
            lines: 1000,
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
        let whole = cut(4_000);
        assert_eq!((whole.content, whole.lines), (blocks, None));
        let Truncated {
            content: shown,
            lines,
        } = cut(2_000);
        assert_eq!(lines, Some(2));
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
