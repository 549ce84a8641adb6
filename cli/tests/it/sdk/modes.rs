//! Modes in which a host is asked, and those of subagents.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::binary::World;

fn asks(line: &Value) -> bool {
    line["request"]["subtype"] == "can_use_tool"
}

/// In mode `plan` the host decides about each call that changes something; without a host it is refused.
#[test]
fn a_host_decides_in_mode_plan() {
    let touch = |name: &str| uses("Bash", json!({"command": format!("touch {name}")}));
    for (options, asked) in [
        (&["--permission-prompt-tool", "stdio"][..], true),
        (&[], false),
    ] {
        let world = World::new();
        let server = Server::new([touch("yes"), touch("no"), says("Done.")]);
        let plan = [
            "--permission-mode",
            "plan",
            "--allowedTools",
            "Bash(touch:*)",
        ];
        let mut host = Host::new(&world, &server, &[&plan, options].concat());
        host.prompt("go");
        if asked {
            for answer in [
                json!({"behavior": "allow"}),
                json!({"behavior": "deny", "message": "not that"}),
            ] {
                let question = host.until(asks);
                assert_eq!(question["request"]["tool_name"], "Bash");
                host.answer(&question, &answer);
            }
        }
        host.result();
        assert_eq!(host.end().code, Some(0));
        assert_eq!(world.file("yes").exists(), asked);
        assert!(!world.file("no").exists());
    }
}
