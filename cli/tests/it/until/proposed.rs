//! `SetGoal`: the model proposes a goal to the user of a host of the Agent SDKs.

use ah_testkit::script::{says, uses};
use serde_json::{Value, json};

use super::aimed::MENDS;
use super::{CHECK, world};
use crate::support::binary::World;

/// Options of a host that names the tool.
const NAMED: [&str; 10] = [
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--tools",
    "Bash,SetGoal",
    "--allowed-tools",
    "Bash",
];
const ASKED: [&str; 2] = ["--permission-prompt-tool", "stdio"];

/// Plays a session in which the model proposes the check, and its user says this; returns what the host was told.
fn proposed(world: &World, options: &[&str], answer: Option<&Value>) -> Vec<Value> {
    let condition = json!({"condition": CHECK, "ask_user": false});
    let turns = [
        uses("SetGoal", condition.clone()),
        says("It is done."),
        uses("Bash", json!({"command": MENDS})),
        says("Now it is."),
    ];
    let model = world.scenario("s", turns);
    let words = NAMED.iter().chain(options).copied().chain(["-m", &model]);
    let mut running = world.as_typed(words).with_silent_stdin().start();
    let message = json!({"role": "user", "content": "mend add"});
    running.say(&json!({"type": "user", "message": message}).to_string());
    if let Some(answer) = answer {
        running.wait_for_output("can_use_tool");
        let asked = running.output_so_far();
        let asked = asked.lines().find(|line| line.contains("can_use_tool"));
        let asked: Value = serde_json::from_str(asked.unwrap()).unwrap();
        assert_eq!(asked["request"]["tool_name"], "SetGoal");
        assert_eq!(asked["request"]["input"], condition);
        let id = &asked["request_id"];
        let response = json!({"subtype": "success", "request_id": id, "response": answer});
        running.say(&json!({"type": "control_response", "response": response}).to_string());
    }
    running.say_no_more();
    let ended = running.wait();
    let lines = ended.stdout.lines().map(serde_json::from_str);
    lines.map(Result::unwrap).collect()
}

fn last(told: &[Value]) -> &Value {
    told.iter().find(|line| line["type"] == "result").unwrap()
}

#[test]
fn what_the_user_agrees_to_is_worked_for() {
    let allow = json!({"behavior": "allow", "updatedInput": {"condition": CHECK}});
    let told = proposed(&world(), &ASKED, Some(&allow));
    assert_eq!(last(&told)["verification"]["evidence"], "verified");
    let goals = told.iter().filter(|line| line["type"] == "active_goal");
    let goals: Vec<_> = goals.map(|line| &line["value"]["condition"]).collect();
    assert_eq!(goals, [&json!(CHECK), &Value::Null]);
}

/// The model does not choose what judges it: nothing is set unasked, or in the place of what is there.
#[test]
fn what_the_user_does_not_agree_to_is_not_set() {
    let deny = json!({"behavior": "deny", "message": "not now"});
    let other = json!({"Work until it passes?": "make test instead"});
    let other =
        json!({"behavior": "allow", "updatedInput": {"condition": CHECK, "answers": other}});
    for answer in [&deny, &other] {
        let told = proposed(&world(), &ASKED, Some(answer));
        assert_eq!(last(&told).get("verification"), None, "{told:?}");
    }
    // Where nobody can be asked, there is no such tool.
    let told = proposed(&world(), &[], None);
    assert_eq!(last(&told).get("verification"), None, "{told:?}");
    let allow = json!({"behavior": "allow", "updatedInput": {"condition": CHECK}});
    let options = [&ASKED[..], &["--until", "false", "--max-checks", "1"]].concat();
    let told = proposed(&world(), &options, Some(&allow));
    assert_eq!(last(&told)["verification"]["command"], "false");
    let told = format!("{told:?}");
    assert!(told.contains("has to pass `false` already"), "{told}");
}
