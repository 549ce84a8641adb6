//! Results of calls: each content for itself, and structured content checked.

use ah_testkit::mcp::McpScript;
use serde_json::json;

use crate::world::{World, show};

/// The smallest PNG that counts as one.
const PNG: &str = "iVBORw0KGgo=";

#[tokio::test]
async fn a_content_of_a_new_kind_does_not_hide_a_picture() {
    let contents = json!({"content": [
        {"type": "text", "text": "before"},
        {"type": "hologram", "data": "x"},
        {"type": "image", "mimeType": "image/png", "data": PNG},
        {"type": "text"},
    ], "isError": true});
    let server = McpScript::new()
        .tool("look")
        .on_call("look", &format!("answer '{contents}'"));
    let world = World::new(&server);
    let shown = show(&world.call("mcp__s__look", json!({})).await);
    let expected =
        "failed: before{\"type\":\"hologram\",\"data\":\"x\"}<image/png>{\"type\":\"text\"}";
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn structured_content_has_to_fit_its_schema() {
    let tool = |name: &str| {
        json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": {
            "type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"],
        }})
    };
    let answer = |structured: &str| {
        format!(
            "answer '{{\"content\":[{{\"type\":\"text\",\"text\":\"warm\"}}],\"structuredContent\":{structured}}}'"
        )
    };
    let server = McpScript::new()
        .definition(tool("good"))
        .definition(tool("bad"))
        .on_call("good", &answer("{\"degrees\":20}"))
        .on_call("bad", &answer("{\"degrees\":\"many\"}"));
    let world = World::new(&server);
    assert_eq!(show(&world.call("mcp__s__good", json!({})).await), "warm");
    let shown = show(&world.call("mcp__s__bad", json!({})).await);
    assert!(
        shown.starts_with("warm\n[the structured result does not fit the schema"),
        "{shown}"
    );
    assert!(shown.contains("\"many\" is not of type"), "{shown}");
}
