"""Gold answers of harness-bench-fast as what a model would do, and its verifiers as checks.

    gold.py list                      names the tasks
    gold.py prepare TASK WORKSPACE    fills the workspace; prints the prompt and the calls that lead to the gold answer, as JSON
    gold.py verify TASK               judges the working directory; the exit code is 1 if the task is not solved
"""

import base64
import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from harness_bench.tasks import ALL_TASKS, get_task


def files(top):
    """Returns what is below a folder: for each path its kind, content and mode."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            found[name] = ("link", os.readlink(path), 0)
        elif path.is_dir():
            found[name] = ("folder", None, 0)
        else:
            found[name] = ("file", path.read_bytes(), path.stat().st_mode & 0o777)
    return found


def bash(command):
    return {"tool": "Bash", "input": {"command": command}}


def written(name, workspace, content, is_there):
    """Returns the calls that give a file this content."""
    path = str(workspace / name)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or "\r" in text or "\0" in text or len(text) > 20_000 or not text:
        data = base64.b64encode(content).decode()
        quoted = shlex.quote(name)
        folder = shlex.quote(os.path.dirname(name) or ".")
        return [bash(f"mkdir -p {folder} && base64 -d > {quoted} <<'END'\n{data}\nEND")]
    write = {"tool": "Write", "input": {"file_path": path, "content": text}}
    read = {"tool": "Read", "input": {"file_path": path}}
    return [read, write] if is_there else [write]


def calls(before, after, workspace):
    """Returns the calls that make one state of the other."""
    made = []
    gone = [name for name in before if name not in after or before[name][0] != after[name][0]]
    if gone:
        made.append(bash("rm -rf -- " + " ".join(map(shlex.quote, gone))))
    for name, (kind, content, mode) in after.items():
        known = before.get(name)
        if known == (kind, content, mode):
            continue
        quoted = shlex.quote(name)
        if kind == "folder":
            made.append(bash(f"mkdir -p {quoted}"))
        elif kind == "link":
            made.append(bash(f"ln -sfn {shlex.quote(content)} {quoted}"))
        else:
            is_there = known is not None and known[0] == "file"
            if not is_there or known[1] != content:
                made.extend(written(name, workspace, content, is_there))
            if mode != (known[2] if is_there else 0o644):
                made.append(bash(f"chmod {mode:o} {quoted}"))
    return made


def prepare(task, workspace):
    task.setup(workspace)
    with tempfile.TemporaryDirectory() as folder:
        gold = Path(folder) / workspace.name
        shutil.copytree(workspace, gold, symlinks=True)
        before = files(gold)
        task.apply_gold(gold)
        made = calls(before, files(gold), workspace)
    print(json.dumps({"prompt": task.prompt, "calls": made}))


def main():
    match sys.argv[1:]:
        case ["list"]:
            print("\n".join(task.id for task in ALL_TASKS))
        case ["prepare", name, workspace]:
            prepare(get_task(name), Path(workspace))
        case ["verify", name]:
            result = get_task(name).verify(Path.cwd())
            print(result.message or "it is solved")
            sys.exit(not result.passed)
        case _:
            sys.exit(__doc__)


main()
