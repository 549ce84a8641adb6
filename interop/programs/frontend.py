"""A front end over the program, by the AG-UI protocol: its tools and approvals are calls that a hook defers.

Each step is a new adapter, as after a restart of everything: only the bindings, the transcript and the messages of the front end
are kept. Prints what came of each, as JSON.
"""

import asyncio
import json
import os

from ag_ui.core import AssistantMessage, FunctionCall, RunAgentInput, Tool, ToolCall, ToolMessage, UserMessage
from ag_ui_claude_sdk import ClaudeAgentAdapter

PAINT = Tool(
    name="paint",
    description="Paints the page.",
    parameters={"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
)


class Bindings:
    """Which session belongs to which thread, as an application would keep it in its database."""

    def __init__(self):
        self.kept = {}

    async def load(self, thread_id):
        return self.kept.get(thread_id)

    async def save(self, thread_id, binding):
        self.kept[thread_id] = binding


async def profile(_name):
    return {}


async def step(bindings, thread, run, messages, *, defer=(), **more):
    adapter = ClaudeAgentAdapter(
        name="ah",
        options={"cli_path": os.environ["AGENT_CLI"], "cwd": os.getcwd(), "model": "claude-sonnet-4-5"},
        session_binding_store=bindings,
        resolve_profile=profile,
        query_timeout_seconds=60,
        defer_tools=defer,
    )
    given = {"state": None, "tools": [], "context": [], "forwarded_props": {}, **more}
    asked = RunAgentInput(thread_id=thread, run_id=run, messages=messages, **given)
    events = [event async for event in adapter.run(asked)]
    await adapter.shutdown()
    text = "".join(it.delta for it in events if it.type == "TEXT_MESSAGE_CONTENT")
    last = json.loads(events[-1].model_dump_json(by_alias=True, exclude_none=True))
    return {"text": text, "end": last["type"], "outcome": last.get("outcome"), "message": last.get("message")}


def called(id, name):
    """The model's message with a call, as the front end keeps it."""
    call = ToolCall(id=id, type="function", function=FunctionCall(name=name, arguments="{}"))
    return AssistantMessage(id=f"{id}-message", role="assistant", tool_calls=[call])


async def tool_of_the_front_end(bindings):
    first = UserMessage(id="m1", role="user", content="Make it red.")
    asked = await step(bindings, "painting", "r1", [first], tools=[PAINT])
    result = ToolMessage(id="m2", role="tool", tool_call_id="t1", content="It is red.")
    return [asked, await step(bindings, "painting", "r2", [first, called("t1", "paint"), result], tools=[PAINT])]


async def approval(bindings, thread, behaviour):
    first = UserMessage(id="m1", role="user", content="Run it.")
    asked = await step(bindings, thread, "r1", [first], defer=("Bash",))
    call = f"{thread}-call"
    answer = {"interruptId": call, "status": "resolved", "payload": {"behavior": behaviour}}
    return [asked, await step(bindings, thread, "r2", [first, called(call, "Bash")], defer=("Bash",), resume=[answer])]


async def main():
    bindings = Bindings()
    told = {
        "tool": await tool_of_the_front_end(bindings),
        "allowed": await approval(bindings, "allowed", "allow"),
        "denied": await approval(bindings, "denied", "deny"),
    }
    print(json.dumps(told))


asyncio.run(main())
