use proptest::prelude::*;

use super::*;

fn fill(template: &str, arguments: &str) -> String {
    fill_from(Numbering::FromOne, template, arguments)
}

fn fill_from(numbering: Numbering, template: &str, arguments: &str) -> String {
    let show = |piece| match piece {
        Piece::Text(text) => text,
        Piece::Shell { line, filled } if line == filled => format!("<shell {line}>"),
        Piece::Shell { line, filled } => format!("<shell {line}, that is {filled}>"),
        Piece::File { path, is_typed } => {
            let by = if is_typed { "typed file" } else { "file" };
            format!("<{by} {path}>")
        }
    };
    pieces(template, arguments, numbering)
        .into_iter()
        .map(show)
        .collect()
}

/// As the other agent counts: the first word is that of number 0.
#[test]
fn words_can_be_counted_from_zero() {
    for (template, arguments, expected) in [
        ("$0 and $1.", "a 'b c'", "a and b c."),
        ("$0 $2 $12 $0x", "a b", "a $2 $12 $0x"),
        (
            "$ARGUMENTS[1]$ARGUMENTS[7]|$ARGUMENTS[x]",
            "a b",
            "b|a b[x]",
        ),
        (
            "costs \\$1, \\$ARGUMENTS, \\n",
            "a b",
            "costs $1, $ARGUMENTS, \\n\n\na b",
        ),
        ("$@", "a b", "$@\n\na b"),
    ] {
        let filled = fill_from(Numbering::FromZero, template, arguments);
        assert_eq!(filled, expected, "{template} {arguments}");
    }
    assert_eq!(fill("$1 $ARGUMENTS[1]", "a b"), "a b");
    // In a command line, the shell has the words.
    let line = "!`see \"$ARGUMENTS[0]\" $ARGUMENTS[1] $ARGUMENTS`";
    let zero = fill_from(Numbering::FromZero, line, "a b");
    let read = "that is see \"a\" b a b>";
    let shell = |line: &str| format!("<shell {line}, {read}");
    assert_eq!(zero, shell("see \"${0}\" ${1} $ARGUMENTS"));
    assert_eq!(fill(line, "a b"), shell("see \"${1}\" ${2} $ARGUMENTS"));
}

#[test]
fn arguments_replace_their_placeholders() {
    for (template, arguments, expected) in [
        ("$1 and $2.", "a 'b c'", "a and b c."),
        ("$1 $3", "a b", "a $3"),
        ("$12 $1", "a", "a2 a"),
        ("$10", "1 2 3 4 5 6 7 8 9 ten", "ten"),
        ("$ARGUMENTS|$@", "a  'b c'", "a  'b c'|a b c"),
        ("${@:2} ${@:2:1} ${@:1:2} ${@:9}", "a b c", "b c b a b "),
        ("$ARGUMENTS_OF ${@:x} $0 $", "", "$ARGUMENTS_OF ${@:x} $0 $"),
        // Inserted text is never taken for a placeholder.
        ("$1 $2", "'$2' '!`rm x` @f'", "$2 !`rm x` @f"),
        // No typed text is lost.
        ("Do it.", "so and so", "Do it.\n\nso and so"),
        ("Do it $9.", "so", "Do it $9.\n\nso"),
        ("Do it.", " ", "Do it."),
        ("", "", ""),
    ] {
        assert_eq!(
            fill(template, arguments),
            expected,
            "{template} {arguments}"
        );
    }
}

#[test]
fn shell_commands_and_files_are_recognised() {
    for (template, arguments, expected) in [
        ("On !`git branch` now", "", "On <shell git branch> now"),
        (
            "!`git log $1`",
            "'; rm -rf /'",
            "<shell git log $1, that is git log ; rm -rf />",
        ),
        ("!`open\n`", "", "!`open\n`"),
        ("!``", "", "!``"),
        ("Wow! `code`", "", "Wow! `code`"),
        ("See @docs/a.md.", "", "See <file docs/a.md>."),
        ("(@a.md) @b", "", "(<file a.md>) <file b>"),
        (
            "@$1 and @src/$2.rs",
            "x.md lib",
            "<typed file x.md> and <file src/lib.rs>",
        ),
        ("me@example.org @ x", "", "me@example.org @ x"),
    ] {
        assert_eq!(fill(template, arguments), expected, "{template}");
    }
}

#[test]
fn front_matter_describes_a_command() {
    let parse = |text: &str, path: &str| {
        SlashCommand::parse(
            text,
            Path::new(path),
            Path::new("/c").join(path).as_path(),
            Layer::User,
        )
    };
    let text = "---\ndescription: Fixes\nargument-hint: [issue]\nallowed-tools: Bash(git add:*), Read\nmodel: haiku\n---\n\nFix $1.\n";
    let command = parse(text, "git/fix.md").unwrap();
    insta::assert_debug_snapshot!(command, @r#"
        SlashCommand {
            name: "git:fix",
            description: "Fixes",
            argument_hint: Some(
                "[issue]",
            ),
            allowed_tools: [
                "Bash(git add:*)",
                "Read",
            ],
            model: Some(
                "haiku",
            ),
            body: "Fix $1.",
            location: "/c/git/fix.md",
            layer: User,
        }
        "#);
    let plain = parse("# Fix it\n\nNow.", "fix.md").unwrap();
    assert_eq!(
        (plain.name.as_str(), plain.description.as_str()),
        ("fix", "Fix it")
    );
    let error = parse("x", "a.b.md").unwrap_err().to_string();
    assert_eq!(
        error,
        "1: invalid command name `a.b`: only letters, digits, `-` and `_` are allowed"
    );
}

#[test]
fn a_folder_may_be_left_out_if_unambiguous() {
    let mut commands = SlashCommands::default();
    for path in [
        "commit.md",
        "git/commit.md",
        "git/log.md",
        "a/same.md",
        "b/same.md",
    ] {
        let command = SlashCommand::parse(path, Path::new(path), Path::new(path), Layer::User);
        commands.add(command.unwrap());
    }
    let named = |name| commands.get(name).map(|command| command.name.as_str());
    for (name, expected) in [
        ("commit", Some("commit")),
        ("git:commit", Some("git:commit")),
        ("log", Some("git:log")),
        ("same", None),
        ("it", None),
    ] {
        assert_eq!(named(name), expected, "{name}");
    }
}

#[test]
fn a_call_is_distinguished_from_a_path() {
    for (prompt, expected) in [
        ("/fix it now", Some(("fix", "it now"))),
        (" /git:fix\nit", Some(("git:fix", "it"))),
        ("/skill:plan", Some(("skill:plan", ""))),
        ("/etc/passwd is what?", None),
        ("/", None),
        ("/ fix", None),
        ("/a:", None),
        ("fix /it", None),
    ] {
        assert_eq!(call(prompt), expected, "{prompt}");
    }
}

proptest! {
    #[test]
    fn inserted_text_never_becomes_a_command(arguments in ".{0,40}") {
        let pieces = pieces("a $1 $ARGUMENTS ${@:2} b", &arguments, Numbering::FromOne);
        prop_assert!(pieces.iter().all(|piece| matches!(piece, Piece::Text(_))));
    }

    #[test]
    fn any_template_can_be_parsed(template in "[$@!`{}: a1\n]{0,40}", arguments in ".{0,10}") {
        pieces(&template, &arguments, Numbering::FromOne);
        pieces(&template, &arguments, Numbering::FromZero);
    }
}
