"""Who decides whether a tool runs: a callback, a rule, a mode."""

from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, PermissionUpdate
from claude_agent_sdk.types import PermissionRuleValue
from conftest import Seen, bash, says, uses


class Judge:
    """A callback that always gives the same answer, and remembers what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def __call__(self, name, input, context):
        self.asked.append((name, input))
        return self.answer


async def run(bench, judge, prompts=("Go.",), **options):
    """Callbacks need a client that stays."""
    async with bench.client(can_use_tool=judge, **options) as client:
        for prompt in prompts:
            await client.query(prompt)
            seen = await Seen().take(client.receive_response())
    return seen


async def test_allowed(bench):
    judge = Judge(PermissionResultAllow())
    bench.plays(uses(bash("one", "touch made")), says("Made."))
    seen = await run(bench, judge)
    assert [(name, input["command"]) for name, input in judge.asked] == [("Bash", "touch made")]
    assert (bench.cwd / "made").exists()
    assert not seen.result.permission_denials


async def test_a_goal_that_the_model_proposes(bench):
    judge = Judge(PermissionResultAllow())
    goal = {"condition": "test -e made"}
    bench.plays(
        uses(("one", "SetGoal", goal)),
        says("Done."),
        uses(bash("two", "touch made")),
        says("Now."),
    )
    seen = await run(bench, judge, tools=["Bash", "SetGoal"])
    assert judge.asked[0] == ("SetGoal", goal)
    assert (bench.cwd / "made").exists()
    assert "did not pass" in bench.sent(2)
    assert seen.result.result == "Now."


async def test_denied(bench):
    judge = Judge(PermissionResultDeny(message="not on a Sunday"))
    bench.plays(uses(bash("one", "touch made")), says("A pity."))
    seen = await run(bench, judge)
    assert not (bench.cwd / "made").exists()
    assert seen.tool_result("one").is_error
    assert "not on a Sunday" in bench.sent(1)
    denials = seen.result.permission_denials
    assert [(it["tool_name"], it["tool_use_id"]) for it in denials] == [("Bash", "one")]
    assert seen.result.result == "A pity."


async def test_what_runs_is_the_updated_input(bench):
    judge = Judge(PermissionResultAllow(updated_input={"command": "touch other"}))
    bench.plays(uses(bash("one", "touch made")), says("Made."))
    await run(bench, judge)
    assert bench.made == ["other"]


async def test_a_denial_can_end_the_run(bench):
    judge = Judge(PermissionResultDeny(message="stop", interrupt=True))
    bench.plays(uses(bash("one", "touch made")), says("never"))
    seen = await run(bench, judge)
    assert seen.result.subtype == "error_during_execution"
    assert len(bench.requests) == 1
    assert not (bench.cwd / "made").exists()


async def test_a_saved_rule_stops_the_question(bench):
    rule = PermissionUpdate(
        type="addRules",
        rules=[PermissionRuleValue(tool_name="Bash", rule_content="touch:*")],
        behavior="allow",
        destination="session",
    )
    judge = Judge(PermissionResultAllow(updated_permissions=[rule]))
    bench.plays(
        uses(bash("one", "touch a")),
        says("a"),
        uses(bash("two", "touch b")),
        says("b"),
    )
    await run(bench, judge, prompts=["First.", "Second."])
    assert len(judge.asked) == 1
    assert (bench.cwd / "a").exists() and (bench.cwd / "b").exists()


async def test_an_exception_denies(bench):
    async def judge(name, input, context):
        raise RuntimeError("the judge is ill")

    bench.plays(uses(bash("one", "touch made")), says("Later, then."))
    seen = await run(bench, judge)
    assert seen.tool_result("one").is_error
    assert not (bench.cwd / "made").exists()
    assert seen.result.result == "Later, then."


async def test_rules_decide_without_a_question(bench):
    judge = Judge(PermissionResultDeny(message="asked"))
    bench.plays(
        uses(bash("one", "touch a"), bash("two", "touch b && rm a")),
        says("Done."),
    )
    seen = await run(
        bench, judge, allowed_tools=["Bash(touch:*)"], disallowed_tools=["Bash(rm:*)"]
    )
    assert judge.asked == []
    assert bench.made == ["a"]
    assert seen.tool_result("two").is_error


async def test_nobody_to_ask(bench):
    bench.plays(uses(bash("one", "touch made")), says("A pity."))
    seen = await bench.asks("Go.")
    assert not (bench.cwd / "made").exists()
    assert len(seen.result.permission_denials) == 1


async def test_a_plan_changes_nothing(bench):
    write = ("w", "Write", {"file_path": str(bench.cwd / "a.txt"), "content": "a"})
    bench.plays(uses(write), says("A plan."))
    seen = await bench.asks("Plan.", permission_mode="plan")
    assert not bench.made
    assert seen.tool_result("w").is_error


async def test_bypassed_but_for_denials(bench):
    bench.plays(uses(bash("one", "touch a"), bash("two", "touch b")), says("Done."))
    await bench.asks(
        "Go.", permission_mode="bypassPermissions", disallowed_tools=["Bash(touch b)"]
    )
    assert bench.made == ["a"]
