"""A server on FastMCP: over standard streams, HTTP or SSE, or over HTTP behind a sign-in whose user agrees at once."""

import sys

from fastmcp import Context, FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.utilities.types import Image
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from pydantic import BaseModel

# A picture of one pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


class Sum(BaseModel):
    total: int


mode = sys.argv[1]
port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
auth = None
if mode == "oauth":
    auth = InMemoryOAuthProvider(
        base_url=f"http://127.0.0.1:{port}",
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read"]),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["read"],
    )
server = FastMCP("fast", instructions="Add before you multiply.", auth=auth)


@server.tool
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b)


@server.tool
def fail() -> str:
    """Fails."""
    raise ValueError("no luck today")


@server.tool
async def count(to: int, context: Context) -> str:
    """Counts, and tells how far it is."""
    for number in range(to):
        await context.report_progress(number, to)
    return f"counted to {to}"


@server.tool
def picture() -> Image:
    """Shows a pixel."""
    return Image(data=PIXEL, format="png")


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return f"the note {name}"


@server.prompt
def plan(city: str) -> str:
    """Plans a trip."""
    return f"Plan a trip to {city}."


if mode == "stdio":
    server.run(show_banner=False)
else:
    transport = "sse" if mode == "sse" else "http"
    server.run(transport=transport, host="127.0.0.1", port=port, show_banner=False)
