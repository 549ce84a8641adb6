"""An environment of Harbor without containers: the commands of a task run on this machine, as the user who runs Harbor, in
`/app`, `/logs` and `/tests`. For a disposable machine only: an empty Debian root, entered by `chroot`."""

import asyncio
import os
import shutil
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

FOLDERS = ["/app", "/logs/agent", "/logs/verifier", "/logs/artifacts", "/tests", "/solution"]


class Local(BaseEnvironment):
    @staticmethod
    def type():
        return "local"

    @property
    def capabilities(self):
        return EnvironmentCapabilities()

    def _validate_definition(self):
        pass

    async def start(self, force_build):
        for folder in FOLDERS:
            os.makedirs(folder, exist_ok=True)

    async def stop(self, delete):
        for folder in FOLDERS:
            shutil.rmtree(folder, ignore_errors=True)

    async def prepare_logs_for_host(self):
        pass

    async def upload_file(self, source_path, target_path):
        os.makedirs(Path(target_path).parent, exist_ok=True)
        shutil.copy(source_path, target_path)

    async def upload_dir(self, source_dir, target_dir):
        shutil.copytree(source_dir, target_dir, dirs_exist_ok=True)

    async def download_file(self, source_path, target_path):
        await self.upload_file(source_path, target_path)

    async def download_dir(self, source_dir, target_dir):
        await self.upload_dir(source_dir, target_dir)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        child = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=cwd or "/app",
            env={**os.environ, **(self._merge_env(env) or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(child.communicate(), timeout_sec)
        return ExecResult(
            stdout=output.decode(errors="replace"),
            stderr=errors.decode(errors="replace"),
            return_code=child.returncode,
        )
