//! Scripts that do not end, use too many resources, or access forbidden ones.

use ah_testkit::wait;

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
        assert_eq!(answer.matches("1000000").count(), 1, "{answer}");
    }
}

#[test]
fn a_script_that_takes_too_much_memory_is_ended_and_the_tool_still_works() {
    let folder = Folder::new();
    let body = "if input.hog then local t = {} while true do t[#t + 1] = (\"x\"):rep(100000) end end return \"light\"";
    let source =
        source("sample", body).replace("input_schema", "limits = { megabytes = 8 }, input_schema");
    folder.put("tools/sample.lua", source);
    let tool = &tools(&folder).tools[0];
    let answer = text(&run(tool, json!({ "hog": true })));
    assert!(answer.starts_with("error: not enough memory"), "{answer}");
    assert_eq!(text(&run(tool, json!({}))), "light");
}

#[test]
fn what_a_module_gives_is_as_limited() {
    for body in [
        "return assert(require(\"fs\").read(\"/dev/zero\"))",
        "return require(\"spawn\").run(\"cat /dev/zero\").stdout",
    ] {
        let answer = limited("{ megabytes = 4 }", body);
        assert!(answer.contains("more than 4194304 bytes"), "{answer}");
    }
}

#[test]
fn a_script_that_asks_nobody_is_answered_for_in_time_and_gets_a_new_state() {
    let folder = Folder::new();
    let body = "if not input.slow then return \"new\" end
        return string.find((\"a\"):rep(100000), (\".-\"):rep(20) .. \"b\")";
    let source =
        source("sample", body).replace("input_schema", "limits = { seconds = 1 }, input_schema");
    folder.put("tools/sample.lua", source);
    let tool = &tools(&folder).tools[0];
    assert_eq!(
        text(&run(tool, json!({ "slow": true }))),
        "error: sample: timed out after 1 s"
    );
    assert_eq!(text(&run(tool, json!({}))), "new");
}

#[test]
fn waiting_ends_with_the_time() {
    let answer = limited(
        "{ seconds = 1 }",
        "return require(\"spawn\").run(\"sleep 1000\").stdout",
    );
    assert_eq!(answer.lines().next().unwrap(), "error: timed out after 1 s");
}

#[test]
fn a_dropped_call_ends_its_programs_and_the_next_one_works() {
    let folder = Folder::new();
    let tool = tool(
        &folder,
        "if not input.slow then return \"again\" end
        return require(\"spawn\").run({ \"sh\", \"-c\", \"echo $$ > pid; exec sleep 1000\" }).stdout",
    );
    folder::run_until(&tool, json!({ "slow": true }), || {
        std::fs::read_to_string(folder.path("pid")).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let proc = format!("/proc/{}/stat", folder.get("pid").trim());
    wait::until("its end", || !Path::new(&proc).exists());
    assert_eq!(text(&run(&tool, json!({}))), "again");
}

#[test]
fn a_program_lives_as_long_as_its_handle() {
    let folder = Folder::new();
    let tool = tool(
        &folder,
        "local spawn = require(\"spawn\")
        if input.step == 1 then
          server = spawn.spawn({ \"cat\" })
          local program = spawn.spawn(\"echo $$; exec sleep 1000\")
          local pid = program.stdout:read(100)
          return program:running() and pid
        end
        server.stdin:write(\"still there\")
        server.stdin:close()
        return server.stdout:read(100)",
    );
    let pid = text(&run(&tool, json!({ "step": 1 })));
    let proc = Path::new("/proc").join(pid.trim_end()).join("stat");
    // No handle refers to this program, so it is ended.
    wait::until("its end", || !proc.exists());
    assert_eq!(text(&run(&tool, json!({ "step": 2 }))), "still there");
}

#[test]
fn the_process_its_output_and_its_secrets_are_out_of_reach() {
    for (body, expected) in [
        (
            "os.exit(7)",
            "error: tools/sample.lua:6: `os.exit` would end the whole program: return from `execute` instead",
        ),
        ("return tostring(debug)", "nil"),
        ("return tostring(os.getenv(\"SOME_TOKEN\"))", "nil"),
        (
            "return tostring(require(\"env\").get(\"SOME_TOKEN\"))",
            "nil",
        ),
        (
            "return io.popen(\"echo [$SOME_TOKEN]\"):read(\"a\")",
            "[]\n",
        ),
        (
            "print(\"lost\") io.write(\"lost\") io.stderr:write(\"lost\") return \"quiet\"",
            "quiet",
        ),
        ("return tostring(io.read(\"a\"))", ""),
        ("return tostring(load(string.dump(function() end)))", "nil"),
        ("return tostring(package.loadlib)", "function"),
        (
            "setmetatable({}, { __gc = print })",
            "error: tools/sample.lua:6: a tool cannot have finalizers (`__gc`)",
        ),
        ("return tostring(getmetatable(io.stdout))", "false"),
    ] {
        let answer = answer(body);
        assert!(answer.starts_with(expected), "{body}: {answer}");
    }
}
