//! Tools written for the first `ah` work unchanged: its modules and functions exist under their old names.

use super::*;

/// Runs a command as the first `ah`'s `bash` tool did: under `timeout`, with its handle recorded for an interrupt.
const COMMAND: &str = r#"
local child = require("cosmic.child")
local running = {}

return {
  name = "command",
  description = "Run a command",
  system_prompt = "Prefer the other tools.",
  running_processes = running,
  input_schema = {
    type = "object",
    properties = { command = { type = "string", description = "What to run" } },
    required = { "command" },
  },
  execute = function(input)
    local shell = os.getenv("AH_SHELL") or "bash"
    local handle, fault = child.spawn({ "timeout", tostring(math.ceil(1.5)), shell, "-c", input.command })
    if not handle then
      return "error: " .. tostring(fault), true
    end
    local pid = handle.pid
    if pid then
      running[pid] = handle
    end
    local _, stdout, code = handle:read()
    if pid then
      running[pid] = nil
    end
    local number = tonumber(code) or 0
    return (stdout or "") .. "code " .. tostring(code), number ~= 0, { command = input.command, exit_code = number }
  end,
}
"#;

/// Returns an image as its `read` tool did, and writes as its `write` tool did.
const FILE: &str = r#"
local fs = require("cosmic.fs")
local cio = require("cosmic.io")
local codec = require("cosmic.codec")
local json = require("cosmic.json")

return {
  name = "file",
  description = "Copy a picture and show it",
  input_schema = { type = "object", properties = { from = { type = "string" }, to = { type = "string" } }, required = { "from", "to" } },
  execute = function(input)
    local content = cio.slurp(input.from)
    if not content then
      return "error: cannot read " .. input.from, true
    end
    local folder = fs.dirname(input.to)
    if folder and folder ~= "" then
      assert(fs.makedirs(folder))
    end
    assert(cio.barf(input.to, content, tonumber("644", 8)))
    local source = { type = "base64", media_type = "image/png", data = codec.encode_base64(cio.slurp(fs.join(fs.getcwd(), input.to))) }
    return json.encode({ __image__ = true, content = { { type = "image", source = source } } }), false, { bytes = #content }
  end,
}
"#;

/// Searches as its `grep` tool did: not loaded by default, and with errors read first.
const SEARCH: &str = r#"
local child = require("cosmic.child")
return {
  name = "search",
  description = "Search",
  autoload = false,
  input_schema = { type = "object", properties = { pattern = { type = "string" } }, required = { "pattern" } },
  execute = function(input, context)
    local handle = assert(child.spawn({ "grep", "-rn", "--", input.pattern, "tools" }))
    handle.stderr:read()
    local _, found, code = handle:read()
    if (tonumber(code) or 0) >= 2 then
      return "error", true
    end
    return found == "" and "nothing" or found, false
  end,
}
"#;

fn one(folder: &Folder, source: &str) -> LuaTool {
    folder.put("tools/it.lua", source);
    let mut found = tools(folder);
    assert_eq!(found.warnings, Vec::<String>::new());
    found.tools.pop().unwrap()
}

#[test]
fn t11_a_tool_of_the_original_runs_unchanged() {
    let folder = Folder::new();
    let command = one(&folder, COMMAND);
    let output = run(
        &command,
        json!({ "command": "echo hi; echo no >&2; exit 3" }),
    );
    assert_eq!(text(&output), "error: hi\ncode 3");
    let details = json!({ "command": "echo hi; echo no >&2; exit 3", "exit_code": 3 });
    assert_eq!(output.details, Some(details));
    let late = run(&command, json!({ "command": "sleep 1000" }));
    assert_eq!(text(&late), "error: code 124");

    let file = one(&folder, FILE);
    let mut png = Vec::new();
    let picture = image::DynamicImage::new_rgb8(2, 2);
    picture
        .write_to(&mut std::io::Cursor::new(&mut png), image::ImageFormat::Png)
        .unwrap();
    folder.put("a.png", png);
    let shown = run(&file, json!({ "from": "a.png", "to": "new/b.png" }));
    assert_eq!(text(&shown), "[image/png]");
    assert!(folder.path("new/b.png").is_file());
    assert_eq!(
        text(&run(&file, json!({ "from": "none", "to": "x" }))),
        "error: error: cannot read none"
    );

    let search = one(&folder, SEARCH);
    assert!(!search.is_autoloaded());
    assert_eq!(
        text(&run(&search, json!({ "pattern": "autolo[a]d" }))),
        "tools/it.lua:6:  autoload = false,\n"
    );
    assert_eq!(
        text(&run(&search, json!({ "pattern": "no[x]where" }))),
        "nothing"
    );
}
