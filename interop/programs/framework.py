"""An agent of Microsoft's framework that is the program: own tools, an approval, a session, an object. Prints the answers as JSON."""

import asyncio
import json
import os
from typing import Annotated

from agent_framework import tool
from agent_framework_claude import ClaudeAgent


@tool(approval_mode="never_require")
def weather(city: Annotated[str, "a city"]) -> str:
    """Tells the weather in a city."""
    return f"sunny in {city}"


@tool(approval_mode="always_require")
def forget(city: Annotated[str, "a city"]) -> str:
    """Forgets a city."""
    return f"forgot {city}"


def agent(**more):
    fixed = {"cli_path": os.environ["AGENT_CLI"], "cwd": os.getcwd(), "model": "claude-sonnet-4-5", "setting_sources": []}
    return ClaudeAgent(instructions="Be brief.", tools=[weather, forget], default_options={**fixed, **more})


async def main():
    asked = []

    def approve(request):
        asked.append(request.name)
        return False

    told = {}
    async with agent(on_function_approval=approve) as brief:
        session = brief.create_session()
        told["tools"] = (await brief.run("Weather in Ulm? Then forget it.", session=session)).text
        told["session"] = (await brief.run("Which city?", session=session)).text
        pieces = [piece.text async for piece in brief.run("Say it in pieces.", stream=True)]
        told["pieces"] = "".join(piece for piece in pieces if piece)
    told["asked"] = asked
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    async with agent(output_format={"type": "json_schema", "schema": schema}) as exact:
        told["object"] = (await exact.run("As an object.")).value
    print(json.dumps(told))


asyncio.run(main())
