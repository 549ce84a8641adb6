//! Conversion of content blocks to rows and back.

use ah_conversation::{ContentBlock, Image, Input, Message, ToolResult, ToolUse, ToolUseId, json};
use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};

use super::Failure;
use super::details::Details;
use super::number::{signed, unsigned};
use super::outputs::{FullOutput, ResultColumns, needed_output};

/// Columns that [`block`] reads, in this order.
pub(super) const BLOCK: &str = concat!(
    "message_id, seq, block_type, tool_id, tool_name, is_error, duration_ms, details, tool_input, content, \
     CASE WHEN block_type = 'tool_result' THEN ",
    needed_output!(),
    " END"
);
/// Condition for the blocks of a row of `messages`; if nobody has said which rows these are, each is looked at.
pub(super) const OF_MESSAGE: &str = "content_blocks.message_id = messages.id AND content_blocks.id
    BETWEEN coalesce(messages.first_block, 0) AND coalesce(messages.last_block, 9223372036854775807)";
/// Ids from here on leave no room for more blocks.
const MOST_BLOCKS: i64 = i64::MAX / 2;
const TEXT: &str = "text";
const THINKING: &str = "thinking";
const REDACTED_THINKING: &str = "redacted_thinking";
const IMAGE: &str = "image";
const TOOL_USE: &str = "tool_use";
pub(super) const TOOL_RESULT: &str = "tool_result";
const OTHER: &str = "other";

/// Columns of a block, except for the ids of row and message.
pub(super) struct BlockColumns {
    block_type: &'static str,
    tool_id: Option<String>,
    tool_name: Option<String>,
    is_error: bool,
    duration_ms: Option<u64>,
    pub details: Details,
    tool_input: Option<String>,
    content: Option<String>,
    tool_output: Option<FullOutput>,
}

/// Returns the row id of the block that is stored next.
///
/// # Errors
///
/// If the database has a block whose id leaves no room: no program writes so many, but one may write such a number.
pub(super) fn next_id(connection: &Connection) -> Result<i64, Failure> {
    let sql = "SELECT coalesce(max(id), 0) FROM content_blocks";
    let last: i64 = connection
        .prepare_cached(sql)?
        .query_one([], |row| row.get(0))?;
    if last >= MOST_BLOCKS {
        return Err(Failure::Refused {
            reason: format!(
                "nothing can be added, as one of its content blocks has the number {last}"
            ),
            hint: Some("another program changed it: ask its sender for another one".to_owned()),
        });
    }
    Ok(last + 1)
}

/// Inserts a block at position `seq` of `message`, whose blocks are the rows from `first` on.
pub(super) fn insert(
    connection: &Connection,
    message: &Message,
    first: i64,
    seq: usize,
    columns: BlockColumns,
) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO content_blocks (id, message_id, block_type, seq, tool_id, tool_name, is_error, duration_ms,
                 details, tool_input, content, tool_output)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            first.saturating_add(signed(seq as u64)),
            message.id.as_str(),
            columns.block_type,
            signed(seq as u64),
            columns.tool_id,
            columns.tool_name,
            columns.is_error,
            columns.duration_ms.map(signed),
            columns.details.encode()?,
            columns.tool_input,
            columns.content,
            columns.tool_output,
        ])?;
    Ok(())
}

/// Reads a content block from the columns [`BLOCK`].
pub(super) fn block(row: &Row<'_>) -> Result<ContentBlock, Failure> {
    let details = Details::decode(row.get_ref(7)?.as_str_or_null()?)?;
    let content = || row.get::<_, String>(9);
    let detail = |name: &str| {
        let own = details.own.as_ref()?;
        own.get(name)?.as_str().map(str::to_owned)
    };
    Ok(match row.get_ref(2)?.as_str()? {
        TEXT => ContentBlock::Text { text: content()? },
        THINKING => ContentBlock::Thinking {
            thinking: content()?,
            signature: detail("signature"),
        },
        REDACTED_THINKING => ContentBlock::RedactedThinking { data: content()? },
        IMAGE => ContentBlock::Image(Image {
            media_type: detail("media_type").unwrap_or_default(),
            data: content()?,
        }),
        TOOL_USE => ContentBlock::ToolUse(ToolUse {
            id: ToolUseId::from(row.get_ref(3)?.as_str()?),
            name: row.get(4)?,
            input: input(row.get_ref(8)?.as_str_or_null()?)?,
        }),
        TOOL_RESULT => ContentBlock::ToolResult(ToolResult {
            tool_use_id: ToolUseId::from(row.get_ref(3)?.as_str()?),
            tool_name: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            content: ResultColumns::seen(row.get(9)?, row.get_ref(10)?, details.is_blocks)?,
            is_error: row.get(5)?,
            duration_ms: unsigned(row.get(6)?),
            lines: details.lines,
            details: details.whole(row.get_ref(10)?.as_str().ok()),
        }),
        OTHER => ContentBlock::Other {
            raw: details.own.map(|own| own.value()).unwrap_or_default(),
        },
        unknown => {
            return Err(Failure::Damaged(format!(
                "a content block has the unknown type `{unknown}`"
            )));
        }
    })
}

/// Reads the arguments of a call from its column.
pub(super) fn input(text: Option<&str>) -> Result<Input, Failure> {
    Ok(match text {
        None => Input::default(),
        Some(text) => json::from_str::<Value>(text)?.into(),
    })
}

/// Returns the columns of a block; a tool result is its own full output.
pub(super) fn columns(block: &ContentBlock) -> Result<BlockColumns, Failure> {
    let plain = |block_type, content: &str| BlockColumns {
        content: Some(content.to_owned()),
        ..BlockColumns::of(block_type)
    };
    Ok(match block {
        ContentBlock::Text { text } => plain(TEXT, text),
        ContentBlock::Thinking {
            thinking,
            signature,
        } => BlockColumns {
            details: signature.as_ref().map_or_else(Details::default, |seal| {
                Details::own(json!({ "signature": seal }))
            }),
            ..plain(THINKING, thinking)
        },
        ContentBlock::RedactedThinking { data } => plain(REDACTED_THINKING, data),
        ContentBlock::Image(Image { media_type, data }) => BlockColumns {
            details: Details::own(json!({ "media_type": media_type })),
            ..plain(IMAGE, data)
        },
        ContentBlock::ToolUse(ToolUse { id, name, input }) => BlockColumns {
            tool_id: Some(id.to_string()),
            tool_name: Some(name.clone()),
            tool_input: Some(serde_json::to_string(input)?),
            ..BlockColumns::of(TOOL_USE)
        },
        ContentBlock::ToolResult(result) => result_columns(result, None)?,
        ContentBlock::Other { raw } => BlockColumns {
            details: Details::own(raw.clone()),
            ..BlockColumns::of(OTHER)
        },
    })
}

/// Returns the columns of a tool result; without `full_output`, the result itself is the full output.
pub(super) fn result_columns(
    result: &ToolResult,
    full_output: Option<FullOutput>,
) -> Result<BlockColumns, Failure> {
    let columns = ResultColumns::new(result, full_output)?;
    Ok(BlockColumns {
        tool_id: Some(result.tool_use_id.to_string()),
        tool_name: Some(result.tool_name.clone()),
        is_error: result.is_error,
        duration_ms: Some(result.duration_ms),
        details: columns.details,
        content: columns.content,
        tool_output: Some(columns.tool_output),
        ..BlockColumns::of(TOOL_RESULT)
    })
}

impl BlockColumns {
    fn of(block_type: &'static str) -> Self {
        Self {
            block_type,
            tool_id: None,
            tool_name: None,
            is_error: false,
            duration_ms: None,
            details: Details::default(),
            tool_input: None,
            content: None,
            tool_output: None,
        }
    }
}
