"""A model that plays what a test says, a home and a folder of its own for each test, and the SDK on the binary."""

import json
import os
import subprocess
import urllib.request
from dataclasses import dataclass, field

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    UserMessage,
    query,
)


def says(text, **more):
    return {"text": text, **more}


def uses(*calls, **more):
    """A turn of tool calls, each an id, a name and an input."""
    return {"tools": [{"id": id, "name": name, "input": input} for id, name, input in calls], **more}


def bash(id, command):
    return (id, "Bash", {"command": command, "description": "a test"})


@dataclass
class Seen:
    """The messages of a run, and the exception that ended it."""

    messages: list = field(default_factory=list)
    error: Exception | None = None

    async def take(self, messages):
        try:
            async for message in messages:
                self.messages.append(message)
        except Exception as error:
            self.error = error
        return self

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]

    @property
    def init(self):
        return next(it.data for it in self.of(SystemMessage) if it.subtype == "init")

    @property
    def result(self):
        results = self.of(ResultMessage)
        assert results, f"no result, but {self.messages} and {self.error!r}"
        return results[-1]

    @property
    def text(self):
        blocks = [block for message in self.of(AssistantMessage) for block in message.content]
        return "".join(block.text for block in blocks if isinstance(block, TextBlock))

    def tool_result(self, id):
        for message in self.of(UserMessage):
            for block in message.content if isinstance(message.content, list) else []:
                if isinstance(block, ToolResultBlock) and block.tool_use_id == id:
                    return block
        raise AssertionError(f"no result for {id} among {self.messages}")


def said(message):
    """The content of a message without the context that a session begins with."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return [it for it in content if not it.get("text", "").startswith("[CONTEXT]")]


def text_of(content):
    """All words of a text, a block, or a list of them."""
    if isinstance(content, list):
        return "\n".join(text_of(block) for block in content)
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("content") or "")
    return content


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.cwd = folder / "work"
        self.home = folder / "home"
        self.cwd.mkdir()
        self.home.mkdir()
        self.server = None
        self.url = "http://127.0.0.1:9"

    def plays(self, *turns):
        scenario = self.folder / "scenario.json"
        scenario.write_text(json.dumps({"turns": turns}))
        self.server = subprocess.Popen(
            [os.environ["AH_TEST_LOOPBACK"], "--scenario", scenario],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self.server.stdout.readline().strip()

    @property
    def made(self):
        """The files that a run has made, but for those of the session."""
        return [path.name for path in self.cwd.iterdir() if path.name != ".ah"]

    @property
    def requests(self):
        """The bodies of the requests so far."""
        with urllib.request.urlopen(self.url + "/requests") as answer:
            return json.load(answer)

    def sent(self, number):
        """The words of the last message of a request, from 0, without the context that a session begins with."""
        return text_of(said(self.requests[number]["messages"][-1]))

    def options(self, **options):
        environment = {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-test",
            "HOME": str(self.home),
            "IS_SANDBOX": "1",
            **options.pop("env", {}),
        }
        options = {"model": "claude-sonnet-4-5", "setting_sources": [], **options}
        return ClaudeAgentOptions(
            cli_path=os.environ["AGENT_CLI"], cwd=self.cwd, env=environment, **options
        )

    async def asks(self, prompt, **options):
        """One prompt, to the end."""
        return await Seen().take(query(prompt=prompt, options=self.options(**options)))

    def client(self, **options):
        return ClaudeSDKClient(options=self.options(**options))


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    if bench.server:
        bench.server.kill()
        bench.server.wait()
