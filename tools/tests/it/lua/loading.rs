//! Loading a folder: tools and warnings.

use ah_conversation::{Access, EmbeddedFile};

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
        (
            "7_type",
            "return { name = \"x\", description = \"y\", execute = print,\n  input_schema = { properties = { a = { type = \"strin\" } } } }",
        ),
        ("8_require", "return require(\"nowhere\")"),
        ("9_bytecode", "\u{1b}Lua return"),
        ("a_loop", "while true do end return {}"),
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
    insta::assert_snapshot!(found.warnings.join("\n"), @r#"
        tools/1_syntax.lua:3: '}' expected (to close '{' at line 1) near 'description'
        tools/2_runtime.lua:2: attempt to index a nil value (local 'a')
        tools/3_no_table.lua:1: a tool's file returns a table, this one returns nothing
        tools/4_no_execute.lua:5: a tool needs `execute`, a function
        tools/5_name.lua:2: `no good` cannot be the name of a tool: 1 to 64 letters, digits, `_` and `-`
        tools/6_schema.lua:3: `input_schema.required.0` is not a JSON Schema: 1 is not of type "string"
        tools/7_schema.lua:4: `input_schema` is not a JSON Schema: unsupported value type `function`
        tools/7_type.lua:2: `input_schema.properties.a.type` is not a JSON Schema: "strin" is not valid under any of the schemas listed in the 'anyOf' keyword
        tools/8_require.lua:1: module 'nowhere' not found
        tools/9_bytecode.lua: attempt to load a binary chunk (mode is 't')
        tools/a_loop.lua: stopped after 50000000 instructions while it was loaded
        tools/b_limits.lua:4: `limits.seconds` must be a whole number above 0
        tools/c_unreadable.lua: cannot be read: No such file or directory (os error 2)
        "#);
}

/// Texts that are part of every request have a length limit.
#[test]
fn texts_that_are_too_long_for_every_request_are_refused() {
    let folder = Folder::new();
    for (name, field, bytes) in [
        ("a", "description", 10_000),
        ("b", "description", 10_001),
        ("c", "system_prompt", 20_000),
        ("d", "system_prompt", 20_001),
    ] {
        let text = format!(
            "return {{\n  name = '{name}',\n  description = 'd',\n  {field} = ('x'):rep({bytes}),\n  input_schema = {{}},\n  execute = function() end,\n}}"
        );
        folder.put(&format!("tools/{name}.lua"), text);
    }
    let found = tools(&folder);
    let names: Vec<_> = found
        .tools
        .iter()
        .map(|tool| tool.spec().name.as_str())
        .collect();
    assert_eq!(names, ["a", "c"]);
    insta::assert_snapshot!(found.warnings.join("\n"), @"
        tools/b.lua:3: `description` has 10001 bytes, more than 10000
        tools/d.lua:4: `system_prompt` has 20001 bytes, more than 20000
        ");
}

#[test]
fn a_file_says_all_there_is_to_know() {
    let folder = Folder::new();
    folder.put(
        "tools/weather.lua",
        "#!/usr/bin/env lua
return {
  name = \"weather\", description = \"Tells the weather\",
  system_prompt = \"Ask for one city at a time.\",
  read_only = true, autoload = false,
  input_schema = {
    properties = { city = { type = \"string\", enum = {} }, days = { type = \"integer\" } },
    required = { \"city\" },
  },
  execute = function() return \"sun\" end,
}",
    );
    folder.put("tools/bare.lua", source("bare", ""));
    let found = tools(&folder);
    let [bare, weather] = &found.tools[..] else {
        panic!("{:?}", found.warnings);
    };
    insta::assert_snapshot!(format!("{:#?}", weather.spec()), @r#"
        ToolSpec {
            name: "weather",
            description: "Tells the weather",
            input_schema: Object {
                "properties": Object {
                    "city": Object {
                        "enum": Array [],
                        "type": String("string"),
                    },
                    "days": Object {
                        "type": String("integer"),
                    },
                },
                "required": Array [
                    String("city"),
                ],
                "type": String("object"),
            },
            guidance: Some(
                "Ask for one city at a time.",
            ),
            truncation: Truncation {
                bytes: 30000,
                lines: None,
            },
            key: Some(
                Text(
                    "city",
                ),
            ),
        }
        "#);
    let input = json!({}).into();
    assert!(!weather.is_autoloaded() && bare.is_autoloaded());
    assert_eq!(weather.access(&input), [Access::Read(folder.path(""))]);
    assert_eq!(bare.access(&input), [Access::Unknown]);
    assert_eq!(
        *bare.spec().input_schema,
        json!({ "type": "object", "properties": {} })
    );
    assert_eq!(bare.spec().guidance, None);
}

#[test]
fn files_use_each_other_and_only_the_named_folders() {
    let folder = Folder::new();
    folder.put(
        "tools/words.lua",
        "return { hello = function(name) return \"hello \" .. name end }",
    );
    folder.put("tools/deep/init.lua", "return { name = \"deep\" }");
    folder.put("tools/json.lua", "return { own = true }");
    folder.put("shared/more.lua", "return \"more\"");
    folder.put("hidden.lua", "return \"hidden\"");
    let body = "local json = require(\"json\")
        return require(\"words\").hello(require(\"deep\").name) .. \" \" .. require(\"more\")
          .. \" \" .. tostring(json.own) .. require(\"cosmic.json\").encode({ 1 })
          .. \" \" .. tostring(pcall(require, \"hidden\"))";
    folder.put("tools/sample.lua", source("sample", body));
    let found = files(&folder).folder(Path::new("tools"), &[folder.path("shared")]);
    assert_eq!(found.warnings, Vec::<String>::new());
    assert_eq!(
        text(&run(&found.tools[0], json!({}))),
        "hello deep more true[1] false"
    );
}

#[test]
fn a_tool_keeps_its_state_and_shares_it_with_none() {
    let folder = Folder::new();
    let body = "count = (count or 0) + 1 return tostring(count)";
    folder.put("tools/a.lua", source("a", body));
    folder.put("tools/b.lua", source("b", body));
    let found = tools(&folder).tools;
    let counts: Vec<_> = [0, 0, 1, 0]
        .map(|at: usize| text(&run(&found[at], json!({}))))
        .into();
    assert_eq!(counts, ["1", "2", "1", "3"]);
}

#[test]
fn one_file_can_have_another_name() {
    let folder = Folder::new();
    folder.put(
        "some/where.lua",
        source("inner", "return context.tool_name"),
    );
    folder.put("some/helper.lua", "return {}");
    let files = files(&folder);
    let tool = files
        .file(Path::new("some/where.lua"), &[])
        .unwrap()
        .named("outer");
    assert_eq!(text(&run(&tool, json!({}))), "outer");
    for (path, expected) in [
        (
            "some/helper.lua",
            "some/helper.lua: it returns no tool: a table with `name`, `description`, `input_schema` and `execute`",
        ),
        (
            "none.lua",
            "none.lua: cannot be read: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(files.file(Path::new(path), &[]).err().unwrap(), expected);
    }
}

#[test]
fn embedded_files_are_tools_too() {
    let mut embedded = Embedded::default();
    for (path, content) in [
        (
            "tools/inside.lua",
            source(
                "inside",
                "return require(\"part\")[1] .. require(\"fs\").read(\"/zip/embed/note.md\")",
            ),
        ),
        ("tools/part.lua", "return { \"a part and \" }".to_owned()),
        ("note.md", "a note".to_owned()),
    ] {
        let content = content.into_bytes().into();
        embedded
            .insert(
                path,
                EmbeddedFile {
                    content,
                    is_executable: false,
                },
            )
            .unwrap();
    }
    let folder = Folder::new();
    let found = files_with(&folder, embedded).folder(Path::new("/zip/embed/tools"), &[]);
    assert_eq!(found.warnings, Vec::<String>::new());
    assert_eq!(text(&run(&found.tools[0], json!({}))), "a part and a note");
}

#[test]
fn a_folder_that_is_not_there_has_no_tools() {
    let found = tools(&Folder::new());
    assert!(found.tools.is_empty() && found.warnings.is_empty());
}
