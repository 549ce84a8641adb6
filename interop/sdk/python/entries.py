"""What the official SDKs declare: the options, messages, requests and hooks in their own type files.

Python's are read as a syntax tree. TypeScript's come from a bundler and have one form throughout, so their words and
brackets are enough: no compiler is needed.
"""

import ast
import os
import re
from pathlib import Path

import claude_agent_sdk

# Requests and messages that are declared and do not go over the wire between a host and its program.
ENVELOPE = "SDKControlRequest"


class Python:
    """The module `claude_agent_sdk.types`."""

    def __init__(self):
        tree = ast.parse((Path(claude_agent_sdk.__file__).parent / "types.py").read_text())
        self.classes = {it.name: it for it in tree.body if isinstance(it, ast.ClassDef)}
        self.aliases = {}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.aliases[node.targets[0].id] = node.value

    def fields(self, name):
        """The fields of a class, its bases' first."""
        node = self.classes[name]
        bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in self.classes]
        inherited = [field for base in bases for field in self.fields(base)]
        return inherited + [it.target.id for it in node.body if isinstance(it, ast.AnnAssign)]

    def union(self, name):
        """The classes that a type alias joins."""
        names = (it.id for it in ast.walk(self.aliases[name]) if isinstance(it, ast.Name))
        return [it for it in names if it in self.classes]

    def words(self, name):
        """The literals that a type alias joins."""
        constants = (it.value for it in ast.walk(self.aliases[name]) if isinstance(it, ast.Constant))
        return [it for it in constants if isinstance(it, str)]

    def literal(self, name, field):
        """The literal that a field of a class is."""
        for node in self.classes[name].body:
            if isinstance(node, ast.AnnAssign) and node.target.id == field:
                return next(it.value for it in ast.walk(node.annotation) if isinstance(it, ast.Constant))
        raise KeyError(f"{name}.{field}")


TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|[\w$]+|\S""")
DECLARED = re.compile(r"(?:export )?declare (type|interface|const|class|function) (\w+)")


class TypeScript:
    """The file `sdk.d.ts`."""

    def __init__(self):
        folder = Path(os.environ["SDK_TS_DIR"]) / "node_modules/@anthropic-ai/claude-agent-sdk"
        text = re.sub(r"/\*.*?\*/", "", (folder / "sdk.d.ts").read_text(), flags=re.S)
        text = re.sub(r"^\s*//.*$", "", text, flags=re.M)
        self.tokens, self.functions = {}, []
        for part in re.split(r"^(?=(?:export )?declare )", text, flags=re.M):
            declared = DECLARED.match(part)
            if not declared:
                continue
            kind, name = declared.groups()
            if kind != "function":
                self.tokens.setdefault(name, TOKEN.findall(part[declared.end():]))
            elif part.startswith("export"):
                self.functions.append(name)

    def fields(self, name):
        """The members of an object type, not those of objects in it."""
        tokens, found, depth, may_be = self.tokens[name], [], 0, False
        for at, token in enumerate(tokens):
            if may_be and re.match(r"[\w$]", token) and tokens[at + 1] in "?:(<":
                found.append(token)
            depth += (token in ("{", "[", "(")) - (token in ("}", "]", ")"))
            may_be = depth == 1 and (token in ("{", ";") or (may_be and token == "readonly"))
        return list(dict.fromkeys(found))

    def union(self, name):
        """The types that a type alias joins."""
        return [token for token in self.tokens[name] if token in self.tokens]

    def words(self, name):
        """The literals that a constant lists."""
        return [token.strip("'") for token in self.tokens[name] if token.startswith("'")]

    def literal(self, name, field):
        """The literal that a field of an object type is, or nothing."""
        tokens = self.tokens[name]
        for at, token in enumerate(tokens):
            if token == field and tokens[at + 1] == ":" and tokens[at + 2].startswith("'"):
                return tokens[at + 2].strip("'")
        return None


def message(types, name):
    """What a message of TypeScript is called on the wire: its type, or its subtype if there are many of the type."""
    kind = types.literal(name, "type") or types.literal(types.union(name)[0], "type")
    return types.literal(name, "subtype") or kind


def declared():
    """What the SDKs declare, by section of the page and by language; of hooks, the fields by event."""
    python, script = Python(), TypeScript()
    above = {name for name, node in python.classes.items() if ENVELOPE != name}
    requests = [it for it in above if it.startswith(("SDKControl", "SDKHook")) and it.endswith("Request")]
    of_system = [it for it in above if "SystemMessage" in (getattr(base, "id", "") for base in python.classes[it].bases)]
    return {
        "Options": (script.fields("Options"), python.fields("ClaudeAgentOptions")),
        "Definitions of subagents": (script.fields("AgentDefinition"), python.fields("AgentDefinition")),
        "Messages": (
            [message(script, it) for it in script.union("SDKMessage")],
            python.union("Message") + of_system,
        ),
        "Control requests": (
            [script.literal(it, "subtype") for it in script.union("SDKControlRequestInner")],
            [python.literal(it, "subtype") for it in requests],
        ),
        "Methods and functions": (
            [f"Query.{it}" for it in script.fields("Query")] + script.functions,
            methods(claude_agent_sdk.ClaudeSDKClient) + functions(claude_agent_sdk),
        ),
    }


def tools():
    """The names of built-in tools."""
    return TypeScript().words("BUILTIN_TOOL_NAMES")


def methods(kind):
    return [f"ClaudeSDKClient.{it}" for it in vars(kind) if not it.startswith("_")]


def functions(module):
    is_function = lambda name: callable(getattr(module, name)) and name[0].islower()
    return [name for name in module.__all__ if is_function(name)]


def hooks():
    """The fields that hooks are told and may say, by event, as either SDK declares them."""
    python, script = Python(), TypeScript()
    events = dict.fromkeys(script.words("HOOK_EVENTS") + python.words("HookEvent"))
    told, said = {}, {}
    for event in events:
        for types in (python, script):
            known = types.classes if types is python else types.tokens
            for fields, name in ((told, f"{event}HookInput"), (said, f"{event}HookSpecificOutput")):
                if name in known:
                    fields.setdefault(event, set()).update(types.fields(name))
    of_all = set(python.fields("BaseHookInput") + script.fields("BaseHookInput"))
    for event in told:
        told[event] -= of_all | {"hook_event_name"}
    for event in said:
        said[event] -= {"hookEventName"}
    answers = {
        it.rstrip("_")
        for types in (python, script)
        for name in ("SyncHookJSONOutput", "AsyncHookJSONOutput")
        for it in types.fields(name)
    }
    return list(events), of_all, answers - {"hookSpecificOutput"}, told, said
