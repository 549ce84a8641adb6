"""Subagents as programs on the SDK see them: issue 9, rows A1 and A2, port 08."""

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    HookMatcher,
    PermissionResultAllow,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TextBlock,
    UserMessage,
)
from conftest import Seen, bash, says, text_of, uses

DIGGER = AgentDefinition(description="Digs.", prompt="You dig.", tools=["Bash"], model="haiku")


def delegate(id, kind="digger", **more):
    input = {"description": "dig it", "prompt": "Find gold.", "subagent_type": kind,
             "run_in_background": False, **more}
    return (id, "Agent", input)


async def run(bench, **options):
    async with bench.client(agents={"digger": DIGGER}, **options) as client:
        await client.query("Go.")
        return await Seen().take(client.receive_response())


async def test_a_subagent_has_its_own_prompt_tools_and_model_and_its_cost_counts(bench):
    paid = {"usage": {"input_tokens": 1000, "output_tokens": 100}}
    bench.plays(uses(delegate("a"), **paid), uses(bash("b", "echo gold"), **paid), says("Gold.", **paid),
                says("It found gold.", **paid))
    seen = await run(bench, allowed_tools=["Bash"])
    first, below = bench.requests[0], bench.requests[1]
    assert "You dig." in text_of(below["system"]) and "You dig." not in text_of(first["system"])
    assert "haiku" in below["model"] and "sonnet" in first["model"]
    assert [tool["name"] for tool in below["tools"]] == ["Bash"]
    assert bench.sent(1) == "Find gold." and "Gold." in bench.sent(3)
    # What is said of it names the call that started it.
    of_it = [it for it in seen.of(AssistantMessage) + seen.of(UserMessage) if it.parent_tool_use_id]
    assert {it.parent_tool_use_id for it in of_it} == {"a"}
    assert seen.text == "It found gold."
    # The run's own usage is that of the main conversation; models and money are all of it.
    result = seen.result
    assert result.usage["output_tokens"] == 200
    assert sum(model["outputTokens"] for model in result.model_usage.values()) == 400
    assert abs(sum(model["costUSD"] for model in result.model_usage.values()) - result.total_cost_usd) < 1e-9
    assert {"sonnet", "haiku"} == {"haiku" if "haiku" in name else "sonnet" for name in result.model_usage}


async def test_its_words_come_where_the_host_wants_them(bench):
    for wants in (False, True):
        bench.plays(uses(delegate("a")), says("Gold."), says("Done."))
        seen = await run(bench, forward_subagent_text=wants)
        blocks = [block for it in seen.of(AssistantMessage) if it.parent_tool_use_id for block in it.content]
        words = [block.text for block in blocks if isinstance(block, TextBlock)]
        assert words == (["Gold."] if wants else [])
        bench.server.kill()
        bench.server.wait()


async def test_it_asks_the_host_and_hooks_know_whose_call_it_is(bench):
    asked, told = [], []

    async def can_use_tool(name, input, context):
        asked.append((name, bool(context.agent_id)))
        return PermissionResultAllow()

    async def hook(input, tool_use_id, context):
        told.append((input["hook_event_name"], input.get("agent_type")))
        return {}

    events = ["SubagentStart", "PreToolUse", "SubagentStop", "Stop"]
    hooks = {event: [HookMatcher(hooks=[hook])] for event in events}
    bench.plays(uses(delegate("a")), uses(bash("b", "touch made")), says("Made."), says("Done."))
    await run(bench, can_use_tool=can_use_tool, hooks=hooks)
    assert asked == [("Bash", True)]
    assert bench.made == ["made"]
    assert told == [("PreToolUse", None), ("SubagentStart", "digger"), ("PreToolUse", "digger"),
                    ("SubagentStop", "digger"), ("Stop", None)]


async def test_two_work_at_the_same_time(bench):
    # Each waits for the other: one after the other they would wait for ever.
    meet = 'for n in 1 2; do mkdir $n 2>/dev/null && break; done; until [ -d 2 ]; do sleep 0.01; done'
    bench.plays(uses(delegate("a"), delegate("b")), uses(bash("one", meet)), uses(bash("two", meet)),
                says("Gold."), says("Gold."), says("Both found gold."))
    seen = await run(bench, allowed_tools=["Bash"])
    assert seen.text == "Both found gold."
    assert {it.tool_use_id for it in seen.of(TaskStartedMessage)} == {"a", "b"}
    assert [it.status for it in seen.of(TaskNotificationMessage)] == ["completed", "completed"]
    results = [seen.tool_result(id) for id in "ab"]
    assert all("Gold." in text_of(result.content) for result in results)


async def test_one_in_the_background_is_told_of_and_awaited(bench):
    bench.plays(uses(delegate("a", run_in_background=True)), says("Gold."), says("Gold."), says("It found gold."))
    seen = await run(bench)
    started, ended = seen.of(TaskStartedMessage)[0], seen.of(TaskNotificationMessage)[0]
    assert (started.task_type, started.data["is_backgrounded"]) == ("local_agent", True)
    assert (ended.status, ended.summary, ended.task_id) == ("completed", "Gold.", started.task_id)
    assert seen.result.result == "It found gold."
    assert ended.task_id in text_of(seen.tool_result("a").content)


async def test_the_host_stops_one(bench):
    bench.plays(uses(delegate("a")), uses(bash("b", "touch started; sleep 300")), says("It was stopped."))
    async with bench.client(agents={"digger": DIGGER}, allowed_tools=["Bash"]) as client:
        await client.query("Go.")
        seen = Seen()
        async for message in client.receive_response():
            seen.messages.append(message)
            if isinstance(message, TaskProgressMessage) and message.last_tool_name == "Bash":
                await client.stop_task(message.task_id)
    assert [it.status for it in seen.of(TaskNotificationMessage)] == ["stopped"]
    assert seen.tool_result("a").is_error
    assert seen.result.result == "It was stopped."


async def test_the_host_stops_a_command_in_the_background(bench):
    beside = ("b", "Bash", {"command": "sleep 300", "description": "Sleeps", "run_in_background": True})
    bench.plays(uses(beside), says("It sleeps."))
    async with bench.client(allowed_tools=["Bash"]) as client:
        await client.query("Go.")
        seen = await Seen().take(client.receive_response())
        started = seen.of(TaskStartedMessage)[0]
        assert (started.task_type, started.description, started.tool_use_id) == ("local_bash", "Sleeps", "b")
        await client.stop_task(started.task_id)
        async for message in client.receive_messages():
            if isinstance(message, TaskNotificationMessage):
                break
        assert (message.status, message.task_id) == ("stopped", started.task_id)


async def test_a_mode_that_the_host_sets_reaches_one_at_work(bench):
    write = ("w", "Write", {"file_path": str(bench.cwd / "made"), "content": "gold"})
    digger = AgentDefinition(description="Digs.", prompt="You dig.")
    wait = "touch started; until [ -e go ]; do sleep 0.01; done"
    bench.plays(uses(delegate("a")), uses(bash("b", wait)), uses(write), says("Written."), says("Done."))
    async with bench.client(agents={"digger": digger}, allowed_tools=["Bash"]) as client:
        await client.query("Go.")
        async for message in client.receive_response():
            if isinstance(message, TaskProgressMessage) and message.last_tool_name == "Bash":
                await client.set_permission_mode("acceptEdits")
                (bench.cwd / "go").touch()
    assert (bench.cwd / "made").read_text() == "gold"


async def test_going_back_takes_back_what_a_subagent_did(bench):
    write = lambda id, name: (id, "Write", {"file_path": str(bench.cwd / name), "content": "gold"})
    digger = AgentDefinition(description="Digs.", prompt="You dig.")
    bench.plays(uses(delegate("a")), uses(write("w", "below")), says("Written."), uses(write("m", "above")),
                says("Done."))
    options = {"enable_file_checkpointing": True, "extra_args": {"replay-user-messages": None},
               "permission_mode": "acceptEdits"}
    async with bench.client(agents={"digger": digger}, **options) as client:
        await client.query("Go.")
        seen = await Seen().take(client.receive_response())
        assert sorted(bench.made) == ["above", "below"]
        prompt = next(it for it in seen.of(UserMessage) if not it.parent_tool_use_id)
        await client.rewind_files(prompt.uuid)
    assert bench.made == []


async def test_definitions_come_from_options_files_and_built_in(bench):
    folder = bench.cwd / ".claude/agents"
    folder.mkdir(parents=True)
    for name in ("painter", "digger"):
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: d\n---\n\nYou are the {name} of a file.\n")
    bench.plays(uses(delegate("a", "painter")), says("Painted."), uses(delegate("b")), says("Dug."), says("Done."))
    seen = await run(bench, setting_sources=["project"])
    assert {"general-purpose", "Explore", "Plan", "painter", "digger"} <= set(seen.init["agents"])
    assert "You are the painter of a file." in text_of(bench.requests[1]["system"])
    # What the options define counts more than a file.
    assert "You dig." in text_of(bench.requests[3]["system"])


async def test_the_conversation_itself_runs_as_one(bench):
    bench.plays(says("Hm."))
    seen = await run(bench, extra_args={"agent": "digger"})
    assert "You dig." in text_of(bench.requests[0]["system"])
    assert [tool["name"] for tool in bench.requests[0]["tools"]] == ["Bash"]
    assert seen.result.result == "Hm."


async def test_a_stop_hook_knows_what_was_said_and_what_is_still_at_work(bench):
    told = []

    async def hook(input, tool_use_id, context):
        told.append((input["last_assistant_message"], input["background_tasks"]))
        return {}

    beside = ("b", "Bash", {"command": "sleep 300", "description": "Sleeps", "run_in_background": True})
    bench.plays(uses(beside), says("It sleeps."))
    await run(bench, allowed_tools=["Bash"], hooks={"Stop": [HookMatcher(hooks=[hook])]})
    task = {"id": "b", "type": "shell", "status": "running", "description": "Sleeps"}
    assert told == [("It sleeps.", [task])]
