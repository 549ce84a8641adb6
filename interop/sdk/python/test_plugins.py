"""Plugins, and what else a host brings along: commands, skills, subagents, hooks and servers under a name of their own."""

import json
import sys

import pytest
from conftest import says, text_of, uses

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "who", "description": "Says who.", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "It is I."}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"""


@pytest.fixture
def plugin(bench):
    root = bench.folder / "a-plugin"
    files = {
        ".claude-plugin/plugin.json": json.dumps({"name": "shop", "version": "1.0.0", "commands": ["./more/late.md"]}),
        "commands/greet.md": "---\ndescription: Greets\n---\n\nGreet $ARGUMENTS warmly.",
        "more/late.md": "Say good night.",
        "skills/count/SKILL.md": "---\nname: count\ndescription: Counts the stock\n---\n\nCount twice.",
        "agents/clerk.md": "---\nname: clerk\ndescription: Serves\n---\n\nYou are the clerk.",
        "hooks/hooks.json": json.dumps({
            "description": "Notes each prompt.",
            "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}/scripts/note"'}]}]},
        }),
        "scripts/note": "#!/bin/sh\ncat > /dev/null; echo The shop is open.",
        "scripts/server.py": SERVER,
        ".mcp.json": json.dumps({"mcpServers": {"till": {"command": sys.executable, "args": ["${CLAUDE_PLUGIN_ROOT}/scripts/server.py"]}}}),
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "scripts/note").chmod(0o755)
    return {"type": "local", "path": str(root)}


async def test_a_plugin_brings_all_under_its_name(bench, plugin):
    bench.plays(
        uses(("ask", "mcp__plugin_shop_till__who", {})),
        says("Hello, Ada."),
        says("Night."),
    )
    options = {"plugins": [plugin], "allowed_tools": ["mcp__plugin_shop_till"]}
    seen = await bench.asks("/shop:greet Ada", **options)
    assert seen.result.result == "Hello, Ada."
    assert {"shop:greet", "shop:late", "shop:count"} <= set(seen.init["slash_commands"])
    assert "shop:clerk" in seen.init["agents"] and "shop:count" in seen.init["skills"]
    assert seen.init["plugins"] == [{"name": "shop", "path": plugin["path"]}]
    first = text_of(bench.requests[0]["messages"][0]["content"])
    assert "Greet Ada warmly." in first and "The shop is open." in first
    assert text_of(seen.tool_result("ask").content) == "It is I."
    await bench.asks("/shop:late", **options)
    assert "Say good night." in bench.sent(2)


async def test_its_servers_can_be_left_out(bench, plugin):
    bench.plays(says("Hello."))
    seen = await bench.asks("Hello.", extra_args={"plugin-dir-no-mcp": plugin["path"]})
    assert seen.init["mcp_servers"] == []
    assert "shop:greet" in seen.init["slash_commands"]


async def test_only_the_skills_that_are_named_are_shown(bench, plugin):
    skills = {"plugins": [plugin], "system_prompt": {"type": "preset", "preset": "claude_code"}}
    bench.plays(says("One."), says("Two."))
    seen = await bench.asks("Hello.", skills=["shop:count"], **skills)
    assert seen.init["skills"] == ["shop:count"]
    seen = await bench.asks("Hello.", skills=["other"], **skills)
    assert seen.init["skills"] == []
    shown, hidden = (text_of(request["messages"][0]) for request in bench.requests)
    assert "Counts the stock" in shown and "Counts the stock" not in hidden


async def test_a_prompt_can_be_taken_as_it_is(bench, plugin):
    bench.plays(says("One."), says("Two."))
    options = {"plugins": [plugin], "verbatim_prompts": True}
    await bench.asks("/shop:late", **options)
    await bench.asks("/compact", **options)
    assert [bench.sent(number).splitlines()[0] for number in (0, 1)] == ["/shop:late", "/compact"]
