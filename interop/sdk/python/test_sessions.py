"""Sessions as the SDK lists, reads, copies and keeps them: port 11 b, c and j, row S6."""

from pathlib import Path

import claude_agent_sdk as sdk
import pytest
from claude_agent_sdk import AssistantMessage, InMemorySessionStore, project_key_for_directory
from conftest import Seen, bash, said, says, uses


@pytest.fixture
def listed(bench, monkeypatch):
    """The functions of the SDK look in the home of this process."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(bench.home / ".claude"))
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    return str(bench.cwd)


def words(messages):
    """What stands in each row, in a word."""
    for message in messages:
        content = message.message["content"]
        yield content if isinstance(content, str) else "+".join(it.get("text") or it["type"] for it in content)


async def talked(bench, **options):
    """Two prompts, of which the first has a tool run; gives the messages of the first answer."""
    bench.plays(uses(bash("one", "echo 1"), text="Wait."), says("One."), says("Two."), *map(says, "ABCDEF"))
    options = {"allowed_tools": ["Bash"], **options}
    first = await bench.asks("first", **options)
    session = first.result.session_id
    await bench.asks("second", resume=session, **options)
    return session, first.of(AssistantMessage)


def sent(bench, number):
    """The conversation of a request, in words, without the context that a session begins with."""
    blocks = [it for message in bench.requests[number]["messages"] for it in said(message)]
    return [it.get("text") or it["type"] for it in blocks]


BEFORE = ["first", "Wait.", "tool_use", "tool_result", "One."]


async def test_sessions_are_listed_and_read(bench, listed):
    session, answers = await talked(bench)
    [info] = sdk.list_sessions(directory=listed)
    assert (info.session_id, info.first_prompt, info.cwd) == (session, "first", str(bench.cwd.resolve()))
    assert sdk.get_session_info(session, directory=listed).session_id == session
    rows = sdk.get_session_messages(session, directory=listed)
    assert list(words(rows)) == [*BEFORE, "second", "Two."]
    # What was streamed has the same names there.
    streamed = [it.uuid for it in answers]
    assert streamed == [it.uuid for it in rows if it.type == "assistant"][:3]


async def test_a_session_goes_on_behind_a_message(bench):
    session, answers = await talked(bench)
    await bench.asks("again", resume=session, resume_session_at=answers[-1].uuid)
    assert sent(bench, 3) == [*BEFORE, "again"]
    # In the middle of a turn, what its calls gave is kept with them.
    forked = await bench.asks("again", resume=session, resume_session_at=answers[0].uuid, fork_session=True)
    assert forked.result.session_id != session
    assert sent(bench, 4) == [*BEFORE[:4], "again"]


async def test_a_copy_of_the_sdk_can_be_resumed(bench, listed):
    session, answers = await talked(bench)
    rows = sdk.get_session_messages(session, directory=listed)
    last_of_first = rows[len(BEFORE) - 1].uuid
    copy = sdk.fork_session(session, directory=listed, up_to_message_id=last_of_first, title="A copy")
    seen = await bench.asks("again", resume=copy.session_id)
    assert seen.result.session_id == copy.session_id
    assert sent(bench, 3) == [*BEFORE, "again"]
    assert list(words(sdk.get_session_messages(copy.session_id, directory=listed))) == [*BEFORE, "again", "A"]
    titles = {it.session_id: it.custom_title for it in sdk.list_sessions(directory=listed)}
    assert titles == {session: None, copy.session_id: "A copy"}
    # It stays what it is, and the original too.
    await bench.asks("and again", resume=copy.session_id)
    assert sent(bench, 4) == [*BEFORE, "again", "A", "and again"]
    sdk.rename_session(session, "Mine", directory=listed)
    sdk.tag_session(session, "kept", directory=listed)
    info = sdk.get_session_info(session, directory=listed)
    assert (info.custom_title, info.tag) == ("Mine", "kept")
    sdk.delete_session(session, directory=listed)
    assert [it.session_id for it in sdk.list_sessions(directory=listed)] == [copy.session_id]


async def test_a_store_has_all_and_gives_it_back_elsewhere(bench, listed, monkeypatch):
    store = InMemorySessionStore()
    session, _ = await talked(bench, session_store=store)
    key = project_key_for_directory(bench.cwd)
    entries = await store.load({"project_key": key, "session_id": session})
    assert len(entries) == len(BEFORE) + 2
    infos = await sdk.list_sessions_from_store(store, directory=listed)
    assert [it.session_id for it in infos] == [session]
    rows = await sdk.get_session_messages_from_store(store, session, directory=listed)
    assert list(words(rows)) == [*BEFORE, "second", "Two."]
    # Another machine: neither the session nor its transcript is there.
    for path in [*(bench.cwd / ".ah").iterdir(), *(bench.home / ".claude").rglob("*.jsonl")]:
        path.unlink()
    seen = await bench.asks("third", resume=session, session_store=store)
    assert seen.result.session_id == session
    assert sent(bench, 3) == [*BEFORE, "second", "Two.", "third"]
    rows = await sdk.get_session_messages_from_store(store, session, directory=listed)
    assert list(words(rows)) == [*BEFORE, "second", "Two.", "third", "A"]
    assert Seen  # The bench is gone with its folder.
    assert not list(Path(bench.home).rglob("*.jsonl"))
