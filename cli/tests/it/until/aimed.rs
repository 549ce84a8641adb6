//! `/goal` as a prompt of a command line, and of hosts of the Agent SDKs.

use ah_testkit::script::says;
use serde_json::{Value, json};

use super::{CHECK, JSON, bash, world};
use crate::support::binary::World;

pub const MENDS: &str = "sed -i 's/-/+/' add.sh";

/// Returns the lines of a stream.
fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.map(Result::unwrap).collect()
}

#[test]
fn a_prompt_can_be_a_goal() {
    for options in [&[][..], &JSON, &JSON[..2]] {
        let world = world();
        let model = world.scenario("s", [bash(MENDS), says("Done.")]);
        let prompt = format!("/goal mend add --until {CHECK}");
        let words = options.iter().copied().chain(["-n", "-m", &model]);
        let ended = world.as_typed(words.chain([&*prompt])).run().expect(0);
        let all = format!("{}{}", ended.stdout, ended.stderr);
        let told = match options.contains(&"json") {
            true => r#""evidence":"verified""#,
            false => "verified: `sh tests/add.sh` passed",
        };
        assert!(all.contains(told), "{options:?}: {all}");
    }
    // Without a command it says what the project has, and asks no model.
    let world = world();
    world.write("Makefile", "test:\n\tsh tests/add.sh\n");
    let model = world.scenario("s", [says("?")]);
    let ended = world.as_typed(["-n", "-m", &model, "/goal mend add"]).run();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let told = "this project has `make test` (Makefile)";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn a_host_sets_a_goal_asks_for_it_and_ends_it() {
    let world = world();
    let turns = [
        says("It is done."),
        bash(MENDS),
        says("Now it is."),
        says("Hello."),
    ];
    let model = world.scenario("s", turns);
    let prompts = [
        "/goal",
        &format!("/goal mend add --until {CHECK}"),
        "/goal",
        "/goal clear",
        "hello",
    ];
    let input: String = { prompts.iter() }
        .map(|prompt| {
            let message = json!({"role": "user", "content": prompt});
            json!({"type": "user", "message": message}).to_string() + "\n"
        })
        .collect();
    let stream = [
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
    ];
    let words = JSON[..2].iter().copied().chain(stream);
    let ended = { world.as_typed(words.chain(["--verbose", "-m", &model])) }
        .stdin(input)
        .run()
        .expect(0);
    let lines = lines(&ended.stdout);
    let results: Vec<_> = { lines.iter() }
        .filter(|line| line["type"] == "result")
        .collect();
    let said: Vec<_> = { results.iter() }
        .map(|result| result["result"].as_str().unwrap_or_default())
        .collect();
    assert!(said[0].contains("There is no goal"), "{said:?}");
    assert_eq!(results[1]["verification"]["evidence"], "verified");
    assert_eq!(
        said[2..4],
        [
            "Runs continue until `sh tests/add.sh` passes",
            "Runs end when the model ends its turn",
        ]
    );
    assert_eq!(said[4], "Hello.");
    assert_eq!(results[4].get("verification"), None);
    // Not met, met, ended.
    let goals = lines.iter().filter(|line| line["type"] == "active_goal");
    let goals: Vec<_> = goals.map(|line| &line["value"]["condition"]).collect();
    assert_eq!(goals, [&json!(CHECK), &Value::Null, &Value::Null]);
    let init = lines.iter().find(|line| line["subtype"] == "init").unwrap();
    let commands = init["slash_commands"].as_array().unwrap();
    assert!(commands.contains(&json!("goal")), "{init}");
}

/// A command of the user with this name is theirs.
#[test]
fn a_command_of_the_user_takes_precedence() {
    let world = World::new();
    world.write(".ah/commands/goal.md", "Say what the goal is: $ARGUMENTS");
    let model = world.scenario("s", [says("It is clear.")]);
    for options in [&JSON[..2], &JSON] {
        let words = options.iter().copied().chain(["-n", "-m", &model]);
        let ended = world
            .as_typed(words.chain(["/goal win --until false"]))
            .run();
        assert!(ended.stdout.contains("It is clear."), "{}", ended.stderr);
        assert!(!ended.stderr.contains("claimed"), "{}", ended.stderr);
    }
}

/// Returns the results of a host's prompts.
pub fn results(world: &World, options: &[&str], prompts: &[Value]) -> Vec<Value> {
    let input: String = { prompts.iter() }
        .map(|prompt| {
            let message = json!({"role": "user", "content": prompt});
            json!({"type": "user", "message": message}).to_string() + "\n"
        })
        .collect();
    let stream = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
    ];
    let words = stream.iter().copied().chain(options.iter().copied());
    let ended = world.as_typed(words).stdin(input).run();
    let lines = lines(&ended.stdout);
    let results = lines.into_iter().filter(|line| line["type"] == "result");
    results.collect()
}

/// A prompt can be a program's or a model's: what the operator checks stays.
#[test]
fn a_prompt_neither_replaces_nor_ends_the_check_of_the_operator() {
    let world = world();
    let model = world.scenario("s", [says("Done.")]);
    let options = [&JSON[..2], &["-m", &model, "--until", "false"]].concat();
    let prompts = [json!("/goal --until touch was-run"), json!("/goal off")];
    for result in results(&world, &options, &prompts) {
        let told = result.to_string();
        assert!(
            told.contains("the check `false` is set (command line)"),
            "{told}"
        );
    }
    assert!(!world.file("was-run").exists());
}

/// What the rules keep from the model does not run as a check either.
#[test]
fn a_check_that_a_prompt_names_goes_through_the_rules() {
    let world = world();
    let model = world.scenario("s", [says("Done.")]);
    for rule in [
        ["--disallowed-tools", "Bash"],
        ["--permission-mode", "plan"],
    ] {
        let options = [&["-m", &model], &rule[..]].concat();
        let results = results(&world, &options, &[json!("/goal x --until touch was-run")]);
        let told = results[0].to_string();
        assert!(
            told.contains("the check `touch was-run` may not run"),
            "{told}"
        );
    }
    assert!(!world.file("was-run").exists());
}

/// What is piped in is not typed: it can be a stranger's.
#[test]
fn a_goal_is_not_read_from_a_pipe() {
    let world = world();
    let model = world.scenario("s", [says("Done.")]);
    for options in [&[][..], &JSON] {
        let words = options.iter().copied().chain(["-n", "-m", &model]);
        let ended = { world.as_typed(words) }
            .stdin("/goal mend it --until touch was-run")
            .run();
        assert_ne!(ended.code, Some(0), "{}", ended.stderr);
        let told = "`/goal` is not read from a pipe";
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
    assert!(!world.file("was-run").exists());
}

/// It is the last text, as hosts send it.
#[test]
fn a_goal_comes_with_other_blocks() {
    let world = world();
    let model = world.scenario("s", [bash(MENDS), says("Done.")]);
    let options = [&JSON[..2], &["-m", &model]].concat();
    let goal = format!("/goal mend add --until {CHECK}");
    let blocks = json!([{"type": "text", "text": "context"}, {"type": "text", "text": goal}]);
    let results = results(&world, &options, &[blocks]);
    assert_eq!(results[0]["verification"]["evidence"], "verified");
}
