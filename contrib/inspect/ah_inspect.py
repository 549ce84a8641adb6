"""`ah` as an agent of Inspect (https://inspect.aisi.org.uk): its model is the one that Inspect evaluates.

    from ah_inspect import ah

    @task
    def mine():
        return Task(dataset=..., solver=ah(), scorer=includes(), sandbox="docker")

The sandbox has the program in its PATH: `binary` copies a static build of this machine there first. Its requests go through
Inspect's bridge, so limits, logs and scores are those of any other agent. The container is what confines it: `ah` runs with
`--no-sandbox`, since sandboxes rarely nest, and asks nobody.
"""

from collections.abc import Sequence
from pathlib import Path

from inspect_ai.agent import Agent, AgentState, agent, sandbox_agent_bridge
from inspect_ai.model import ChatMessageSystem, user_prompt
from inspect_ai.tool import MCPServerConfigHTTP
from inspect_ai.util import sandbox as sandbox_env

# The name that the bridge gives to the model that is evaluated.
MODEL = "inspect"
INSTALLED = "/usr/local/bin/ah"


@agent
def ah(
    options: Sequence[str] = (),
    *,
    binary: str | Path | None = None,
    sandbox: str | None = None,
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    port: int = 13131,
) -> Agent:
    """Returns the agent.

    options: further options of `ah -p`, such as `["--max-turns", "50"]`.
    binary: a static build to copy into the sandbox; without it, the sandbox has `ah`.
    sandbox: the name of the sandbox, if the task has several.
    cwd, env: the folder to work in, and further variables.
    port: of the bridge, inside the sandbox.
    """

    async def execute(state: AgentState) -> AgentState:
        place = sandbox_env(sandbox)
        program = "ah"
        if binary is not None:
            program = INSTALLED
            await place.write_file(program, Path(binary).read_bytes())
            made = await place.exec(["chmod", "755", program])
            if not made.success:
                raise RuntimeError(f"ah cannot be installed: {made.stderr}")
        system = "\n\n".join(
            message.text for message in state.messages if isinstance(message, ChatMessageSystem)
        )
        async with sandbox_agent_bridge(state, sandbox=sandbox, port=port) as bridge:
            command = [program, "-p", "--model", f"anthropic/{MODEL}", "--output-format", "stream-json"]
            command += ["--verbose", "--no-sandbox", "--dangerously-skip-permissions"]
            command += ["--append-system-prompt", system] if system else []
            servers = _servers(bridge.mcp_server_configs)
            command += ["--mcp-config", servers] if servers else []
            ended = await place.exec(
                [*command, *options],
                input=user_prompt(state.messages).text,
                cwd=cwd,
                env={
                    "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{bridge.port}",
                    "ANTHROPIC_API_KEY": MODEL,
                    # The sandbox is disposable, so its root may be without limits.
                    "IS_SANDBOX": "1",
                    **(env or {}),
                },
            )
            if not ended.success:
                last = ended.stdout.strip().splitlines()[-1:]
                raise RuntimeError(f"ah failed ({ended.returncode}): {ended.stderr} {last}")
        return bridge.state

    return execute


def _servers(configs: Sequence[MCPServerConfigHTTP]) -> str | None:
    """Returns the tools that Inspect offers to the agent, as MCP servers."""
    import json

    if not configs:
        return None
    servers = {config.name: {"type": "http", "url": config.url} for config in configs}
    return json.dumps({"mcpServers": servers})
