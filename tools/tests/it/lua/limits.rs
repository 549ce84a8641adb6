//! Scripts that do not end, take too much, or reach too far.

use super::*;

fn limited(limits: &str, body: &str) -> String {
    let folder = Folder::new();
    let source = source("sample", body)
        .replace("input_schema", &format!("limits = {limits},\ninput_schema"));
    folder.put("tools/sample.lua", source);
    text(&run(&tools(&folder).tools[0], json!({})))
}

#[test]
fn an_endless_loop_is_ended() {
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "local x <close> = setmetatable({}, { __close = function() while true do end end })",
    ] {
        let answer = limited("{ instructions = 1000000 }", body);
        let first = answer.lines().next().unwrap();
        assert_eq!(first, "error: stopped after 1000000 instructions", "{body}");
    }
}
