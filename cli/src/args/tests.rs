use ah_terminal::exit::of_error;

use super::*;
use ah_conversation::Interface;

fn parse_words(words: &[&str]) -> Result<Invocation, Error> {
    let names = KnownNames {
        is_tool: &|word| ["bash", "read", "grep"].contains(&word.to_lowercase().as_str()),
        is_session: &|word| word == "refactoring",
    };
    parse(words.iter().map(OsString::from).collect(), &names)
}

fn parsed(words: &[&str]) -> Invocation {
    parse_words(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

#[test]
fn options_stand_anywhere_around_a_prompt() {
    for words in [
        &["-m", "opus", "fix", "it"] as &[_],
        &["fix", "it", "-m", "opus"],
        &["fix", "-mopus", "it"],
        &["--model=opus", "--", "fix", "it"],
        &["fix it", "--model", "opus"],
    ] {
        let invocation = parsed(words);
        assert_eq!(
            invocation.options.model.model.as_deref(),
            Some("opus"),
            "{words:?}"
        );
        let prompt = TypedPrompt {
            fork_at: None,
            text: Some("fix it".to_owned()),
        };
        assert_eq!(invocation.action, Action::Run(prompt), "{words:?}");
    }
}

#[test]
fn only_the_first_word_may_be_a_subcommand() {
    for (words, expected) in [
        (&["scan"] as &[_], "scan"),
        (&["-S", "01", "scan"], "scan"),
        (&["scan", "-S", "01", "--json"], "scan"),
        (&["--", "scan"], "prompt scan"),
        (&["please", "scan"], "prompt please scan"),
        (&["-n", "please", "show", "me"], "prompt please show me"),
        (&["scan it all"], "prompt scan it all"),
        (&["@3", "show", "me"], "@3 show me"),
        (&["@3"], "@3 stdin"),
        (&["@file.rs", "explain"], "prompt @file.rs explain"),
        (&[], "prompt stdin"),
        (&["-"], "prompt -"),
    ] {
        let shown = match parsed(words).action {
            Action::Command(Subcommands::Scan(_)) => "scan".to_owned(),
            Action::Run(prompt) => {
                let fork = prompt
                    .fork_at
                    .map_or("prompt".to_owned(), |at| format!("@{at}"));
                format!(
                    "{fork} {}",
                    prompt.text.unwrap_or_else(|| "stdin".to_owned())
                )
            }
            other => format!("{other:?}"),
        };
        assert_eq!(shown, expected, "{words:?}");
    }
}

/// Programs pass on what people write to them: it is never one of our subcommands, wherever the options stand.
#[test]
fn a_word_of_another_program_is_a_prompt() {
    let print = [
        &["-p"][..],
        &["--print"],
        &["-cp"],
        &["-p", "--output-format", "json"],
    ];
    let formats = [
        &["--output-format", "json"][..],
        &["--outputFormat=json"],
        &["--output-format", "stream-json", "--verbose"],
        &["--input-format", "text"],
    ];
    let others = ["plugins", "worktree", "update", "setup-token", "help", "@3"];
    for word in grammar::SUBCOMMANDS.iter().copied().chain(others) {
        let is_shared = grammar::SHARED_SUBCOMMANDS.contains(&word);
        for options in print.iter().chain(formats.iter().filter(|_| !is_shared)) {
            let before = [options, &[word][..]].concat();
            let between = [&["-m", "opus"], *options, &[word, "--verbose"]].concat();
            let behind = [&[word], *options].concat();
            for line in [before, between, behind] {
                let Invocation {
                    action, interface, ..
                } = parsed(&line);
                let prompt = TypedPrompt {
                    fork_at: None,
                    text: Some(word.to_owned()),
                };
                assert_eq!(action, Action::Run(prompt), "{line:?}");
                assert_eq!(interface, Interface::AgentSdk, "{line:?}");
            }
        }
    }
    let words = ["-p", "worktree", "fix", "it"];
    assert!(
        matches!(parsed(&words).action, Action::Run(prompt) if prompt.text.as_deref() == Some("worktree fix it"))
    );
}

/// What the other agent has there too is run with a JSON format, as is `work` with its own `-p`.
#[test]
fn subcommands_of_both_programs_are_run_with_a_json_format() {
    for words in [
        &["--output-format", "json", "mcp", "list"][..],
        &["--output-format", "json", "plugins", "list"],
        &["--output-format", "json", "auth", "status"],
        &["--output-format", "json", "doctor"],
        &["work", "-p", "reviewer"],
        &["-m", "opus", "work", "do", "-p", "reviewer"],
        &["sandbox", "exec", "--", "ls", "-p"],
    ] {
        assert!(
            matches!(parsed(words).action, Action::Command(_)),
            "{words:?}"
        );
    }
    for words in [
        &["-p", "work", "-m", "opus"][..],
        &["work", "-p", "--model", "opus"],
        &["work", "--print"],
        &["work", "-p", "reviewer", "--output-format", "json"],
        &["--name", "work", "-p", "hi"],
    ] {
        assert!(matches!(parsed(words).action, Action::Run(_)), "{words:?}");
    }
}

/// With `-p` the command line is the other agent's, also where letters mean something else here.
#[test]
fn options_of_the_other_agent_mean_what_they_mean_there() {
    let show = |words: &[&str]| {
        let Invocation {
            options, action, ..
        } = parsed(words);
        let Action::Run(prompt) = action else {
            panic!("{words:?}: {action:?}");
        };
        let folders = options.safety.add_dir.iter();
        let folders: Vec<_> = folders.map(|path| path.to_string_lossy()).collect();
        [
            options.session.name.map(|name| format!("name {name}")),
            options.resume.resume.map(|id| format!("resume {id}")),
            options.resume.new.then(|| "new".to_owned()),
            options.settings.debug.map(|_| "debug".to_owned()),
            options.output.detach.then(|| "detach".to_owned()),
            (!folders.is_empty()).then(|| format!("add {}", folders.join(","))),
            (!options.model.betas.is_empty())
                .then(|| format!("betas {}", options.model.betas.join(","))),
            Some(format!("prompt {}", prompt.text.unwrap_or_default())),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
    };
    for (words, expected) in [
        (
            &["-p", "hi", "-n", "title"] as &[_],
            "name title; prompt hi",
        ),
        (&["hi", "-ntitle", "-p"], "name title; prompt hi"),
        (&["-n", "-p", "hi"], "new; prompt hi"),
        (&["-n", "hi"], "new; prompt hi"),
        (&["-p", "hi", "-d"], "debug; prompt hi"),
        (&["-p", "hi", "-d", "hooks,mcp"], "debug; prompt hi"),
        (&["-d", "hi"], "detach; prompt hi"),
        (
            &["-p", "-r", "no such title", "hi"],
            "resume no such title; prompt hi",
        ),
        (&["-r", "no such title"], "resume ; prompt no such title"),
        (
            &["-p", "--add-dir", "a", "b", "do it"],
            "add a,b; prompt do it",
        ),
        (&["--add-dir", "a", "b"], "add a; prompt b"),
        (
            &["-p", "hi", "--betas", "a", "b,c"],
            "betas a,b,c; prompt hi",
        ),
        (&["-p", "--mcp-config", "a.json", "./b", "hi"], "prompt hi"),
        (&["-p", "hi", "--prompt-suggestions", "true"], "prompt hi"),
        (&["-p", "hi", "--max-turns", "0"], "prompt hi"),
        (&["-p", "hi", "--effort", "ultra"], "prompt hi"),
    ] {
        assert_eq!(show(words), expected, "{words:?}");
    }
}

#[test]
fn lists_of_tools_take_further_words_only_while_they_are_tools() {
    for (words, allowed, text) in [
        (
            &["--allowedTools", "Bash", "Read", "fix", "it"] as &[_],
            &["Bash", "Read"] as &[_],
            Some("fix it"),
        ),
        (
            &["--allowed-tools", "Bash(git log:*)", "Edit(src/**)", "go"],
            &["Bash(git log:*)", "Edit(src/**)"],
            Some("go"),
        ),
        (
            &["--allowedTools", "Anything", "go"],
            &["Anything"],
            Some("go"),
        ),
        (
            &["--allowedTools", "mcp__a", "mcp__b__c", "--print", "Read"],
            &["mcp__a", "mcp__b__c"],
            Some("Read"),
        ),
        (&["--allowedTools=Bash", "Read"], &["Bash"], Some("Read")),
        (
            &["--allowedTools", "Bash,Read", "grep"],
            &["Bash,Read", "grep"],
            None,
        ),
    ] {
        let invocation = parsed(words);
        assert_eq!(invocation.options.tools.allowed_tools, allowed, "{words:?}");
        assert_eq!(
            invocation.action,
            Action::Run(TypedPrompt {
                fork_at: None,
                text: text.map(str::to_owned)
            }),
            "{words:?}"
        );
    }
    assert_eq!(
        parsed(&["--tools", ""]).options.tools.tools,
        Some(vec![String::new()])
    );
}

#[test]
fn a_worktree_takes_a_word_that_could_be_its_name() {
    for (words, name, text) in [
        (
            &["-w", "login", "change it"] as &[_],
            "login",
            Some("change it"),
        ),
        (&["-w", "change the login"], "", Some("change the login")),
        (&["--worktree=fix-7", "go"], "fix-7", Some("go")),
        // It is refused as a name, rather than taken for a word of the prompt.
        (&["-w", "fix/login", "go"], "fix/login", Some("go")),
        (&["-w", "/review", "it"], "", Some("/review it")),
        (&["-w", "-m", "opus"], "", None),
        (&["worktree", "fix", "-m", "opus", "go"], "fix", Some("go")),
    ] {
        let invocation = parsed(words);
        let worktree = invocation.options.resume.worktree.as_deref();
        assert_eq!(worktree, Some(name), "{words:?}");
        assert_eq!(
            invocation.action,
            Action::Run(TypedPrompt {
                fork_at: None,
                text: text.map(str::to_owned)
            }),
            "{words:?}"
        );
    }
    for words in [&["worktree"] as &[_], &["worktree", "rm", "x"]] {
        assert!(matches!(parsed(words).action, Action::Command(_)));
    }
}

#[test]
fn the_word_help_is_the_option() {
    let shown = |words: &[&str]| match parsed(words).action {
        Action::Print(text) => text,
        other => panic!("{words:?}: {other:?}"),
    };
    assert_eq!(shown(&["help"]), shown(&["--help"]));
    assert_eq!(shown(&["help", "sessions"]), shown(&["sessions", "--help"]));
    for words in [&["help", "me"] as &[_], &["--", "help"], &["-p", "help"]] {
        assert!(matches!(parsed(words).action, Action::Run(_)), "{words:?}");
    }
}

#[test]
fn resume_takes_a_word_only_if_it_names_a_session() {
    for (words, resume, text) in [
        (
            &["-r", "refactoring", "go"] as &[_],
            "refactoring",
            Some("go"),
        ),
        (&["-r", "fix it"], "", Some("fix it")),
        (&["-r", "--", "fix", "it"], "", Some("fix it")),
        (
            &["--resume", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            None,
        ),
        (
            &["--resume", "123e4567-e89b-12d3-a456-426614174000", "go"],
            "123e4567-e89b-12d3-a456-426614174000",
            Some("go"),
        ),
        (&["--resume=01ARZ", "go"], "01ARZ", Some("go")),
        (&["-r", "01ARZ3NDEKT", "go"], "01ARZ3NDEKT", Some("go")),
        (&["-r", "01ARZ3ND"], "01ARZ3ND", None),
        (&["-r", "-m", "opus"], "", None),
    ] {
        let invocation = parsed(words);
        assert_eq!(
            invocation.options.resume.resume.as_deref(),
            Some(resume),
            "{words:?}"
        );
        assert_eq!(
            invocation.action,
            Action::Run(TypedPrompt {
                fork_at: None,
                text: text.map(str::to_owned)
            }),
            "{words:?}"
        );
    }
}

/// A name with a slip in it never becomes a prompt that is paid for.
#[test]
fn a_word_behind_resume_that_names_no_session_is_an_error() {
    for (words, word, prompt) in [
        (
            &["-r", "refactorign", "go on"][..],
            "refactorign",
            "-r -- refactorign 'go on'",
        ),
        (&["-r", "refactorign"], "refactorign", "-r -- refactorign"),
        (
            &["-r", "fix", "-m", "opus", "it's $it"],
            "fix",
            r"-mopus -r -- fix 'it'\''s $it'",
        ),
        (
            &["--model", "my opus", "-r", "old/it.db"],
            "old/it.db",
            "'--model=my opus' -r -- old/it.db",
        ),
        (
            &["-r", "no such title", "hi"],
            "no such title",
            "-r -- 'no such title' hi",
        ),
        (&["-r", "01ARZ", "go"], "01ARZ", "-r -- 01ARZ go"),
    ] {
        let error = parse_words(words).unwrap_err();
        assert_eq!(
            error.message,
            format!("no session has the id or name `{word}`")
        );
        let hint = error.hint.unwrap();
        let way = format!("to send it as a prompt: ah {prompt}");
        assert!(hint.ends_with(&way), "{hint}");
        let names_file = hint.contains("ah '--model=my opus' --db old/it.db; ");
        assert_eq!(names_file, word.contains('/'), "{hint}");
    }
    assert!(parse_words(&["-r", "--", "--", "x"]).is_ok());
}

#[test]
fn the_manner_follows_from_the_formats() {
    for (words, interface) in [
        (&["hi"] as &[_], Interface::Native),
        (&["--output-format", "events", "hi"], Interface::Native),
        (&["-p", "hi"], Interface::AgentSdk),
        (&["hi", "--output-format=json"], Interface::AgentSdk),
        (&["--outputFormat", "json", "hi"], Interface::AgentSdk),
        (&["-cp", "hi"], Interface::AgentSdk),
        (&["-Sp", "hi"], Interface::Native),
        (&["--input-format", "text", "hi"], Interface::AgentSdk),
        (&["--", "-p"], Interface::Native),
    ] {
        assert_eq!(parsed(words).interface, interface, "{words:?}");
    }
}

#[test]
fn what_cannot_be_read_is_said_with_advice() {
    let cases: Vec<String> = [
        &["--modle", "x"] as &[_],
        &["--completely-unheard-of"],
        &["-p", "--modle", "x"],
        &["show", "me", "the", "tests"],
        &["work", "on", "the", "login", "bug"],
        &["branch"],
        &["sessions", "mv"],
        &["-n", "--name", "x", "hi"],
        &["--max-turns", "0", "hi"],
        &["--permission-mode", "yolo", "hi"],
        &["--model"],
        &["--model", "--new"],
        &["--session-id", "7", "hi"],
        &["--output-format", "stream-json", "hi"],
        &["--resume-drops-turn", "7", "hi"],
        &["--steer", "left", "now"],
        &["@99999999999", "hi"],
    ]
    .iter()
    .map(|words| {
        let error = parse_words(words).expect_err("an error");
        let arguments: Vec<_> = words.iter().map(OsString::from).collect();
        let interface = interface_of(&arguments);
        format!(
            "{}\n  {} {}\n  {}",
            words.join(" "),
            of_error(&error, interface),
            error.message,
            error.hint.unwrap_or_default()
        )
    })
    .collect();
    insta::assert_snapshot!(cases.join("\n"), @r#"
--modle x
  2 unknown option `--modle`
  did you mean `--model`?
--completely-unheard-of
  2 unknown option `--completely-unheard-of`
  `ah --help` lists all options and commands
-p --modle x
  1 unknown option `--modle`
  did you mean `--model`?
show me the tests
  2 unexpected `the`
  to send it as a prompt: ah -- show me the tests
work on the login bug
  2 unrecognized subcommand `on`
  `ah work --help` lists its commands; to send it as a prompt: ah -- work on the login bug
branch
  2 `ah branch` needs a command
  `ah branch --help` lists them
sessions mv
  2 unrecognized subcommand `mv`
  `ah sessions --help` lists its commands; to send it as a prompt: ah -- sessions mv
-n --name x hi
  2 the argument `--new` cannot be used with `--name <NAME>`
  `ah --help` lists all options and commands
--max-turns 0 hi
  2 invalid value `0` for `--max-turns <N>`: expected a whole number above 0
  `ah --help` lists all options and commands
--permission-mode yolo hi
  2 invalid value `yolo` for `--permission-mode <MODE>` [possible values: default, sandboxed, acceptEdits, plan, dontAsk, delegate, bypassPermissions]
  `ah --help` lists all options and commands
--model
  2 a value is required for `--model <NAME>` but none was supplied
  `ah --help` lists all options and commands
--model --new
  2 a value is required for `--model <NAME>` but none was supplied
  `ah --help` lists all options and commands
--session-id 7 hi
  2 `7` is not a UUID
  
--output-format stream-json hi
  1 `--output-format stream-json` needs `--verbose`
  it prints every message; `json` prints only the result
--resume-drops-turn 7 hi
  2 the following required arguments were not provided: --resume-session-at <UUID>
  `ah --help` lists all options and commands
--steer left now
  2 unexpected `now` after a message for a session
  put the whole message in quotes
@99999999999 hi
  2 message not found: @99999999999
"#);
}

#[test]
fn every_long_option_has_the_form_of_the_official_sdks() {
    let invocation = parsed(&[
        "--maxTurns",
        "3",
        "--appendSystemPrompt=x",
        "--permissionMode",
        "acceptEdits",
        "hi",
    ]);
    assert_eq!(invocation.options.limits.max_turns, Some(3));
    assert_eq!(
        invocation.options.prompt.append_system_prompt.as_deref(),
        Some("x")
    );
    assert_eq!(
        invocation.options.safety.permission_mode,
        Some(PermissionMode::AcceptEdits)
    );
}

#[test]
fn options_of_other_agents_are_accepted_and_noted() {
    let invocation = parsed(&[
        "--project-config-root",
        "x",
        "--verbose",
        "--task-budget=1",
        "hi",
    ]);
    assert_eq!(
        invocation.without_meaning,
        ["--project-config-root", "--task-budget", "--verbose"]
    );
    assert_eq!(
        invocation.action,
        Action::Run(TypedPrompt {
            fork_at: None,
            text: Some("hi".to_owned())
        })
    );
}

#[test]
fn versions_and_help_are_printed() {
    for (words, start) in [
        (&["-V"] as &[_], "ah 0.1.0\n"),
        (&["-v"], "2.1.332 (ah 0.1.0)\n"),
        (&["--version"], "2.1.332 (ah 0.1.0)\n"),
        (&["--help"], "Runs a coding agent"),
        (&["-h"], "Runs a coding agent"),
        (&["sessions", "-h"], "List the sessions"),
        (&["tree", "--help"], "Draw all branches"),
    ] {
        match parsed(words).action {
            Action::Print(text) => assert!(text.starts_with(start), "{words:?}: {text}"),
            other => panic!("{words:?}: {other:?}"),
        }
    }
}

#[test]
fn the_short_help_names_what_there_is() {
    let shown = |words: &[&str]| match parsed(words).action {
        Action::Print(text) => text,
        other => panic!("{words:?}: {other:?}"),
    };
    let short = shown(&["-h"]);
    assert!(short.lines().count() <= 40 && short.lines().all(|line| line.len() <= 80));
    let (groups, _) = short.split_once("\nOptions:").unwrap();
    let groups = groups
        .lines()
        .skip_while(|line| !line.starts_with("Start:"));
    for line in groups.filter(|line| !line.is_empty()) {
        let (_, names) = line.split_once(':').unwrap();
        for name in names.split(',').map(str::trim) {
            assert!(Subcommands::has_subcommand(name), "{name}");
        }
    }
    for option in [
        "--new",
        "--continue",
        "--resume",
        "--model",
        "--print",
        "--detach",
        "--worktree",
    ] {
        assert!(
            command()
                .get_arguments()
                .any(|it| it.get_long() == Some(&option[2..])),
            "{option}"
        );
    }
    // A command's help has only its own options.
    let login = shown(&["login", "--help"]);
    assert!(
        login.lines().count() <= 15 && !login.contains("--model"),
        "{login}"
    );
    assert!(shown(&["mcp", "add", "--help"]).contains("--scope"));
    assert!(!shown(&["mcp", "add", "--help"]).contains("--max-turns"));
}

#[test]
fn the_documented_options_and_subcommands_are_those_of_the_help() {
    let page = include_str!("../../../docs/interfaces.md");
    let rows = |start: &str| {
        let rows = page.lines().skip_while(|line| !line.starts_with(start));
        rows.take_while(|line| line.starts_with('|'))
            .collect::<String>()
    };
    let (options, subcommands) = (rows("| group | options |"), rows("| subcommand | does |"));
    let command = command();
    let mut shown: Vec<_> = command
        .get_arguments()
        .filter(|option| !option.is_hide_set())
        .filter_map(|option| option.get_long().map(|long| format!("--{long}")))
        .collect();
    let mut documented: Vec<_> = options
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 3)
        .map(str::to_owned)
        .collect();
    shown.sort();
    documented.sort();
    assert_eq!(documented, shown);
    for subcommand in command.get_subcommands() {
        let name = subcommand.get_name();
        assert!(
            subcommands.contains(&format!("`{name}")),
            "`{name}` is not documented"
        );
    }
}

/// What was meant for a subcommand never becomes a prompt that is paid for.
#[test]
fn an_unknown_subcommand_is_an_error() {
    for (words, expected) in [
        (
            &["-n", "setup-token"][..],
            "ah has no subcommand `setup-token`",
        ),
        (&["update"], "ah has no subcommand `update`"),
        (&["sesions"], "ah has no subcommand `sesions`"),
        (&["stop", "01ab"], "ah has no subcommand `stop`"),
        (&["purge"], "ah has no subcommand `purge`"),
        (&["doctr"], "ah has no subcommand `doctr`"),
    ] {
        let error = parse_words(words).unwrap_err();
        assert_eq!(error.message, expected, "{words:?}");
        let hint = error.hint.unwrap();
        assert!(hint.contains("to send it as a prompt: ah -- "), "{hint}");
    }
    for words in [
        &["update", "the", "readme"][..],
        &["stop", "the", "server"],
        &["update the readme"],
        &["--", "plugin", "list"],
        &["-p", "update"],
        &["hello"],
        &["explain"],
        &["why?"],
    ] {
        assert!(matches!(parsed(words).action, Action::Run(_)), "{words:?}");
    }
}

#[test]
fn of_repeated_options_the_last_counts() {
    let options = parsed(&[
        "-p",
        "--verbose",
        "--verbose",
        "--model",
        "a",
        "--model",
        "b",
        "hi",
    ])
    .options;
    assert!(options.output.verbose);
    assert_eq!(options.model.model.as_deref(), Some("b"));
}

#[test]
fn all_subcommands_are_listed() {
    let described = Subcommands::augment_subcommands(Command::new("ah"));
    let mut names: Vec<_> = described.get_subcommands().map(Command::get_name).collect();
    names.sort_unstable();
    assert_eq!(grammar::SUBCOMMANDS, names);
}
