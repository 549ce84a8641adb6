"""A chat model of LangChain that is the program: its tools are calls that a hook defers. Prints what was answered, as JSON."""

import asyncio
import json
import os

from langchain_claude_cli import ChatClaudeCli
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool


@tool
def weather(city: str) -> str:
    """Tells the weather in a city."""
    return f"sunny in {city}"


def model(**more):
    return ChatClaudeCli(model="claude-sonnet-4-5", cli_path=os.environ["AGENT_CLI"], auth="inherit", cwd=os.getcwd(), **more)


async def with_tool():
    """The model asks for the weather; it is told, and answers."""
    chat = model().bind_tools([weather])
    messages = [HumanMessage("What is the weather in Ulm?")]
    asked = await chat.ainvoke(messages)
    calls = asked.tool_calls
    results = [ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in calls]
    answer = await chat.ainvoke([*messages, asked, *results])
    return {"calls": [[call["name"], call["args"]] for call in calls], "answer": answer.text}


async def handed_over():
    """A session that an idle client has open is continued by another process."""
    first = HumanMessage("Remember the number 7.")
    async with model(persistent=True) as kept:
        answer = await kept.ainvoke([first])
        session = answer.response_metadata["session_id"]
        other = await model(session_id=session).ainvoke([HumanMessage("Which number?")])
    return {"answer": answer.text, "other": other.text}


async def main():
    print(json.dumps({"tool": await with_tool(), "over": await handed_over()}))


asyncio.run(main())
