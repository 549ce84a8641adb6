use ah_conversation::{Content, Context, Interface, Tool, ToolUse};
use futures_util::FutureExt;
use serde_json::json;

use super::*;

fn parse(text: &str, location: &str) -> Result<Skill, FrontMatterError> {
    Skill::parse(text, Path::new(location), Layer::Project)
}

#[test]
fn a_skill_needs_a_name_and_a_description() {
    let long = format!("---\nname: {}\ndescription: d\n---\n", "a".repeat(65));
    for (text, location, expected) in [
        (
            "---\nname: a-1\ndescription: For a.\n---\n\nBody.\n",
            "/s/x.md",
            "a-1: For a. (/s) Body.",
        ),
        (
            "---\ndescription: d\n---\n",
            "/s/file-name.md",
            "file-name: d (/s) ",
        ),
        (
            "---\ndescription: d\n---\n",
            "/s/folder/SKILL.md",
            "folder: d (/s/folder) ",
        ),
        (
            "---\nname: \"quoted\"\ndescription: 'a ''b'''\n---\n",
            "/s/x.md",
            "quoted: a 'b' (/s) ",
        ),
        (
            "---\ndescription: d\n---\n",
            "/s/Upper.md",
            "error: 1: invalid skill name `Upper`: at most 64 lower-case letters, digits and `-` are allowed",
        ),
        (
            "---\nname: x\n---\n",
            "/s/x.md",
            "error: 1: a skill needs a `description` in its front matter",
        ),
        (
            "no front matter",
            "/s/x.md",
            "error: 1: a skill needs a `description` in its front matter",
        ),
        (
            "---\nname: x\n",
            "/s/x.md",
            "error: 1: the front matter is not closed: missing second `---`",
        ),
        (
            &long,
            "/s/x.md",
            "error: 1: invalid skill name `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`: at most 64 lower-case letters, digits and `-` are allowed",
        ),
    ] {
        let shown = match parse(text, location) {
            Ok(skill) => format!(
                "{}: {} ({}) {}",
                skill.name,
                skill.description,
                skill.base().display(),
                skill.body
            ),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{text}");
    }
    let long = format!("---\ndescription: {}\n---\n", "ü".repeat(2_000));
    assert_eq!(
        parse(&long, "/s/x.md").unwrap().description.chars().count(),
        1_024
    );
}

#[test]
fn a_skill_comes_before_its_arguments() {
    let skill = parse("---\ndescription: d\n---\nDo it.\n", "/s/plan/SKILL.md").unwrap();
    insta::assert_snapshot!(skill.prompt(" the <first> step "), @r#"
    <skill name="plan" location="/s/plan/SKILL.md">
    Paths in this skill are relative to /s/plan.

    Do it.
    </skill>

    the <first> step
    "#);
    assert!(skill.prompt(" ").ends_with("</skill>"));
}

fn skills() -> Skills {
    let mut skills = Skills::default();
    for (name, front) in [
        ("zeta", "description: Last"),
        ("alpha", "description: \"Of\\n- beta: more\""),
        ("hidden", "description: h\ndisable-model-invocation: true"),
    ] {
        let text = format!("---\n{front}\n---\nBody of {name}.");
        skills.add(parse(&text, &format!("/s/{name}.md")).unwrap());
    }
    skills
}

#[test]
fn the_prompt_lists_them_by_name_and_description() {
    insta::assert_snapshot!(skills().layer(Some("skill")), @"
        # Skills

        Before a task that fits one, load it with `skill`.

        - alpha: Of - beta: more
        - zeta: Last
        ");
    assert_eq!(Skills::default().layer(Some("skill")), "");
}

#[test]
fn without_its_tool_the_model_is_told_where_the_files_are() {
    insta::assert_snapshot!(skills().layer(None), @"
        # Skills

        Before a task that fits one, read its file; paths in it are relative to its folder.

        - alpha: Of - beta: more (/s/alpha.md)
        - zeta: Last (/s/zeta.md)
        ");
}

#[test]
fn the_tool_returns_a_skill_or_lists_the_available_ones() {
    let tool = SkillTool::new(Arc::new(skills()), Interface::Native).unwrap();
    let call = |name: &str| {
        let call = ToolUse {
            id: "call".into(),
            name: "skill".to_owned(),
            input: json!({ "name": name }).into(),
        };
        let context = Context::new(PathBuf::new());
        let output = tool.run(&call, &context).now_or_never().unwrap();
        match output.content {
            Content::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert!(call("zeta").contains("Body of zeta."));
    assert!(call("/zeta").contains("Body of zeta."));
    for name in ["hidden", "none"] {
        assert_eq!(
            call(name),
            format!("there is no skill `{name}`; the skills are alpha, zeta")
        );
    }
    assert!(SkillTool::new(Arc::default(), Interface::AgentSdk).is_none());
}
