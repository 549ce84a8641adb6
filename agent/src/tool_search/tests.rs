use super::*;

fn tool(name: &str, description: &str, argument: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        ..own_spec(
            "",
            description.to_owned(),
            &json!({argument: {"type": "string"}}),
            &[],
        )
    }
}

fn tools() -> Vec<ToolSpec> {
    vec![
        tool(
            "mcp__hub__create_issue",
            "Opens an issue. It is public.",
            "title",
        ),
        tool("mcp__hub__list_issues", "Lists issues", "label"),
        tool(
            "mcp__mail__send",
            "Sends a message\nto an address",
            "address",
        ),
    ]
}

#[test]
fn tools_are_found_by_name_and_by_words() {
    let tools = tools();
    for (query, expected) in [
        ("mcp__mail__send", "send"),
        ("SEND", "send"),
        ("select:mcp__hub__list_issues,send", "list_issues send"),
        ("create_issue list_issues", "create_issue list_issues"),
        ("open an issue", "create_issue list_issues send"),
        ("label", "list_issues"),
        (
            "an e-mail with this address",
            "send create_issue list_issues",
        ),
        ("weather", ""),
        ("", ""),
    ] {
        let found = find(&tools, query);
        let names: Vec<_> = found.iter().map(|spec| own_name(&spec.name)).collect();
        assert_eq!(names.join(" "), expected, "{query}");
    }
}

#[test]
fn the_list_shows_as_much_as_there_is_place_for() {
    let tools = tools();
    insta::assert_snapshot!(list(&tools, 400), @"

    mcp__hub__*:
    create_issue: Opens an issue
    list_issues: Lists issues
    mcp__mail__*:
    send: Sends a message to an address
    ");
    insta::assert_snapshot!(list(&tools, 80), @"

    mcp__hub__*: create_issue list_issues
    mcp__mail__*: send
    ");
    insta::assert_snapshot!(list(&tools, 56), @"

    mcp__hub__*: create_issue and 1 more
    mcp__mail__*: send
    ");
}

#[test]
fn the_list_keeps_to_its_limit() {
    let long = "word ".repeat(100);
    for count in [1, 2, 30, 100, 500] {
        for name in ["a", "a_name_of_thirty_characters_it_is"] {
            let tools: Vec<_> = (0..count)
                .map(|number| tool(&format!("mcp__s{}__{name}{number}", number % 4), &long, "x"))
                .collect();
            let list = list(&tools, LIST_BYTES);
            assert!(list.len() <= LIST_BYTES, "{count} {name}: {}", list.len());
            assert!(list.contains(name), "{count}: {list}");
        }
    }
}

#[test]
fn many_tools_are_searched_and_few_are_sent() {
    let few = tools();
    let many: Vec<_> = (0..31)
        .map(|n| tool(&format!("mcp__s__{n}"), "", "x"))
        .collect();
    let large = [tool("mcp__s__a", &"x".repeat(20_000), "x")];
    for (mode, tools, expected) in [
        (ToolSearchMode::Off, &many[..], false),
        (ToolSearchMode::Auto, &few, false),
        (ToolSearchMode::Auto, &many, true),
        (ToolSearchMode::Auto, &large, true),
        (ToolSearchMode::On, &few, true),
        (ToolSearchMode::On, &[], false),
    ] {
        let mut search = ToolSearch::new(mode, Interface::Native);
        assert_eq!(
            search.takes(tools.iter()),
            expected,
            "{mode:?} {}",
            tools.len()
        );
        // What was begun goes on, so that no tool is sent that was not before.
        assert_eq!(search.takes([].iter()), expected, "{mode:?}");
    }
}

#[test]
fn a_call_stands_for_that_of_the_named_tool() {
    let tools = ToolSearch::new(ToolSearchMode::On, Interface::Native).tools(tools().into());
    let call = &tools[1];
    for (input, expected) in [
        (
            json!({"name": "a", "input": {"x": 1}}),
            Some(json!({"x": 1})),
        ),
        (
            json!({"name": "a", "input": "{\"x\": 1}"}),
            Some(json!({"x": 1})),
        ),
        (json!({"name": "a", "input": "x"}), Some(json!("x"))),
        (json!({"name": "a"}), Some(json!({}))),
        (json!({"input": {}}), None),
    ] {
        let stands_for = call.extras().stands_for.unwrap();
        let stands_for = stands_for(&input.clone().into());
        let expected = expected.map(|expected| ("a".to_owned(), expected.into()));
        assert_eq!(stands_for, expected, "{input}");
    }
}
