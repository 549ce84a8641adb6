"""Evaluates `ah` by Inspect's own runner, its model scripted by Inspect and its sandbox a folder of this machine.

    python evaluate.py BINARY ours|swe

Prints the outcome as JSON. `ours` is the agent of `contrib/inspect`; `swe` is that of the package inspect-swe for the original,
which finds the binary under that name.
"""

import json
import os
import sys
from pathlib import Path

import tiktoken
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.tool import tool
from inspect_swe import claude_code

sys.path.insert(0, str(Path(__file__).parents[2] / "contrib/inspect"))
from ah_inspect import ah  # noqa: E402

# Inspect counts the tokens of a scripted model by a list that it would download.
tiktoken.get_encoding = lambda name: type("Words", (), {"encode": lambda self, text, **_: text.split()})()

binary, agent = Path(sys.argv[1]), sys.argv[2]
MODEL = "mockllm/model"


@tool
def lookup():
    async def execute(of: str):
        """Looks up an answer.

        Args:
            of: What it answers.
        """
        return f"forty-two, for {of}"

    return execute


def ours():
    os.environ["PATH"] = f"{binary.parent}:{os.environ['PATH']}"
    call = ModelOutput.for_tool_call(MODEL, "bash", {"command": "echo forty-two > answer.txt; cat answer.txt"})
    return ah(["--max-turns", "5"]), call


def swe():
    programs = Path("programs").absolute()
    programs.mkdir()
    (programs / "claude").symlink_to(binary)
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    call = ModelOutput.for_tool_call(MODEL, "mcp__tools__lookup", {"of": "everything"})
    return claude_code(version="sandbox", bridged_tools=[lookup()]), call


solver, call = {"ours": ours, "swe": swe}[agent]()
answers = [call, ModelOutput.from_content(MODEL, "The answer is forty-two.")]
words = [ChatMessageSystem(content="Answer in one sentence."), ChatMessageUser(content="What is the answer?")]
task = Task(dataset=[Sample(input=words, target="forty-two")], solver=solver, scorer=includes(), sandbox="local")
log = eval(task, model=get_model(MODEL, custom_outputs=answers), display="none", log_dir="logs")[0]
sample = (log.samples or [None])[0]
outcome = {"status": log.status, "error": log.error and log.error.message}
if sample:
    outcome["score"] = {name: score.value for name, score in (sample.scores or {}).items()}
    outcome["messages"] = [[message.role, message.text] for message in sample.messages]
print(json.dumps(outcome))
