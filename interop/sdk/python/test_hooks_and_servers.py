"""Code of the caller that runs in the middle of a run: hooks, and tools of servers in the process."""

import pytest
from claude_agent_sdk import HookMatcher, create_sdk_mcp_server, tool
from conftest import Seen, bash, says, uses


class Recorder:
    """Hooks that remember what they were told, in order."""

    def __init__(self):
        self.told = []

    def matcher(self, answer=None, matcher=None):
        async def hook(input, tool_use_id, context):
            self.told.append(input)
            return answer(input) if callable(answer) else answer or {}

        return [HookMatcher(matcher=matcher, hooks=[hook])]

    @property
    def events(self):
        return [input["hook_event_name"] for input in self.told]


async def run(bench, *, prompt="Go.", **options):
    async with bench.client(**options) as client:
        await client.query(prompt)
        return await Seen().take(client.receive_response())


def specific(event, **output):
    return {"hookSpecificOutput": {"hookEventName": event, **output}}


async def test_hooks_come_in_their_order(bench):
    recorder = Recorder()
    events = ["Stop", "PostToolUse", "PostToolUseFailure", "PreToolUse", "UserPromptSubmit"]
    bench.plays(uses(bash("one", "echo hi"), bash("two", "exit 3")), says("Done."))
    await run(bench, allowed_tools=["Bash"], hooks={event: recorder.matcher() for event in events})
    assert recorder.events[0] == "UserPromptSubmit" and recorder.events[-1] == "Stop"
    of = {
        id: [it["hook_event_name"] for it in recorder.told if it.get("tool_use_id") == id]
        for id in ["one", "two"]
    }
    assert of == {"one": ["PreToolUse", "PostToolUse"], "two": ["PreToolUse", "PostToolUseFailure"]}
    before = next(it for it in recorder.told if it["hook_event_name"] == "PreToolUse")
    assert (before["tool_name"], before["tool_input"]["command"]) == ("Bash", "echo hi")
    assert before["cwd"] == str(bench.cwd)


async def test_a_hook_denies(bench):
    recorder = Recorder()
    deny = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="too early")
    hooks = {
        "PreToolUse": recorder.matcher(deny, matcher="Bash"),
        "PostToolUse": recorder.matcher(),
    }
    bench.plays(uses(bash("one", "touch made")), says("Later."))
    seen = await run(bench, allowed_tools=["Bash"], hooks=hooks)
    assert "too early" in bench.sent(1) and seen.tool_result("one").is_error
    assert recorder.events == ["PreToolUse"]
    assert not (bench.cwd / "made").exists()


async def test_a_hook_rewrites_the_input(bench):
    def rewrite(input):
        return specific(
            "PreToolUse",
            permissionDecision="allow",
            updatedInput={**input["tool_input"], "command": "touch other"},
        )

    bench.plays(uses(bash("one", "touch made")), says("Made."))
    await run(bench, hooks={"PreToolUse": Recorder().matcher(rewrite)})
    assert bench.made == ["other"]


async def test_context_reaches_the_model(bench):
    hooks = {
        "UserPromptSubmit": Recorder().matcher(
            specific("UserPromptSubmit", additionalContext="It is raining.")
        ),
        "PostToolUse": Recorder().matcher(
            specific("PostToolUse", additionalContext="That was quick.")
        ),
    }
    bench.plays(uses(bash("one", "echo hi")), says("Done."))
    await run(bench, allowed_tools=["Bash"], hooks=hooks)
    assert "It is raining." in str(bench.requests[0]["messages"])
    assert "That was quick." in bench.sent(1)


async def test_a_stop_can_be_refused_once(bench):
    recorder = Recorder()

    def once(input):
        return {} if input["stop_hook_active"] else {"decision": "block", "reason": "And the tests?"}

    bench.plays(says("Done."), says("They pass."))
    seen = await run(bench, hooks={"Stop": recorder.matcher(once)})
    assert [it["stop_hook_active"] for it in recorder.told] == [False, True]
    assert "And the tests?" in bench.sent(1)
    assert seen.result.result == "They pass."


async def test_a_hook_that_raises_ends_nothing(bench):
    async def broken(input, tool_use_id, context):
        raise RuntimeError("broken")

    bench.plays(uses(bash("one", "touch made")), says("Made."))
    hooks = {"PreToolUse": [HookMatcher(hooks=[broken])]}
    seen = await run(bench, allowed_tools=["Bash"], hooks=hooks)
    assert seen.result.result == "Made."
    assert (bench.cwd / "made").exists()


@tool("add", "Adds two numbers.", {"a": int, "b": int})
async def add(arguments):
    return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}


@tool("fail", "Fails.", {})
async def fail(arguments):
    raise ValueError("no luck today")


@tool("print", "Prints much.", {"bytes": int})
async def print_much(arguments):
    return {"content": [{"type": "text", "text": "y" * arguments["bytes"]}]}


SERVERS = {"sums": create_sdk_mcp_server("sums", tools=[add, fail, print_much])}


async def test_a_tool_in_the_process(bench):
    bench.plays(
        uses(("one", "mcp__sums__add", {"a": 2, "b": 40}), ("two", "mcp__sums__fail", {})),
        says("Done."),
    )
    seen = await run(bench, mcp_servers=SERVERS, allowed_tools=["mcp__sums"])
    assert bench.requests[0]["tools"], "the tools of the server are offered"
    offered = {it["name"]: it for it in bench.requests[0]["tools"]}
    assert offered["mcp__sums__add"]["input_schema"]["required"] == ["a", "b"]
    assert "42" in str(seen.tool_result("one").content)
    assert seen.tool_result("two").is_error
    assert "no luck today" in str(seen.tool_result("two").content)
    assert {"name": "sums", "status": "connected"}.items() <= seen.init["mcp_servers"][0].items()


async def test_servers_are_disabled_and_reconnected(bench):
    async def state():
        # A server is pending until it has been greeted.
        status = "pending"
        while status == "pending":
            [server] = (await client.get_mcp_status())["mcpServers"]
            status = server["status"]
        return status

    bench.plays(says("One."), says("Two."), says("Three."))
    async with bench.client(mcp_servers=SERVERS) as client:
        for enabled in [True, False, True]:
            await client.toggle_mcp_server("sums", enabled)
            assert await state() == ("connected" if enabled else "disabled")
            await client.query("Go.")
            await Seen().take(client.receive_response())
        await client.reconnect_mcp_server("sums")
        assert await state() == "connected"
        with pytest.raises(Exception, match="there is no MCP server `nobody`"):
            await client.reconnect_mcp_server("nobody")
    offered = [{it["name"] for it in request["tools"]} for request in bench.requests]
    assert ["mcp__sums__add" in names for names in offered] == [True, False, True]


async def test_a_megabyte_from_a_tool_in_the_process(bench):
    bench.plays(uses(("one", "mcp__sums__print", {"bytes": 1_000_000})), says("Long."))
    seen = await run(bench, mcp_servers=SERVERS, allowed_tools=["mcp__sums"])
    assert seen.error is None and seen.result.result == "Long."
    assert "yyyy" in str(seen.tool_result("one").content)
