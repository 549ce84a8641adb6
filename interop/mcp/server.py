"""A server on the official Python SDK, with one tool of each kind that the servers from npm lack."""

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("python", instructions="Add before you multiply.")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no luck today")


@server.tool()
async def count(to: int, context: Context) -> str:
    """Counts, and tells how far it is."""
    for number in range(to):
        await context.report_progress(number, to)
    return f"counted to {to}"


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return f"the note {name}"


server.run()
