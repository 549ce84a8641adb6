//! What a model is told besides a host's own system prompt.

use ah_testkit::script::says;
use ah_testkit::server::Server;

use super::host::Host;
use crate::support::binary::World;

/// The blocks of the system prompt of the only request, and those of its first message.
fn told(world: &World, options: &[&str]) -> Vec<String> {
    let server = Server::new([says("Yes.")]);
    let mut host = Host::new(world, &server, options);
    host.prompt("go");
    host.result();
    host.end();
    let body = server.requests()[0].body.clone();
    let blocks = [&body["system"], &body["messages"][0]["content"]];
    let blocks = blocks.into_iter().flat_map(|it| it.as_array().unwrap());
    blocks
        .map(|block| block["text"].as_str().unwrap().to_owned())
        .collect()
}

/// A host's prompt replaces what is built in; instructions, skills, the style and the place follow, as far as the sources
/// of settings go.
#[test]
fn a_prompt_of_the_host_keeps_the_projects_instructions() {
    let world = World::new();
    world.write("CLAUDE.md", "Use tabs.");
    world.write(
        ".claude/skills/letters/SKILL.md",
        "---\nname: letters\ndescription: Writes letters.\n---\nText.",
    );
    world.write(
        ".claude/output-styles/pirate.md",
        "---\nname: pirate\ndescription: Aye.\n---\nTalk like a pirate.",
    );
    let style = ["--settings", r#"{"outputStyle": "pirate"}"#];
    let cwd = format!("Working directory: {}", world.project().display());
    let of_project = ["Use tabs.", "letters: Writes letters.", "like a pirate"];
    for (prompt, own) in [
        (
            "",
            "You are an agent that works with the tools it is given.",
        ),
        ("You are Ada.\n", "You are Ada.\n"),
    ] {
        for (sources, counts) in [
            ("--setting-sources=project", true),
            ("--setting-sources=", false),
        ] {
            let options = [&["--system-prompt", prompt, sources][..], &style].concat();
            let blocks = told(&world, &options);
            assert_eq!(blocks[0], own);
            let rest = blocks[1..].join("\n");
            for text in of_project {
                assert_eq!(rest.contains(text), counts, "{sources} {text}: {rest}");
            }
            assert!(rest.contains("Date: ") && rest.contains(&cwd), "{rest}");
        }
    }
    let without_tools = told(&world, &["--system-prompt", "Hm.", "--tools", ""]).join("\n");
    assert!(!without_tools.contains("# Skills"), "{without_tools}");
}
