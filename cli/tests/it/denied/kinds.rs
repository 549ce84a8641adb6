//! The same for files that are not shown as text, and for ways that are no tool of ours: notebooks, pictures, PDFs, Lua
//! files, resources of servers, mentions in prompts and commands.

use std::fs;

use ah_provider::script::format::Turn;
use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use serde_json::json;

use super::CANARY;
use crate::sandbox::is_missing;
use crate::support::binary::World;

/// A picture of one pixel, and the text by which it is recognised in what is stored.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// The file of the picture.
const PIXEL: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0dIDATx\xdacd\xf8\xcfP\x0f\x00\x03\x86\x01\x80Z4}k\x00\x00\x00\x00IEND\xaeB`\x82";
/// A tool of the user that shows a file, in three ways.
const LUA: &str = r#"local fs = require("fs")
return {name = "show", description = "Shows a file.", input_schema = {type = "object"}, read_only = true,
execute = function(input)
    local found = {fs.read(input.path) or "none"}
    local file = io.open(input.path)
    if file then found[#found + 1] = file:read("a") end
    if fs.rename(input.path, input.path .. ".moved") then
        found[#found + 1] = fs.read(input.path .. ".moved") or "none"
        fs.rename(input.path .. ".moved", input.path)
    end
    return table.concat(found, "\n")
end}"#;

/// Ways that show nothing even if nothing is denied, and are to stay so.
const QUIET: [&str; 5] = [
    "a cell",
    "a mention",
    "a mentioned notebook",
    "a mentioned PDF",
    "a mentioned folder",
];

/// A document of one page that says `text`.
fn pdf(text: &str) -> Vec<u8> {
    let content = format!("BT /F 12 Tf 72 700 Td ({text}) Tj ET");
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>".to_owned(),
        format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding/WinAnsiEncoding>>".to_owned(),
    ];
    let mut made = "%PDF-1.5\n".to_owned();
    let mut places = "0000000000 65535 f \n".to_owned();
    for (number, object) in objects.iter().enumerate() {
        places += &format!("{:010} 00000 n \n", made.len());
        made += &format!("{} 0 obj\n{object}\nendobj\n", number + 1);
    }
    let start = made.len();
    made +=
        &format!("xref\n0 6\n{places}trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n");
    made.into_bytes()
}

fn world() -> World {
    let world = World::new();
    world.write("s/key", format!("{CANARY}\n"));
    let cell = json!({
        "cell_type": "code", "id": "one", "source": [format!("print('{CANARY}')")], "metadata": {},
        "outputs": [], "execution_count": 1,
    });
    let book = json!({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
    world.write("s/book.ipynb", book.to_string());
    world.write("s/picture.png", PIXEL);
    world.write("s/text.pdf", pdf(CANARY));
    for (folder, name, text) in [
        ("tools", "show.lua", LUA),
        ("commands", "look.md", "A: @s/key\nB: !`cat s/key`\n"),
    ] {
        let folder = world.home().join(".ah").join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
    }
    world
}

/// Ways of reading: a name, calls of the model, and the prompt.
fn ways(world: &World) -> Vec<(&'static str, Vec<Turn>, &'static str)> {
    let read = |name: &str| vec![uses("Read", json!({"file_path": world.file(name)}))];
    let key = world.file("s/key");
    let resource = format!("file://{}", key.display());
    let find = uses("mcp_servers", json!({}));
    let ask = uses("mcp_read", json!({"server": "s", "uri": resource}));
    let cell = json!({"notebook_path": world.file("s/book.ipynb"), "cell_id": "one", "new_source": "x", "edit_mode": "replace"});
    vec![
        ("a notebook", read("s/book.ipynb"), "go"),
        ("a cell", vec![uses("NotebookEdit", cell)], "go"),
        ("a picture", read("s/picture.png"), "go"),
        ("a PDF", read("s/text.pdf"), "go"),
        ("a Lua file", vec![uses("show", json!({"path": key}))], "go"),
        (
            "a Lua file, by a name",
            vec![uses("show", json!({"path": "./s/../s/key"}))],
            "go",
        ),
        ("a resource", vec![find, ask], "go"),
        ("a mention", Vec::new(), "look at @s/key"),
        ("a mentioned notebook", Vec::new(), "look at @s/book.ipynb"),
        ("a mentioned picture", Vec::new(), "look at @s/picture.png"),
        ("a mentioned PDF", Vec::new(), "look at @s/text.pdf"),
        ("a mentioned folder", Vec::new(), "look at @s/"),
        ("a command", Vec::new(), "/look"),
    ]
}

/// Whether anything that the session has stored shows the content of a file.
fn is_shown(world: &World) -> bool {
    // A prompt that is refused leaves no session.
    let files = fs::read_dir(world.file(".ah"))
        .into_iter()
        .flatten()
        .flatten();
    let stored: Vec<u8> = files
        .flat_map(|entry| fs::read(entry.path()).unwrap_or_default())
        .collect();
    let is_in = |needle: &[u8]| stored.windows(needle.len()).any(|window| window == needle);
    is_in(CANARY.as_bytes()) || is_in(PICTURE.as_bytes()) || is_in(PIXEL)
}

/// Carries out a way of reading, and returns whether it shows the content.
fn shows(way: usize, options: &[&str]) -> bool {
    let world = world();
    let (_, turns, prompt) = ways(&world).swap_remove(way);
    let server = McpScript::new()
        .initialize(&json!({"capabilities": {"tools": {}, "resources": {}}}))
        .on(
            "\"method\":\"resources/read\"",
            &format!(
                "answer \"{{\\\"contents\\\":[{{\\\"uri\\\":\\\"file:///x\\\",\\\"text\\\":\\\"$(cat '{}')\\\"}}]}}\"",
                world.file("s/key").display()
            ),
        );
    let servers = json!({"mcpServers": {"s": server.config()}}).to_string();
    let model = world.scenario("s", turns.into_iter().chain([says("Done.")]));
    let common = ["-n", "--mcp-config", &servers, "-m", &model, "--", prompt];
    // A prompt that mentions a denied file is refused.
    let ended = world.as_typed([options, &common].concat()).run();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    is_shown(&world) || said.contains(CANARY)
}

#[test]
fn no_content_of_a_denied_file_of_any_kind_is_stored() {
    let free = ["--no-sandbox", "--dangerously-skip-permissions"];
    let count = ways(&world()).len();
    let named = |way: usize| ways(&world())[way].0;
    let working: Vec<_> = (0..count).filter(|way| shows(*way, &free)).collect();
    // An edit does not show the cell, and of what a prompt mentions, only pictures are sent along.
    let expected: Vec<_> = (0..count)
        .filter(|way| !QUIET.contains(&named(*way)))
        .collect();
    assert!(
        expected.iter().all(|way| working.contains(way)),
        "without a rule, these show nothing: {:?}",
        expected
            .iter()
            .filter(|way| !working.contains(way))
            .map(|way| named(*way))
            .collect::<Vec<_>>()
    );
    for manner in [
        &free[..],
        &["--sandbox"],
        &["--no-sandbox", "--permission-mode", "dontAsk"],
    ] {
        if manner.contains(&"--sandbox") && is_missing() {
            continue;
        }
        for rule in ["Read(s/**)", "Read(s)"] {
            let options = [manner, &["--disallowed-tools", rule]].concat();
            for way in 0..count {
                assert!(!shows(way, &options), "{}: {manner:?} {rule}", named(way));
            }
        }
    }
}
