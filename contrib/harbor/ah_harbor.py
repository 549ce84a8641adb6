"""`ah` as an agent of Harbor (https://harborframework.com), the runner of Terminal-Bench and others.

    harbor run -d terminal-bench@2.0 --agent-import-path ah_harbor:Ah -m anthropic/claude-sonnet-5-5 \\
        --ak archive=ah-x86_64-unknown-linux-musl.tar.gz

It installs the static archive of a release, from this machine or from an address with its checksum, runs
`ah -p --output-format stream-json`, and leaves the events and the trajectory (ATIF) in the logs. The container is what confines
it: `ah` runs with `--no-sandbox`, since sandboxes rarely nest, and asks nobody.
"""

import json
import shlex
from pathlib import Path
from typing import Any

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

PROGRAM = "/usr/local/bin/ah"
EVENTS = "ah.jsonl"
TRAJECTORY = "trajectory.json"
# Variables with keys and addresses of model servers that are given to the run, if they are set here.
KEYS = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "LITELLM_API_KEY",
    "LITELLM_BASE_URL",
]


class Ah(BaseInstalledAgent):
    """Runs a task by `ah -p`.

    archive: the release's archive: a path on this machine, or an https address.
    sha256: its checksum; required for an address.
    binary: the program itself on this machine, instead of an archive.
    options: further options of `ah -p`, as one text.
    """

    capabilities = AgentCapabilities(atif=True, mcp_servers=True)

    def __init__(
        self,
        *args: Any,
        archive: str | None = None,
        sha256: str | None = None,
        binary: str | None = None,
        options: str = "",
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        if (archive is None) == (binary is None):
            raise ValueError("give either `archive` or `binary`")
        if archive is not None and archive.startswith("http") and not sha256:
            raise ValueError("an archive from an address needs `sha256`")
        self._archive, self._sha256, self._binary = archive, sha256, binary
        self._more = shlex.split(options)

    @staticmethod
    def name() -> str:
        return "ah"

    def get_version_command(self) -> str | None:
        return f"{PROGRAM} -V"

    def parse_version(self, stdout: str) -> str:
        return stdout.split()[1] if len(stdout.split()) > 1 else ""

    async def install(self, environment: BaseEnvironment) -> None:
        if self._binary is not None:
            await environment.upload_file(Path(self._binary), PROGRAM)
            await self.exec_as_root(environment, command=f"chmod 755 {PROGRAM}")
            return
        packed = "/tmp/ah.tar.gz"
        if self._archive.startswith("http"):
            await self.ensure_system_dependencies(environment, ("curl", "ca_certificates"))
            fetch = f"curl -fsSL -o {packed} {shlex.quote(self._archive)}"
            await self.exec_as_root(environment, command=fetch)
        else:
            await environment.upload_file(Path(self._archive), packed)
        check = f"echo {shlex.quote(f'{self._sha256}  {packed}')} | sha256sum -c - && " if self._sha256 else ""
        unpack = (
            f"{check}mkdir -p /tmp/ah && tar -xzf {packed} -C /tmp/ah && "
            f'install -m 755 "$(find /tmp/ah -type f -name ah | head -n 1)" {PROGRAM} && rm -r /tmp/ah {packed}'
        )
        await self.exec_as_root(environment, command=unpack)

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        if not self.model_name:
            raise ValueError("a model is needed: -m PROVIDER/NAME")
        logs = self.environment_logs_dir
        command = [PROGRAM, "-p", "--model", self.model_name, "--output-format", "stream-json", "--verbose"]
        command += ["--no-sandbox", "--dangerously-skip-permissions", *self._servers(), *self._more]
        env = {name: value for name in KEYS if (value := self._get_env(name))}
        # The container is disposable, so its root may be without limits.
        env["IS_SANDBOX"] = "1"
        events, trajectory = (shlex.quote(str(logs / name)) for name in (EVENTS, TRAJECTORY))
        run = (
            f"mkdir -p {shlex.quote(str(logs))}; "
            f"printf %s {shlex.quote(instruction)} | {shlex.join(command)} | tee {events}; ended=$?; "
            f"{PROGRAM} -c export --format atif > {trajectory} || rm -f {trajectory}; exit $ended"
        )
        await self.exec_as_agent(environment, command=run, env=env)

    def _servers(self) -> list[str]:
        servers: dict[str, dict[str, Any]] = {}
        for server in self.mcp_servers:
            if server.transport == "stdio":
                servers[server.name] = {"command": server.command, "args": list(server.args)}
            else:
                servers[server.name] = {"type": "http", "url": server.url}
        return ["--mcp-config", json.dumps({"mcpServers": servers})] if servers else []

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Reads tokens and cost from the last event."""
        try:
            lines = (self.logs_dir / EVENTS).read_text().splitlines()
        except OSError:
            return
        for line in reversed(lines):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("type") == "result":
                usage = event.get("usage", {})
                cached = usage.get("cache_read_input_tokens", 0)
                written = usage.get("cache_creation_input_tokens", 0)
                context.n_input_tokens = usage.get("input_tokens", 0) + cached + written
                context.n_cache_tokens = cached
                context.n_output_tokens = usage.get("output_tokens", 0)
                context.cost_usd = event.get("total_cost_usd")
                return
