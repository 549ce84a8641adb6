//! Lua files as tools.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::{Embedded, Environment, Tool as _};
use ah_tools::{LuaFiles, LuaSurroundings, LuaTool, LuaTools, Shell, Workspace};
use serde_json::json;

use crate::folder::{self, Folder, run, text};

mod docs;
mod limits;
mod loading;
mod modules;
mod original;

/// A loader for Lua files in a folder, with these environment variables.
fn files(folder: &Folder) -> LuaFiles {
    files_with(folder, Embedded::default())
}

fn files_with(folder: &Folder, embedded: Embedded) -> LuaFiles {
    let cwd = folder.path("");
    let variables = [
        ("PATH", "/usr/bin:/bin"),
        ("GREETING", "hello"),
        ("SOME_TOKEN", "secret"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    LuaFiles::new(LuaSurroundings {
        hidden: ah_conversation::HiddenFiles::default(),
        denied: ah_conversation::Denied::default(),
        workspace: Arc::new(
            Workspace::new(&cwd, None, &[]).with_embedded(Arc::new(embedded.clone())),
        ),
        shell: Shell::new(&Environment::new(variables, cwd.clone())),
        cwd,
        http: ah_http::Options::default(),
        embedded: Arc::new(embedded),
    })
}

/// Loads the tools of the subfolder `tools`.
fn tools(folder: &Folder) -> LuaTools {
    files(folder).folder(Path::new("tools"), &[])
}

/// A tool with this body of `execute`.
fn tool(folder: &Folder, body: &str) -> LuaTool {
    folder.put("tools/sample.lua", source("sample", body));
    let mut found = tools(folder);
    assert_eq!(found.warnings, Vec::<String>::new());
    found.tools.pop().unwrap()
}

fn source(name: &str, body: &str) -> String {
    format!(
        "return {{\n  name = \"{name}\",\n  description = \"A sample\",\n  input_schema = {{}},\n  \
         execute = function(input, context)\n{body}\n  end,\n}}\n"
    )
}

/// The result of `execute` with this body.
fn answer(body: &str) -> String {
    let folder = Folder::new();
    text(&run(&tool(&folder, body), json!({})))
}

#[test]
fn a_call_gives_text_whether_it_failed_and_details() {
    let folder = Folder::new();
    let tool = tool(
        &folder,
        "return input.a + input.b .. \" \" .. context.tool_name, input.a > 5, { sum = input.a + input.b }",
    );
    let output = run(&tool, json!({ "a": 1, "b": 2, "c": null }));
    assert_eq!(text(&output), "3 sample");
    assert_eq!(output.details, Some(json!({ "sum": 3 })));
    assert_eq!(
        text(&run(&tool, json!({ "a": 6, "b": 2 }))),
        "error: 8 sample"
    );
}

#[test]
fn what_makes_no_sense_is_an_error_result() {
    for (body, expected) in [
        ("return 42", "42"),
        ("return 4.5, nil, print", "4.5"),
        ("return \"\\255\"", "\u{fffd}"),
        ("return nil, \"no such city\"", "error: no such city"),
        (
            "return {{ type = \"text\", text = \"a\" }, { type = \"text\", text = \"b\" }}",
            "a\nb",
        ),
        (
            "return",
            "error: the tool is faulty: `execute` must return text, but it returned nothing",
        ),
        (
            "return print",
            "error: the tool is faulty: `execute` must return text, but it returned a function",
        ),
        (
            "return true",
            "error: the tool is faulty: `execute` must return text, but it returned a boolean",
        ),
        (
            "return { a = 1 }",
            "error: the tool is faulty: `execute` must return text, but it returned a table that is not a list of \
             content blocks (invalid type: map, expected a sequence)",
        ),
    ] {
        assert_eq!(answer(body), expected, "{body}");
    }
}

#[test]
fn a_thrown_error_is_an_error_result_with_its_traceback() {
    insta::assert_snapshot!(answer("local function deep() error(\"no luck\") end\n deep()"), @"
        error: tools/sample.lua:6: no luck
        stack traceback:
        	[C]: in ?
        	[C]: in function 'error'
        	tools/sample.lua:6: in local 'deep'
        	tools/sample.lua:7: in function <tools/sample.lua:5>
        ");
    insta::assert_snapshot!(answer("return input.missing.field"), @"
        error: tools/sample.lua:6: attempt to index a nil value (field 'missing')
        stack traceback:
        	[C]: in metamethod 'index'
        	tools/sample.lua:6: in function <tools/sample.lua:5>
        ");
    let table = "error(setmetatable({ code = 7 }, { __tostring = function(e) return \"code \" .. e.code end }))";
    assert!(answer(table).starts_with("error: code 7\nstack traceback:"));
    let nameless = answer("error({ code = 7 })");
    let expected = "error: the script raised a table, which has no text: raise a string, or give it `__tostring`\n\
                    stack traceback:";
    assert!(nameless.starts_with(expected), "{nameless}");
}
