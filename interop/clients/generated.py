"""A session by the client that openapi-python-client generates: arguments are the address and the token."""
import sys
import time

from ah_serve_client import AuthenticatedClient
from ah_serve_client.api.default import create, list_, message, messages, prompt, show, tree
from ah_serve_client.models import NextPrompt, Prompt, TextBlock, ToolResultBlock, ToolUseBlock

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], raise_on_unexpected_status=True)
session = create.sync(client=client, body=Prompt(prompt="Look.")).session


def ended():
    while (state := show.sync(session, client=client).state).running:
        time.sleep(0.02)
    return state.ended


assert ended().is_error is False
prompt.sync(session, client=client, body=NextPrompt(prompt="Once more."))
ended()
assert session in [it.id for it in list_.sync(client=client).sessions]
nodes = tree.sync(session, client=client).nodes
said = messages.sync(session, client=client, at=nodes[-1].id).messages
blocks = [block for it in said for block in it.content]
call = next(block for block in blocks if isinstance(block, ToolUseBlock))
result = next(block for block in blocks if isinstance(block, ToolResultBlock))
assert (call.name, result.tool_use_id) == ("bash", call.id)
assert result.content[0].text.strip() == "here", result
assert [block.text for block in blocks if isinstance(block, TextBlock)][-1] == "Two."
answer = message.sync(session, nodes[-1].id, client=client)
assert answer.response.usage.output_tokens >= 0 and answer.created_at > 0
