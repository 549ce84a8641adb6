"""The page `docs/agent-sdk.md` has an entry for everything that the SDKs declare, and for nothing else."""

import re
from pathlib import Path

import entries
import pytest

PAGE = (Path(__file__).parents[3] / "docs/agent-sdk.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+)\n((?:.*\n)*?)(?=^## |\Z)", PAGE, flags=re.M))
DECLARED = entries.declared()
TABLES = sorted(DECLARED)


def rows(text):
    """The rows of the tables in a text, as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [it for it in cells if "---" not in it[0] and it[0] not in ("TypeScript", "event")]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("section", TABLES)
@pytest.mark.parametrize("language", ["TypeScript", "Python"])
def test_every_entry_of_the_types_has_its_row(section, language):
    at = ["TypeScript", "Python"].index(language)
    shown = {name for row in rows(SECTIONS[section]) for name in names(row[at])}
    declared = set(DECLARED[section][at])
    assert len(declared) > 5, "the types were read"
    assert shown == declared, f"missing: {declared - shown}, gone: {shown - declared}"


@pytest.mark.parametrize("section", TABLES)
def test_what_does_not_work_says_why(section):
    for script, python, state, why in rows(SECTIONS[section]):
        assert state in ("works", "differs", "not"), script + python
        assert why or state == "works", script + python


def test_every_tool_has_its_row():
    table = [row for row in rows(SECTIONS["Tools"]) if row[0] != "name"]
    shown = [name for row in table for name in names(row[0])]
    assert sorted(shown) == sorted(entries.tools())
    for tool, state, why in table:
        assert state in ("works", "differs", "not") and why, tool


def test_every_event_has_its_row_and_every_field_its_place():
    events, told, said, told_at, said_at = entries.hooks()
    before = SECTIONS["Hooks"].split("\n|")[0]
    unknown = (told | said) - set(names(before))
    assert not unknown, unknown
    asked, unasked = {}, set()
    for event, state, *cells in rows(SECTIONS["Hooks"]):
        if state == "works":
            asked[names(event)[0]] = [set(names(cell)) for cell in cells]
        else:
            assert state == "not" and cells[0], event
            unasked |= set(names(event))
    assert set(asked) | unasked == set(events)
    for event, (is_told, is_not_told, may_say, unheard) in asked.items():
        assert is_told | is_not_told == told_at.get(event, set()), event
        heard = may_say - {"defer"}
        assert heard | unheard == said_at.get(event, set()), event
