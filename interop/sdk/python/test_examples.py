"""The examples that the Python SDK brings in its sources, unchanged: issue 9. Each finds the program under the name of the
one that it stands in for, asks a model that plays what stands here, and has to print what it prints with that one."""

import ast
import asyncio
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import bash, says, text_of, uses

FOLDER = Path(os.environ["SDK_EXAMPLES"])

# What is no program, and why.
LEFT_OUT = {
    "session_stores/__init__.py": "an empty module",
    "session_stores/postgres_session_store.py": "a module to copy; it needs a PostgreSQL server",
    "session_stores/redis_session_store.py": "a module to copy; it needs a Redis server",
    "session_stores/s3_session_store.py": "a module to copy; it needs an S3 store",
}

# Runs text as IPython does, where a line may await.
NOTEBOOK = """
import ast, asyncio, sys
source = open(sys.argv[1]).read()
code = compile(source, sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
asyncio.run(eval(code, {"__name__": "__main__"}))
"""


@dataclass
class Example:
    """A way to run an example: what the model plays, and what is to come of it."""

    turns: list
    # What it prints, in this order.
    prints: list
    arguments: list = field(default_factory=list)
    # What it prints only where something is wrong.
    never: list = field(default_factory=list)
    # Words of the last message of a request, by its number.
    sent: dict = field(default_factory=dict)
    # Words of the system prompt of a request, by its number.
    system: dict = field(default_factory=dict)
    code: int = 0
    is_notebook: bool = False


def write(id, path):
    return (id, "Write", {"file_path": str(path), "content": "print('Hello, world!')\n"})


def calc(id, name, **input):
    return (id, f"mcp__calc__{name}", input)


PAID = {"usage": {"input_tokens": 1000, "output_tokens": 100}}
FOREVER = {"repeat": 50}

# By file, and by the name of the example where a file has several.
EXAMPLES = {
    "quick_start.py": lambda cwd: Example(
        [says("Four."), says("A language."), uses(write("w", cwd / "hello.txt")), says("Made.", **PAID)],
        ["Claude: Four.", "Claude: A language.", "Claude: Made.", "Cost: $"],
        sent={0: "What is 2 + 2?", 1: "Explain what Python is"},
        system={1: "You are a helpful assistant", 2: "You are a helpful file assistant."},
    ),
    "system_prompt.py": lambda cwd: Example(
        [says("Four."), says("Arr, four."), says("It is four."), says("Four. Did you know?")],
        ["Claude: Four.", "Claude: Arr, four.", "Claude: It is four.", "Claude: Four. Did you know?"],
        system={1: "You are a pirate assistant.", 3: "Always end your response with a fun fact."},
    ),
    "include_partial_messages.py": lambda cwd: Example(
        [says("Why did the chicken stay?", thinking="Three of them.", pieces=3)],
        ["subtype='init'", "'message_start'", "'thinking_delta'", "'text_delta'", "TextBlock(text='Why did",
         "'message_stop'", "subtype='success'"],
        sent={0: "Think of three jokes"},
    ),
    "max_budget_usd.py": lambda cwd: Example(
        # The example leaves the exception to nobody, which the last result becomes: with the original it ends so as well.
        [says("Four.", **PAID), says("Four.", **PAID), uses(bash("b", "cat README.md"), **PAID)],
        ["Claude: Four.", "Total cost: $0.0", "Status: success", "Status: success", "Total cost: $0.0",
         "Status: error_max_budget_usd", "Budget limit exceeded!"],
        code=1,
    ),
    "tools_option.py": lambda cwd: Example(
        [says("Three."), says("None."), says("Many.", **PAID)],
        ["Tools from system message: ['Read', 'Grep', 'Glob']", "Claude: Three.",
         "Tools from system message: []", "Claude: None.", "Tools from system message (", "Claude: Many.", "Cost: $"],
    ),
    "agents.py": lambda cwd: Example(
        [
            uses(("a", "Agent", {"description": "Review", "prompt": "Review types.py.",
                                 "subagent_type": "code-reviewer", "run_in_background": False})),
            says("Line 3 is wrong."), says("It found one fault.", **PAID),
            says("It defines agents."),
            uses(("b", "Agent", {"description": "Find", "prompt": "Find files.", "subagent_type": "analyzer",
                                 "run_in_background": False})),
            says("Two files."), says("There are two.", **PAID),
        ],
        ["Claude: It found one fault.", "Cost: $", "Claude: It defines agents.", "Claude: There are two.", "Cost: $"],
        never=["Claude: Line 3", "Claude: Two files"],
        sent={1: "Review types.py.", 2: "Line 3 is wrong.", 5: "Find files.", 6: "Two files."},
        system={1: "You are a code reviewer.", 5: "You are a code analyzer."},
    ),
    "filesystem_agents.py": lambda cwd: Example(
        [says("Hello, dear you.")],
        ["'test-agent'", "Assistant: Hello, dear you.", "Result: subtype=success",
         "SUCCESS: Received full response", "SUCCESS: test-agent was loaded"],
        never=["FAILURE", "WARNING"],
    ),
    "stderr_callback_example.py": lambda cwd: Example(
        [says("Four.")],
        ["Running query", "Captured "],
        sent={0: "What is 2+2?"},
        never=["Error detected"],
    ),
    "setting_sources.py": lambda cwd: Example(
        [says("Four.", **FOREVER)],
        ["✓ /commit is available", "✓ /commit is NOT available", "✓ /commit is NOT available",
         "✓ /commit is available"],
        arguments=["all"],
        never=["❌"],
    ),
    "plugin_example.py": lambda cwd: Example(
        [says("Hello!")],
        ["System initialized!", "Plugin successfully configured!"],
        sent={0: "Hello!"},
    ),
    "mcp_calculator.py": lambda cwd: Example(
        [
            says("Six of them."),
            uses(calc("1", "add", a=15, b=27)), says("42."),
            uses(calc("2", "divide", a=100, b=8)), says("12.5."),
            uses(calc("3", "sqrt", n=144)), says("12."),
            uses(calc("4", "power", base=2, exponent=8)), says("256."),
            uses(calc("5", "add", a=12, b=8), calc("6", "divide", a=1, b=0)), says("50.", **PAID),
        ],
        ["Claude: Six of them.", "Using tool: mcp__calc__add", "15 + 27 = 42", "Claude: 42.", "100 ÷ 8 = 12.5",
         "√144 = 12.0", "2^8 = 256", "12 + 8 = 20", "Division by zero", "Claude: 50.", "Cost: $"],
        sent={2: "15 + 27 = 42", 10: "Division by zero"},
    ),
    "tool_permission_callback.py": lambda cwd: Example(
        [uses(bash("1", "ls -la > listing")), uses(write("2", "/srv/hello.py")),
         uses(write("3", "/etc/example.conf")), uses(bash("4", "sudo ls")), says("Done.", **PAID)],
        ["Tool Permission Request: Bash", "Allowing bash command: ls -la", "Redirecting write from /srv/hello.py to ./safe_output/hello.py",
         "Denying write to system directory", "Denying dangerous command: sudo ls", "Claude: Done.",
         "Task completed!", "Cost: $", "4. Tool: Bash"],
        sent={3: "Cannot write to system directory: /etc/example.conf", 4: "Dangerous command pattern detected: sudo"},
        never=["Unknown tool"],
    ),
    "hooks.py PreToolUse": lambda cwd: Example(
        [uses(bash("1", "./foo.sh --help")), says("It was blocked."),
         uses(bash("2", "echo 'Hello from hooks example!'")), says("It ran.")],
        ["Claude: It was blocked.", "Result ended", "Claude: It ran.", "Result ended"],
        sent={1: "Command contains invalid pattern: foo.sh", 3: "Hello from hooks example!"},
    ),
    "hooks.py UserPromptSubmit": lambda cwd: Example(
        # Its hook answers for another event than the one it is asked for, which the original leaves aside.
        [says("Pink, I hope.")],
        ["Claude: Pink, I hope.", "Result ended"],
        sent={0: "What's my favorite color?"},
    ),
    "hooks.py PostToolUse": lambda cwd: Example(
        [uses(bash("1", "ls /nonexistent_directory || echo error")), says("There is none.")],
        ["Claude: There is none.", "Result ended"],
        sent={1: "The command encountered an error."},
    ),
    "hooks.py DecisionFields": lambda cwd: Example(
        [uses(write("1", cwd / "important_config.txt")), says("It was blocked."),
         uses(write("2", cwd / "regular_file.txt")), says("Written.")],
        ["Claude: It was blocked.", "Claude: Written."],
        sent={1: "Security policy blocks writes to important files", 3: "regular_file.txt"},
    ),
    "hooks.py ContinueControl": lambda cwd: Example(
        [uses(bash("1", "echo 'CRITICAL ERROR: system failure'"))],
        ["Result ended"],
    ),
    "streaming_mode.py basic_streaming": lambda cwd: Example([says("Four.")], ["Claude: Four.", "Result ended"]),
    "streaming_mode.py multi_turn_conversation": lambda cwd: Example(
        [says("Paris."), says("Two million.")],
        ["Claude: Paris.", "Result ended", "Claude: Two million.", "Result ended"],
        sent={1: "What's the population of that city?"},
    ),
    "streaming_mode.py concurrent_responses": lambda cwd: Example(
        [says("Four."), says("Twelve."), says("Eight.")],
        ["Claude: Four.", "Claude: Twelve.", "Claude: Eight.", "Result ended"],
    ),
    "streaming_mode.py with_interrupt": lambda cwd: Example(
        [says("One, two", hang=True), says("A joke.")],
        ["[After 2 seconds, sending interrupt...]", "User: [Request interrupted by user]", "Result ended",
         "Claude: A joke.", "Result ended"],
        sent={1: "Never mind, just tell me a quick joke"},
    ),
    "streaming_mode.py manual_message_handling": lambda cwd: Example(
        [says("Python, Java, C++, Go and Rust.")],
        ["Claude: Python, Java", "Found language: Rust", "Result ended", "Total languages mentioned: 5"],
    ),
    "streaming_mode.py with_options": lambda cwd: Example(
        [uses(write("w", cwd / "hello.txt")), says("Made.")],
        ["Claude: Made.", "Result ended", "Tools used: Write"],
        system={0: "You are a helpful coding assistant."},
    ),
    "streaming_mode.py async_iterable_prompt": lambda cwd: Example(
        [says("Tokyo, and 30.", **FOREVER)],
        ["Claude: Tokyo, and 30.", "Result ended"],
        sent={-1: "what's 15% of 200?"},
    ),
    "streaming_mode.py bash_command": lambda cwd: Example(
        [uses(bash("b", "echo 'Hello from bash!'")), says("It said hello.", **PAID)],
        ["Tool Use: Bash (id: b)", "Command: echo 'Hello from bash!'", "Tool Result (id: b): Hello from bash!",
         "Claude: It said hello.", "Result ended", "Cost: $"],
    ),
    "streaming_mode.py control_protocol": lambda cwd: Example(
        [says("1, 2, 3", hang=True), says("Hello!")],
        ["✓ Server info retrieved", "Available commands:", "Output style: default", "Available output styles: default",
         "✓ Interrupt sent successfully", "Claude: Hello!"],
        never=["✗"],
    ),
    "streaming_mode.py error_handling": lambda cwd: Example(
        [says("I wait", hang=True)],
        ["Response timeout after 3 seconds", "messages before timeout"],
        never=["Connection error", "Unexpected error"],
    ),
    "streaming_mode_trio.py": lambda cwd: Example(
        [says("42."), says("84."), says("12.")],
        ["Claude: 42.", "Claude: 84.", "Claude: 12.", "Result ended", "Conversation complete!"],
    ),
    "streaming_mode_ipython.py": lambda cwd: Example(
        [says("Four."), says("A joke."), says("A fact."), says("Four."), says("Hundred."),
         says("1", hang=True), says("Hello! I was interrupted."), says("I wait", hang=True),
         says("Red, yellow, blue.", **FOREVER)],
        ["Claude: Four.", "Claude: A joke.", "Claude: A fact.", "Claude: Four.", "Claude: Hundred.",
         "--- Sending interrupt ---", "Claude: Hello! I was interrupted.", "Request timed out after 20 seconds",
         "Claude: Red, yellow, blue.", "User: What are the primary colors?", "Claude: Red, yellow, blue.",
         "Total messages: "],
        never=["Error:"],
        is_notebook=True,
    ),
}


def test_every_example_is_run_or_left_out_by_name():
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py")}
    assert there == {name.split()[0] for name in EXAMPLES} | set(LEFT_OUT)


def test_every_part_of_an_example_is_run():
    """Those that have a list of parts to choose from run each of them."""
    for file in ["hooks.py", "streaming_mode.py"]:
        program = ast.parse((FOLDER / file).read_text())
        lists = [node.value for node in ast.walk(program) if isinstance(node, ast.Assign)]
        lists = [it for it in lists if isinstance(it, ast.Dict) and isinstance(it.values[0], ast.Name)]
        parts = {key.value for key in lists[0].keys}
        assert parts == {name.split()[1] for name in EXAMPLES if name.startswith(file)}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_example(bench, name):
    example = EXAMPLES[name](bench.cwd)
    bench.plays(*example.turns)
    program = place(bench, name)
    start = [sys.executable, "-c", NOTEBOOK] if example.is_notebook else [sys.executable]
    run = await asyncio.to_thread(
        subprocess.run,
        [*start, program, *name.split()[1:], *example.arguments],
        cwd=bench.cwd, env=environment(bench), stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    told = f"{run.stdout}\n--- stderr\n{run.stderr}"
    assert run.returncode == example.code, told
    place_in_it = 0
    for words in example.prints:
        place_in_it = run.stdout.find(words, place_in_it)
        assert place_in_it >= 0, f"no `{words}` there in\n{told}"
        place_in_it += len(words)
    for words in example.never:
        assert words not in run.stdout, told
    requests = bench.requests
    if not any(turn.get("repeat") for turn in example.turns):
        assert len(requests) == len(example.turns), told
    for number, words in example.sent.items():
        assert words in text_of(requests[number]["messages"][-1]["content"])
    for number, words in example.system.items():
        assert words in text_of(requests[number]["system"])


def place(bench, name):
    """The example in a folder that has what the SDK's repository has around it."""
    top = bench.folder / "repository"
    shutil.copytree(FOLDER, top / "examples")
    commands, agents = top / ".claude/commands", top / ".claude/agents"
    commands.mkdir(parents=True)
    agents.mkdir()
    (commands / "commit.md").write_text("Commit what has changed.\n")
    (agents / "test-agent.md").write_text("---\nname: test-agent\ndescription: For a test.\n---\n\nSay hello.\n")
    return top / "examples" / name.split()[0]


def environment(bench):
    """Where the SDK finds the program by its name, and the program the model."""
    folder = bench.folder / "bin"
    folder.mkdir()
    (folder / "claude").symlink_to(os.environ["AGENT_CLI"])
    kept = {key: value for key, value in os.environ.items() if not re.match("ANTHROPIC|CLAUDE", key)}
    return {
        **kept,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(bench.home),
        "ANTHROPIC_BASE_URL": bench.url,
        "ANTHROPIC_API_KEY": "sk-test",
        "IS_SANDBOX": "1",
    }
