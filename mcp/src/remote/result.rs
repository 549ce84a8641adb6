//! Converts the results of servers into tool outputs. Pure.

use ah_conversation::{Audio, Content, Image, Output, ResultBlock, Truncation, json};
use ah_schema::Schema;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::remote::name::clean_line;

/// Returns the output of a tool call.
pub(crate) fn output(result: CallToolResult) -> Output {
    let mut blocks: Vec<_> = result.content.into_iter().flat_map(block).collect();
    if blocks.is_empty()
        && let Some(structured) = result.structured_content
    {
        blocks.push(text(structured.to_string()));
    }
    Output {
        is_error: result.is_error == Some(true),
        ..of_blocks(blocks)
    }
}

/// Returns the output of a result that is not known as a whole: each of its contents for itself, so that one of a new
/// kind does not turn a picture beside it into text.
pub(crate) fn unknown(result: &Value) -> Output {
    let Some(contents) = result["content"].as_array() else {
        return Output::text(result.to_string());
    };
    let each = |content: &Value| match ContentBlock::deserialize(content) {
        Ok(known) => block(known),
        Err(_) => vec![text(content.to_string())],
    };
    Output {
        is_error: result["isError"] == true,
        ..of_blocks(contents.iter().flat_map(each).collect())
    }
}

/// Returns why structured content does not fit the schema that the tool has promised, in words for the model.
pub(crate) fn broken_promise(promised: &Value, structured: &Value) -> Option<String> {
    let faults = Schema::new(promised).ok()?.faults(structured);
    let first = faults.first()?;
    let first = clean_line(&first.to_string(), 500);
    Some(format!(
        "[the structured result does not fit the schema that the server declares for it: {first}]"
    ))
}

/// Returns the output for the contents of a resource.
pub(crate) fn resource(contents: Vec<ResourceContents>) -> Output {
    of_blocks(contents.into_iter().flat_map(contents_block).collect())
}

/// Returns the contents of a resource as JSON, `{"contents": […]}`, for hosts. Long text is cut; the output has all.
pub(crate) fn resource_details(contents: &[ResourceContents]) -> Value {
    let contents = contents.iter().filter_map(|contents| {
        let mut value = serde_json::to_value(contents).ok()?;
        let fields = value.as_object_mut()?;
        fields.retain(|name, _| matches!(name.as_str(), "uri" | "mimeType" | "text"));
        if let Some(Value::String(text)) = fields.get_mut("text") {
            text.truncate(text.floor_char_boundary(Truncation::DEFAULT.bytes));
        }
        Some(value)
    });
    json!({"contents": contents.collect::<Vec<_>>()})
}

/// Text alone is passed on in full, for the store to keep and the model to page through; beside images and sound it is cut.
fn of_blocks(blocks: Vec<ResultBlock>) -> Output {
    let has_others = blocks
        .iter()
        .any(|block| !matches!(block, ResultBlock::Text { .. }));
    if has_others {
        let content = Content::Blocks(blocks.into_iter().map(shortened).collect());
        return Output {
            content,
            ..Output::text("")
        };
    }
    let texts: Vec<_> = blocks
        .into_iter()
        .filter_map(|block| match block {
            ResultBlock::Text { text } => Some(text),
            ResultBlock::Image(_) | ResultBlock::Audio(_) => None,
        })
        .collect();
    match texts.join("\n") {
        empty if empty.is_empty() => Output::text("(no output)"),
        text => Output::text(text),
    }
}

fn block(block: ContentBlock) -> Vec<ResultBlock> {
    vec![match block {
        ContentBlock::Text(content) => text(content.text),
        ContentBlock::Image(content) => image(content.mime_type, content.data),
        ContentBlock::Audio(content) => return audio(&content.mime_type, content.data),
        ContentBlock::Resource(content) => return contents_block(content.resource),
        ContentBlock::ResourceLink(link) => {
            let about = link.description.or(link.title).unwrap_or_default();
            text(format!(
                "[resource {} ({}): {}]",
                clean_line(&link.name, 200),
                clean_line(&about, 500),
                clean_line(&link.uri, 2_000)
            ))
        }
        other => text(json::line(&other)),
    }]
}

fn contents_block(contents: ResourceContents) -> Vec<ResultBlock> {
    vec![match contents {
        ResourceContents::TextResourceContents {
            uri, text: words, ..
        } => text(format!("[resource {}]\n{words}", clean_line(&uri, 2_000))),
        ResourceContents::BlobResourceContents {
            mime_type, blob, ..
        } => {
            let media_type = mime_type.as_deref().unwrap_or("unknown type");
            let kind = media_type.trim().to_ascii_lowercase();
            if kind.starts_with("audio/") {
                return audio(media_type, blob);
            }
            match kind.starts_with("image/") {
                true => image(kind, blob),
                false => left_out(media_type, &blob),
            }
        }
        other => text(json::line(&other)),
    }]
}

/// Returns a sound if models take it, whatever the server calls it, else a note.
fn audio(media_type: &str, data: String) -> Vec<ResultBlock> {
    let bytes = Some(&data).filter(|data| data.len() <= Audio::LIMIT);
    let bytes = bytes.and_then(|data| STANDARD.decode(data).ok());
    let known = bytes.and_then(|bytes| Some((Audio::sniff(&bytes)?, bytes.len())));
    match known {
        Some((media_type, bytes)) => {
            let media_type = media_type.to_owned();
            Audio { media_type, data }.shown(bytes).into()
        }
        None => vec![left_out(media_type, &data)],
    }
}

/// Returns an image, whatever its type and content: the session decodes it before a model sees it.
fn image(media_type: String, data: String) -> ResultBlock {
    ResultBlock::Image(Image { media_type, data })
}

fn left_out(media_type: &str, data: &str) -> ResultBlock {
    let bytes = data.len() / 4 * 3;
    let media_type = clean_line(media_type, 100);
    text(format!("[{media_type}, about {bytes} bytes: not shown]"))
}

fn text(text: impl Into<String>) -> ResultBlock {
    ResultBlock::Text { text: text.into() }
}

fn shortened(block: ResultBlock) -> ResultBlock {
    match block {
        ResultBlock::Text { text: words } if words.len() > Truncation::DEFAULT.bytes => {
            let end = words.floor_char_boundary(Truncation::DEFAULT.bytes);
            let rest = words.len() - end;
            text(format!(
                "{}\n[{rest} more bytes are left out]",
                &words[..end]
            ))
        }
        block => block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    fn shown(result: Value) -> String {
        let output = output(serde_json::from_value(result).unwrap());
        let blocks = match output.content {
            Content::Bytes(bytes) => vec![String::from_utf8(bytes).unwrap()],
            Content::Blocks(blocks) => blocks
                .into_iter()
                .map(|block| match block {
                    ResultBlock::Text { text } => text,
                    ResultBlock::Image(image) => format!("<{}>", image.media_type),
                    ResultBlock::Audio(audio) => format!("<{}>", audio.media_type),
                })
                .collect(),
            Content::Spool(_) => unreachable!(),
        };
        let failed = if output.is_error { "failed: " } else { "" };
        format!("{failed}{}", blocks.join(" | "))
    }

    #[test]
    fn results_are_converted_to_outputs() {
        let png = STANDARD.encode(PNG);
        for (content, expected) in [
            (json!([]), "(no output)"),
            (json!([{"type": "text", "text": ""}]), "(no output)"),
            (
                json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
                "a\nb",
            ),
            (
                json!([{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/PNG", "data": png}]),
                "a | <image/PNG>",
            ),
            (
                json!([{"type": "image", "mimeType": "image/jpeg", "data": png}]),
                "<image/jpeg>",
            ),
            (
                json!([{"type": "image", "mimeType": "image/svg+xml", "data": "AAAA"}]),
                "<image/svg+xml>",
            ),
            (
                json!([{"type": "image", "mimeType": "image/png", "data": "no base64"}]),
                "<image/png>",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA", "mimeType": "application/pdf"}}]),
                "[application/pdf, about 3 bytes: not shown]",
            ),
            (
                json!([{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]),
                "[audio/wav, about 3 bytes: not shown]",
            ),
            (
                json!([{"type": "audio", "mimeType": "audio/x-wav", "data": STANDARD.encode(b"RIFF....WAVEfmt ")}]),
                "[audio/wav, 16 bytes] | <audio/wav>",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "a:b", "blob": STANDARD.encode(b"ID3\x04"), "mimeType": "audio/mp3"}}]),
                "[audio/mpeg, 4 bytes] | <audio/mpeg>",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "a:b", "text": "words"}}]),
                "[resource a:b]\nwords",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "a:b", "blob": png, "mimeType": "image/png"}}]),
                "<image/png>",
            ),
            (
                json!([{"type": "resource_link", "uri": "a:b", "name": "n\u{1b}", "description": "d"}]),
                "[resource n (d): a:b]",
            ),
        ] {
            assert_eq!(shown(json!({"content": content})), expected, "{content}");
        }
        let failed = json!({"isError": true, "content": [{"type": "text", "text": "no"}]});
        assert_eq!(shown(failed), "failed: no");
        let structured = json!({"structuredContent": {"a": 1}, "content": []});
        assert_eq!(shown(structured), "{\"a\":1}");
    }

    #[test]
    fn text_beside_an_image_is_cut() {
        let long = "ü".repeat(20_000);
        let shown = shown(json!({"content": [
            {"type": "text", "text": long},
            {"type": "image", "mimeType": "image/png", "data": STANDARD.encode(PNG)},
        ]}));
        assert!(shown.ends_with("ü\n[10000 more bytes are left out] | <image/png>"));
    }
}
