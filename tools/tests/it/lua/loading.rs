//! From a folder to tools and warnings.

use super::*;

#[test]
fn what_is_wrong_with_a_file_is_one_warning_with_its_line_and_the_rest_loads() {
    let folder = Folder::new();
    folder.put("tools/good.lua", source("good", "return \"fine\""));
    folder.put(
        "tools/helper.lua",
        "return { double = function(n) return 2 * n end }",
    );
    for (name, content) in [
        (
            "1_syntax",
            "return {\n  name = \"x\"\n  description = \"y\",\n}",
        ),
        ("2_runtime", "local a = nil\nreturn a.b"),
        ("3_no_table", "print(\"hi\")\n"),
        (
            "4_no_execute",
            "return {\n  name = \"x\",\n  description = \"y\",\n  input_schema = {},\n}",
        ),
        (
            "5_name",
            "return {\n  name = \"no good\", description = \"y\", input_schema = {}, execute = print }",
        ),
        (
            "6_schema",
            "return {\n  name = \"x\", description = \"y\",\n  input_schema = { type = \"object\", required = { 1 } },\n  execute = print }",
        ),
        (
            "7_schema",
            "return { name = \"x\", description = \"y\",\n\n\ninput_schema = { properties = { a = print } }, execute = print }",
        ),
        ("8_require", "local x = require(\"nowhere\")"),
        ("9_bytecode", "\u{1b}Lua"),
        ("a_loop", "while true do end"),
        (
            "b_limits",
            &source("x", "").replace("input_schema", "limits = { seconds = -1 },\ninput_schema"),
        ),
    ] {
        folder.put(&format!("tools/{name}.lua"), content);
    }
    std::os::unix::fs::symlink("/nonexistent", folder.path("tools/c_unreadable.lua")).unwrap();
    let found = tools(&folder);
    let names: Vec<_> = found
        .tools
        .iter()
        .map(|tool| tool.spec().name.as_str())
        .collect();
    assert_eq!(names, ["good"]);
    insta::assert_snapshot!(found.warnings.join("\n"), @"
        tools/1_syntax.lua:3: '}' expected (to close '{' at line 1) near 'description'
        tools/2_runtime.lua:2: attempt to index a nil value (local 'a')
        tools/3_no_table.lua:1: a tool's file returns a table, not nil
        tools/4_no_execute.lua:5: a tool needs `execute`, a function
        tools/5_name.lua:2: `no good` cannot be the name of a tool: 1 to 64 letters, digits, `_` and `-`
        tools/6_schema.lua:3: `input_schema.required` must be a list of names
        tools/7_schema.lua:4: `input_schema` is no JSON Schema: unsupported value type `function`
        tools/8_require.lua:1: module 'nowhere' not found
        tools/9_bytecode.lua: attempt to load a binary chunk (mode is 't')
        tools/a_loop.lua: stopped after 50000000 instructions while it was loaded
        tools/b_limits.lua:4: `limits.seconds` must be a whole number above 0
        tools/c_unreadable.lua: cannot be read: No such file or directory (os error 2)
        ");
}
