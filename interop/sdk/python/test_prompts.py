"""Prompts and answers: one, several, cut short, very long, failed."""

import json

from claude_agent_sdk import StreamEvent
from conftest import Seen, bash, says, uses


async def test_hello(bench):
    """Port 12 a and h, row R2: the SDK starts the program, talks to it, and reads it to its end."""
    bench.plays(says("Hello.", usage={"input_tokens": 12, "output_tokens": 3}))
    seen = await bench.asks("Say hello.")
    assert seen.text == "Hello."
    assert bench.sent(0) == "Say hello."

    init, result = seen.init, seen.result
    assert {"Bash", "Read", "Write", "Edit", "Glob", "Grep"} <= set(init["tools"])
    assert init["cwd"] == str(bench.cwd)
    assert (result.subtype, result.is_error, result.result) == ("success", False, "Hello.")
    assert (result.num_turns, result.usage["output_tokens"]) == (1, 3)
    assert result.session_id == init["session_id"]
    assert result.total_cost_usd > 0


async def test_a_tool_runs_between_two_requests(bench):
    bench.plays(uses(bash("one", "echo $((6 * 7))")), says("It is 42."))
    seen = await bench.asks("How much is it?", allowed_tools=["Bash"])
    assert seen.tool_result("one").content.strip() == "42"
    assert not seen.tool_result("one").is_error
    assert bench.sent(1).strip() == "42"
    assert (seen.text, seen.result.num_turns) == ("It is 42.", 2)


async def test_several_prompts_over_one_client(bench):
    bench.plays(says("Noted."), says("Seven."), says("Bye."))
    async with bench.client() as client:
        for prompt, answer in [("Think of 7.", "Noted."), ("Which?", "Seven."), ("Bye.", "Bye.")]:
            await client.query(prompt)
            seen = await Seen().take(client.receive_response())
            assert (seen.text, seen.result.result) == (answer, answer)
    said = [message["role"] for message in bench.requests[2]["messages"]]
    assert said == ["user", "assistant", "user", "assistant", "user"]


async def test_prompts_of_a_stream(bench):
    bench.plays(says("One."), says("Two."))

    async def prompts():
        for text in ["First.", "Second."]:
            yield {"type": "user", "message": {"role": "user", "content": text}}

    seen = await bench.asks(prompts())
    # Two prompts at once may be answered together.
    assert seen.text in ("One.", "One.Two.")
    assert "Second." in bench.sent(-1)


async def test_the_system_prompt_is_the_callers(bench):
    bench.plays(says("Aye."))
    await bench.asks("Speak.", system_prompt="You are a pirate.")
    assert "You are a pirate." in json.dumps(bench.requests[0]["system"])


async def test_partial_messages_add_up(bench):
    words = "one two three four five six seven eight"
    bench.plays(says(words, pieces=8))
    seen = await bench.asks("Count.", include_partial_messages=True)
    events = [message.event for message in seen.of(StreamEvent)]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert len(deltas) > 1
    assert "".join(delta["text"] for delta in deltas) == words == seen.text
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")


async def test_an_interrupt_ends_the_answer_and_not_the_session(bench):
    bench.plays(says("Once upon a time", hang=True), says("As you wish."))
    async with bench.client(include_partial_messages=True) as client:
        await client.query("Tell me a long story.")
        seen = Seen()
        async for message in client.receive_response():
            seen.messages.append(message)
            is_delta = isinstance(message, StreamEvent) and "delta" in message.event
            if is_delta and message.event["delta"].get("text"):
                await client.interrupt()
        assert seen.result.subtype == "error_during_execution"
        await client.query("A short one, then.")
        seen = await Seen().take(client.receive_response())
        assert seen.result.result == "As you wish."
    assert "A short one, then." in bench.sent(1)


async def test_an_interrupt_ends_a_command(bench):
    bench.plays(uses(bash("long", "touch started; sleep 300; touch ended")), says("Stopped."))
    async with bench.client(allowed_tools=["Bash"]) as client:
        await client.query("Wait.")
        async for message in client.receive_messages():
            if type(message).__name__ == "AssistantMessage":
                break
        await client.interrupt()
        seen = await Seen().take(client.receive_response())
        assert seen.result.is_error
    assert not (bench.cwd / "ended").exists()


async def test_the_model_and_the_mode_change_between_prompts(bench):
    write = ("w", "Write", {"file_path": str(bench.cwd / "a.txt"), "content": "a"})
    bench.plays(says("One."), uses(write), says("Written."))
    async with bench.client() as client:
        await client.query("Hello.")
        await Seen().take(client.receive_response())
        await client.set_model("claude-haiku-4-5")
        await client.set_permission_mode("acceptEdits")
        await client.query("Write it.")
        seen = await Seen().take(client.receive_response())
    assert (bench.cwd / "a.txt").read_text() == "a"
    assert seen.init["permissionMode"] == "acceptEdits"
    models = [request["model"] for request in bench.requests]
    assert "haiku" in models[1] and "haiku" not in models[0]


async def test_a_megabyte_from_a_command(bench):
    bench.plays(uses(bash("big", "head -c 1048576 /dev/zero | tr '\\0' x")), says("Long."))
    seen = await bench.asks("Print much.", allowed_tools=["Bash"])
    assert seen.error is None and seen.result.result == "Long."
    # The SDK takes lines below a megabyte, and the model is shown what it can read.
    assert 1000 < len(bench.sent(1)) < 200_000


async def test_a_megabyte_in_the_prompt(bench):
    prompt = "ü" * 600_000
    bench.plays(says("Read."))
    seen = await bench.asks(prompt)
    assert seen.result.result == "Read."
    assert bench.sent(0) == prompt


async def test_a_refused_request_is_an_error_result(bench):
    bench.plays({"error": {"status": 400, "type": "invalid_request_error", "message": "no such thing"}})
    seen = await bench.asks("Fail.", env={"CLAUDE_CODE_MAX_RETRIES": "0"})
    assert seen.result.is_error
    assert "no such thing" in seen.result.result
    assert seen.error is not None


async def test_a_limit_of_turns_is_an_error_result(bench):
    bench.plays(uses(bash("one", "echo 1")), uses(bash("two", "echo 2")), says("never"))
    seen = await bench.asks("Go on.", allowed_tools=["Bash"], max_turns=2)
    assert (seen.result.subtype, seen.result.is_error) == ("error_max_turns", True)
    assert len(bench.requests) == 2
