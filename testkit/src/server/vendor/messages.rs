//! Rules of vendors about requests of the Messages API.

use serde_json::Value;

use super::super::json::list;
use super::super::protocol::Protocol::Messages;
use super::fields::first_other;
use super::{Asked, Rule};
use crate::server::picture::{Picture, picture};

/// Longest side of a picture in pixels, and of each if a request has more than [`MANY`].
const LONGEST_SIDE: u32 = 8_000;
const LONGEST_SIDE_OF_MANY: u32 = 2_000;
/// Number of pictures up to which the larger limit holds.
const MANY: usize = 20;
/// Most characters of a picture in base64.
const LONGEST_PICTURE: usize = 10 * 1024 * 1024;

/// Names of a tool's parameters at the top of its schema.
pub const PROPERTY_KEYS: Rule = Rule::new(
    Messages,
    "https://github.com/decocms/studio/pull/6874",
    "2026-09-02",
    |asked| {
        let is_key = |key: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
            (1..=64).contains(&key.len()) && key.bytes().all(is_plain)
        };
        let added = list(asked.body, "messages").iter().flat_map(|message| {
            let blocks = list(message, "content").iter();
            blocks.filter_map(|block| block.pointer("/tool/definition"))
        });
        let tools = list(asked.body, "tools").iter().chain(added);
        for (at, tool) in tools.enumerate() {
            let keys = tool["input_schema"]["properties"].as_object();
            if keys.is_some_and(|keys| keys.keys().any(|key| !is_key(key))) {
                return Err(format!(
                    "tools.{at}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
                ));
            }
        }
        Ok(())
    },
);

/// A picture is of the type that it says.
pub const PICTURE_TYPE: Rule = Rule::new(
    Messages,
    "https://github.com/home-assistant/core/issues/167208",
    "2026-04-02",
    |asked| {
        for (place, source) in pictures(asked.body) {
            let said = source["media_type"].as_str().unwrap_or_default();
            match picture(source["data"].as_str().unwrap_or_default()) {
                None => return Err(format!("{place}: Could not process image")),
                Some(Picture { media_type, .. }) if media_type != said => {
                    return Err(format!(
                        "{place}: The image was specified using the {said} media type, but the image appears to be a {media_type} image"
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    },
);

/// Sides of pictures; less is allowed if there are many, those of earlier messages included.
pub const PICTURE_SIDES: Rule = Rule::new(
    Messages,
    "https://platform.claude.com/docs/en/build-with-claude/vision.md",
    "2026-11-28",
    |asked| {
        let pictures: Vec<_> = pictures(asked.body).collect();
        let (longest, of_many) = match pictures.len() > MANY {
            true => (LONGEST_SIDE_OF_MANY, " for many-image requests"),
            false => (LONGEST_SIDE, ""),
        };
        for (place, source) in pictures {
            let picture = picture(source["data"].as_str().unwrap_or_default());
            if picture.is_some_and(|picture| picture.longest_side() > longest) {
                return Err(format!(
                    "{place}: At least one of the image dimensions exceed max allowed size{of_many}: {longest} pixels"
                ));
            }
        }
        Ok(())
    },
);

/// Size of a picture in base64.
pub const PICTURE_SIZE: Rule = Rule::new(
    Messages,
    "https://github.com/can1357/oh-my-pi/pull/10633",
    "2026-09-03",
    |asked| {
        for (place, source) in pictures(asked.body) {
            let length = source["data"].as_str().unwrap_or_default().len();
            if length > LONGEST_PICTURE {
                return Err(format!(
                    "{place}: image exceeds 10 MB maximum: {length} bytes > {LONGEST_PICTURE} bytes"
                ));
            }
        }
        Ok(())
    },
);

/// Output limits of the models.
pub const OUTPUT_LIMIT: Rule = Rule::new(
    Messages,
    "PyPI litellm 1.110.2, model_prices_and_context_window_backup.json",
    "2026-11-28",
    |asked| {
        let name = claude(asked.model());
        let smaller = ["claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5"];
        let is_smaller = smaller.iter().any(|start| name.starts_with(start));
        let most = if is_smaller { 64_000 } else { 128_000 };
        match asked.body["max_tokens"].as_u64() {
            Some(wanted) if name.starts_with("claude-") && wanted > most => Err(format!(
                "max_tokens: {wanted} > {most}, which is the maximum allowed number of output tokens for {name}"
            )),
            _ => Ok(()),
        }
    },
);

/// Fields at the top.
pub const FIELDS: Rule = Rule::new(
    Messages,
    "npm @anthropic-ai/sdk 1.14.0, resources/beta/messages",
    "2026-11-24",
    |asked| match first_other(asked.body, &KNOWN) {
        Some(field) => Err(format!("{field}: Extra inputs are not permitted")),
        None => Ok(()),
    },
);

const KNOWN: [&str; 28] = [
    "anthropic_version",
    "cache_control",
    "compaction",
    "container",
    "context_management",
    "diagnostics",
    "fallbacks",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "thread",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
    "user_profile_id",
];

/// Bedrock: beta features that it does not have are refused.
pub const BETAS: Rule = Rule::new(
    Messages,
    "PyPI litellm 1.110.2, anthropic_beta_headers_config.json",
    "2026-11-28",
    |asked| only_betas(asked, &BEDROCK_BETAS),
);

/// Vertex: beta features that it does not have are refused.
pub const VERTEX_BETAS: Rule = Rule::new(
    Messages,
    "PyPI litellm 1.106.2, anthropic_beta_headers_config.json",
    "2026-11-28",
    |asked| only_betas(asked, &OF_VERTEX),
);

fn only_betas(asked: &Asked<'_>, known: &[&str]) -> Result<(), String> {
    match asked.betas().find(|beta| !known.contains(beta)) {
        Some(_) => Err("invalid beta flag".to_owned()),
        None => Ok(()),
    }
}

const OF_VERTEX: [&str; 13] = [
    "compact-2026-01-12",
    "computer-use-2025-01-24",
    "computer-use-2025-11-24",
    "context-1m-2025-08-07",
    "context-management-2025-06-27",
    "dangerous-tool-use-2026-09-03",
    "inline-tools-2026-09-15",
    "interleaved-thinking-2025-05-14",
    "per-turn-control-2026-07-01",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "tool-search-tool-2025-10-19",
    "web-search-2025-03-05",
];

const BEDROCK_BETAS: [&str; 15] = [
    "compact-2026-01-12",
    "compact-2026-09-04",
    "computer-use-2025-01-24",
    "computer-use-2025-11-24",
    "context-1m-2025-08-07",
    "context-management-2025-06-27",
    "dangerous-tool-use-2026-09-03",
    "effort-2025-11-24",
    "fine-grained-tool-streaming-2025-05-14",
    "mid-conversation-output-config-2026-07-01",
    "mid-conversation-tool-changes-2026-07-01",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "tool-examples-2025-10-29",
    "tool-search-tool-2025-10-19",
];

/// Vertex: the version is in the body, the model in the path.
pub const VERSION_IN_BODY: Rule = Rule::new(
    Messages,
    "npm @anthropic-ai/vertex-sdk 1.1.3, client.js",
    "2026-11-28",
    |asked| match asked.body["anthropic_version"].as_str() {
        Some("vertex-2023-10-16") => Ok(()),
        Some(other) => Err(format!("anthropic_version: \"{other}\" is not supported")),
        None => Err("anthropic_version: Field required".to_owned()),
    },
);

/// Bedrock: pictures come with the request.
pub const NO_ADDRESSES: Rule = Rule::new(
    Messages,
    "https://platform.claude.com/docs/en/build-with-claude/vision",
    "2026-11-28",
    |asked| match sources(asked.body).find(|(_, source)| source["type"] != "base64") {
        Some((place, source)) => Err(format!(
            "{place}: Input tag {} found using 'type' does not match any of the expected tags: 'base64'",
            source["type"]
        )),
        None => Ok(()),
    },
);

/// MiniMax: a message with results holds nothing else.
pub const RESULTS_ALONE: Rule = Rule::new(
    Messages,
    "https://github.com/anomalyco/opencode/pull/32609",
    "2026-06-16",
    |asked| {
        let mut messages = list(asked.body, "messages").iter();
        let is_mixed = |message: &Value| {
            let blocks = list(message, "content");
            let is_result = |block: &Value| block["type"] == "tool_result";
            blocks.iter().any(is_result) && !blocks.iter().all(is_result)
        };
        match messages.find(|message| is_mixed(message)) {
            Some(_) => {
                Err("invalid params, tool call result does not follow tool call (2013)".to_owned())
            }
            None => Ok(()),
        }
    },
);

/// Beta features that are part of the API by now.
pub const OLD_BETAS: Rule = Rule::new(
    Messages,
    "https://platform.claude.com/docs/en/release-notes/overview, 16 November",
    "2026-11-28",
    |asked| {
        let old = [
            "cache-diagnosis-2026-04-07",
            "extended-cache-ttl-2025-04-11",
            "prompt-caching-2024-07-31",
        ];
        match asked.betas().find(|beta| old.contains(beta)) {
            Some(beta) => Err(format!("the beta header `{beta}` is deprecated")),
            None => Ok(()),
        }
    },
);

/// Returns the vendor's own name of a model that a cloud may name otherwise.
fn claude(model: &str) -> &str {
    model.rsplit(['/', '.']).next().unwrap_or_default()
}

/// Returns the pictures that the request holds, with their places.
fn pictures(body: &Value) -> impl Iterator<Item = (String, &Value)> {
    sources(body).filter(|(_, source)| source["type"] == "base64")
}

/// Returns the sources of all pictures, those in results included, with their places.
fn sources(body: &Value) -> impl Iterator<Item = (String, &Value)> {
    let messages = list(body, "messages").iter().enumerate();
    messages.flat_map(|(number, message)| {
        let blocks = list(message, "content").iter().enumerate();
        blocks.flat_map(move |(at, block)| {
            let inner = list(block, "content").iter();
            let images = std::iter::once(block)
                .chain(inner)
                .filter(|it| it["type"] == "image");
            images.map(move |image| {
                let place = format!("messages.{number}.content.{at}.image.source.base64.data");
                (place, &image["source"])
            })
        })
    })
}
