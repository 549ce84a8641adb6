//! Keys and events, state by state. A case is a list of steps and its outcome: the effects of the last step, and the
//! state after it.

use std::time::Duration;

use ah_config::settings::conversation::EditorMode;
use ah_conversation::{LiveOutput, MailKind, Model, PermissionMode, Progress};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::super::activity::RunningTool;
use super::super::history::History;
use super::super::input::Opened;
use super::super::picker::{Entry, Picker, Subject};
use super::super::view;
use super::*;
use crate::print::question;

/// Returns the state of an open, idle session.
fn idle() -> App {
    let history = ["first", "second\nof two lines"].map(str::to_owned);
    let mut app = App::new(EditorMode::Emacs, History::default(), (80, 24), false);
    for line in history {
        app.history.keep(&line);
    }
    app.session = Some(Opened {
        session: "01".to_owned(),
        model: Model {
            provider: "script".to_owned(),
            name: "m".to_owned(),
            context_window: 1_000,
            max_output: 100,
            price: None,
            long_price: None,
        },
        title: None,
        mode: PermissionMode::Default,
        may_bypass: false,
        context: 0,
        messages: 0,
        place: "project".to_owned(),
        is_sandboxed: true,
        is_bound: false,
        check: None,
        cost: 0.0,
        facts: None,
    });
    let named = ["do", "newest"].map(|name| (name.to_owned(), String::new()));
    app.suggestions.named = named.into();
    app.suggestions.files = Some(vec!["src/main.rs".to_owned(), "src/more.rs".to_owned()]);
    app
}

fn queued(words: &str, kind: MailKind) -> Queued {
    Queued {
        id: words.into(),
        kind,
        text: words.to_owned(),
    }
}

/// Applies a step: an input by its name and argument, a key by its name, or `'` and typed text.
fn take(app: &mut App, step: &str, now: Instant) -> Vec<Effect> {
    let (word, about) = step.split_once(' ').unwrap_or((step, ""));
    let input = match word {
        "remote" => {
            app.is_remote = true;
            return Vec::new();
        }
        "mail" => Input::Mail,
        "work" => {
            app.work = Some(Activity::begin("working", now));
            return Vec::new();
        }
        "sent" => Input::Sent(queued(about, MailKind::Steer)),
        "later" => Input::Sent(queued(about, MailKind::FollowUp)),
        "heard" => Input::Event(Box::new(EventKind::SteeringReceived {
            content: about.to_owned(),
            message_count: 1,
        })),
        "back" => Input::Withdrawn(vec![queued(about, MailKind::Steer)], Then::GiveBack),
        "unread" => Input::Withdrawn(vec![queued(about, MailKind::Steer)], Then::Prompt),
        "none" => Input::Withdrawn(Vec::new(), Then::Prompt),
        "gone" => Input::Withdrawn(Vec::new(), Then::GiveBack),
        "asks" => {
            let (lines, _) = std::sync::mpsc::channel();
            update(app, Input::Question(QuestionUpdate::Opened(1, lines)), now);
            let sheet = question::confirmation("May it?", "", "Allow? ");
            Input::Question(QuestionUpdate::Asked(1, Box::new(sheet), None))
        }
        "refused" => {
            let complaint = Some(format!("not {about}"));
            let sheet = question::confirmation("May it?", "", "Allow? ");
            Input::Question(QuestionUpdate::Asked(1, Box::new(sheet), complaint))
        }
        "tick" => Input::Tick,
        "seen" => Input::View(Vec::new()),
        "typed" => Input::Typed(about.to_owned()),
        "talked" => {
            app.session.as_mut().unwrap().messages = 2;
            return Vec::new();
        }
        "answered" => Input::Question(QuestionUpdate::Closed(1)),
        "well" => Input::Ended(Ending::Well),
        "left" => Input::Ended(Ending::Left),
        "bound" => {
            app.session.as_mut().unwrap().is_bound = true;
            return Vec::new();
        }
        "stopped" => Input::Ended(Ending::Interrupted),
        "failed" => Input::Ended(Ending::Failed("no".to_owned(), None)),
        "pick" => {
            let entry = |name: &str| Entry {
                label: name.to_owned(),
                value: name.to_uppercase(),
            };
            let entries = about.split(' ').map(entry).collect();
            Input::Pick(Picker::new(Subject::Session, entries))
        }
        "unlisted" => Input::Unlisted,
        "paste" => Input::Key(Event::Paste(about.to_owned())),
        "shown" => Input::Written(about.replace('|', "\n")),
        typed if typed.starts_with('\'') => {
            let press = |c| {
                let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
                update(app, Input::Key(Event::Key(key)), now)
            };
            return step[1..].chars().flat_map(press).collect();
        }
        name => Input::Key(Event::Key(named(name))),
    };
    update(app, input, now)
}

/// Returns a key by its usual name.
fn named(name: &str) -> KeyEvent {
    let (modifiers, name) = match name.split_once('-').or_else(|| name.split_once('+')) {
        Some(("Ctrl", name)) => (KeyModifiers::CONTROL, name),
        Some(("Alt", name)) => (KeyModifiers::ALT, name),
        Some(("Shift", name)) => (KeyModifiers::SHIFT, name),
        _ => (KeyModifiers::NONE, name),
    };
    let code = match name {
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Tab" => KeyCode::Tab,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Backspace" => KeyCode::Backspace,
        letter => KeyCode::Char(letter.to_lowercase().chars().next().unwrap()),
    };
    KeyEvent::new(code, modifiers)
}

/// Formats effects.
fn done(effects: &[Effect]) -> String {
    let short = |effect: &Effect| match effect {
        Effect::Print(lines) => format!("print {:?}", lines.trim_end()),
        Effect::Task(Task::Prompt(text)) => format!("run {text:?}"),
        Effect::Task(Task::Send(MailKind::Steer, text)) => format!("steer {text:?}"),
        Effect::Task(Task::Send(MailKind::FollowUp, text)) => format!("follow up {text:?}"),
        Effect::Task(Task::Withdraw(queued, then)) => {
            let texts: Vec<_> = queued.iter().map(|queued| queued.text.as_str()).collect();
            format!("withdraw {texts:?} to {then:?}")
        }
        Effect::Task(Task::Interrupt) => "interrupt".to_owned(),
        Effect::Task(Task::Mode(mode)) => format!("mode {mode:?}"),
        Effect::Task(task) => format!("{task:?}"),
        Effect::Quit => "quit".to_owned(),
        other => format!("{other:?}"),
    };
    effects.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// Formats the state: the text with its cursor, and the differences from the idle state.
fn known(app: &App) -> String {
    let typed = app.typed();
    let (before, after) = typed.text().split_at(typed.cursor());
    let mut words = vec![format!("{before}_{after}").replace('\n', "⏎")];
    if let Some(work) = &app.work {
        let word = if work.is_stopping {
            "stopping"
        } else {
            "working"
        };
        words.push(word.to_owned());
    }
    for queued in &app.queued {
        words.push(format!("waits:{}", queued.text));
    }
    for held in &app.held {
        words.push(format!("held:{}", held.typed));
    }
    let flags = [
        (app.is_leaving, "leaving"),
        (!app.questions.is_empty(), "asked"),
        (app.questions.is_answering(), "answering"),
        (app.picker.is_some(), "choosing"),
        (app.viewer.is_some(), "viewing"),
        (app.suggestions.menu.is_some(), "suggesting"),
        (app.hint.is_some(), "hinting"),
    ];
    let flags = flags.iter().filter(|(is_so, _)| *is_so);
    words.extend(flags.map(|(_, word)| (*word).to_owned()));
    if let Some(mode) = app.session.as_ref().map(|session| session.mode)
        && mode != PermissionMode::Default
    {
        words.push(format!("{mode:?}"));
    }
    words.join(" ")
}

/// Fails unless these steps, separated by bars, have the expected outcome. A second passes before each, but for those
/// with a plus sign.
#[track_caller]
fn check(steps: &str, expected: &str) {
    let mut app = idle();
    let mut effects = Vec::new();
    let mut now = Instant::now();
    for step in steps.split(" | ").filter(|step| !step.is_empty()) {
        now += Duration::from_secs(u64::from(!step.starts_with('+')));
        effects = take(&mut app, step.trim_start_matches('+'), now);
    }
    let (done, known) = (done(&effects), known(&app));
    let found = match done.is_empty() {
        true => known,
        false => format!("{known}  →  {done}"),
    };
    assert_eq!(found, expected, "{steps}");
}

#[test]
fn enter_submits_the_typed_text() {
    for (steps, expected) in [
        ("Enter", "_"),
        ("'  | Enter", " _"),
        ("'hi | Enter", r#"_ working  →  print "> hi", run "hi""#),
        ("'a\\ | Enter | 'b", "a⏎b_"),
        (
            "'a | Ctrl-J | 'b | Enter",
            r#"_ working  →  print "> a\n  b", run "a\nb""#,
        ),
        ("'a | Alt+Enter", "a⏎_"),
        ("'a | Shift+Enter", "a⏎_"),
        ("work | 'hi | Enter", r#"_ working  →  steer "hi""#),
        ("work | 'hi | Alt+Enter", r#"_ working  →  follow up "hi""#),
        ("work | Enter", "_ working"),
        ("work | 'hi | Enter | sent hi", "_ working waits:hi"),
        ("work | sent hi | heard hi", "_ working"),
        ("work | sent hi | heard other", "_ working waits:hi"),
        // Commands of the terminal are not prompts.
        (
            "'!ls | Enter",
            r#"_ working  →  print "!ls", Shell("ls", true)"#,
        ),
        (
            "'!!ls | Enter",
            r#"_ working  →  print "!!ls", Shell("ls", false)"#,
        ),
        ("'!  | Enter", r#"_ working  →  print "> !", run "!""#),
        ("'/exit | Esc | Enter", "_  →  quit"),
        (
            "work | '/exit | Esc | Enter",
            r#"_ working  →  print "> /exit", print "interrupted", interrupt, print "", quit"#,
        ),
        (
            "work | '/quit | Enter",
            r#"_ working  →  print "> /quit", print "interrupted", interrupt, print "", quit"#,
        ),
        (
            "work | 'exit | Enter",
            r#"_ working  →  print "> exit", print "interrupted", interrupt, print "", quit"#,
        ),
        (
            "work | asks | '/exit | Enter",
            r#"/exit_ working asked answering  →  print "interrupted", interrupt, print "", quit"#,
        ),
        (
            "'/compact | Esc | Enter",
            r#"_ working  →  print "> /compact", Compact("")"#,
        ),
        (
            "work | '/compact | Esc | Enter",
            "/compact_ working hinting",
        ),
        ("work | '/steer go | Enter", r#"_ working  →  steer "go""#),
        (
            "'/steer go | Enter",
            r#"_ working  →  print "> go", run "go""#,
        ),
        // A word that only looks like a command.
        (
            "'/usr/bin is full | Enter",
            r#"_ working  →  print "> /usr/bin is full", run "/usr/bin is full""#,
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn escape_takes_back_what_waits_before_it_interrupts() {
    for (steps, expected) in [
        ("Esc", "_"),
        ("'a | Esc", "a_"),
        ("work | Esc", "_ stopping  →  interrupt"),
        ("work | Esc | Esc", "_ stopping"),
        ("work | 'a | Esc", "a_ stopping  →  interrupt"),
        (
            "work | sent a | later b | Esc",
            r#"_ working waits:a waits:b  →  withdraw ["a", "b"] to GiveBack"#,
        ),
        ("work | sent a | Esc | back a", "a_ working"),
        ("work | sent a | 'typed | Esc | back a", "a⏎⏎typed_ working"),
        // The agent has already read the message.
        ("work | sent a | Esc | heard a | gone", "_ working"),
        (
            "work | sent a | Esc | back a | Esc",
            "a_ stopping  →  interrupt",
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn ctrl_c_stops_then_clears_then_leaves() {
    for (steps, expected) in [
        ("Ctrl-C", "_ leaving"),
        ("Ctrl-C | Ctrl-C", "_  →  quit"),
        ("Ctrl-C | 'a", "a_"),
        ("Ctrl-C | 'a | Ctrl-C", "_"),
        ("'a | Ctrl-C", "_"),
        ("'a | Ctrl-C | Ctrl-C | Ctrl-C", "_  →  quit"),
        ("work | Ctrl-C", "_ stopping leaving  →  interrupt"),
        ("work | 'a | Ctrl-C", "a_ stopping  →  interrupt"),
        (
            "work | Ctrl-C | Ctrl-C",
            r#"_ stopping  →  print "interrupted", interrupt, print "", quit"#,
        ),
        ("work | Esc | Ctrl-C", "_ stopping leaving"),
        (
            "work | Ctrl-C | stopped",
            r#"_ leaving  →  print "interrupted", print """#,
        ),
        ("Ctrl-D", "_  →  quit"),
        ("'ab | Ctrl-A | Ctrl-D", "_b"),
        (
            "work | Ctrl-D",
            r#"_ working  →  print "interrupted", interrupt, print "", quit"#,
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn unread_messages_are_the_next_prompt_or_go_back_to_the_editor() {
    for (steps, expected) in [
        ("work | well", r#"_  →  print """#),
        (
            "work | sent a | well",
            r#"_ waits:a  →  print "", withdraw ["a"] to Prompt"#,
        ),
        (
            // It was queued while something else was done, which has ended.
            "sent a",
            r#"_ waits:a  →  withdraw ["a"] to Prompt"#,
        ),
        (
            "work | sent a | well | unread a",
            r#"_ working  →  print "> a", run "a""#,
        ),
        (
            "work | sent a | stopped",
            r#"_ waits:a  →  print "interrupted", print "", withdraw ["a"] to GiveBack"#,
        ),
        ("work | sent a | stopped | back a", "a_"),
        (
            "work | sent a | failed",
            r#"_ waits:a  →  print "error: no", print "", withdraw ["a"] to GiveBack"#,
        ),
        // An unfinished line is printed.
        (
            "work | shown half a line | well",
            r#"_  →  print "half a line", print """#,
        ),
        (
            "work | shown one|two|thr",
            r#"_ working  →  print "one\ntwo""#,
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn a_question_waits_while_text_is_typed() {
    for (steps, expected) in [
        ("work | asks", "_ working asked answering"),
        ("work | 'half | asks", "half_ working asked"),
        (
            "work | 'half | asks | Enter",
            r#"_ working asked  →  steer "half""#,
        ),
        (
            "work | 'half | asks | Enter | tick",
            "_ working asked answering",
        ),
        ("work | 'half | asks | Tab", "_ working asked answering"),
        (
            "work | 'half | asks | Tab | 'y | Tab",
            "half_ working asked",
        ),
        (
            "work | 'half | asks | Tab | 'y | Tab | Tab",
            "y_ working asked answering",
        ),
        (
            "work | 'half | asks | Tab | 'y | Enter | answered",
            r#"half_ working  →  print "May it?\n→ yes""#,
        ),
        ("work | asks | 'y | Enter", "_ working asked answering"),
        (
            "work | asks | 'y | Enter | answered",
            r#"_ working  →  print "May it?\n→ yes""#,
        ),
        (
            "work | asks | Esc",
            "_ stopping asked answering  →  interrupt",
        ),
        (
            "work | asks | Ctrl-C | answered",
            r#"_ stopping leaving  →  print "May it?""#,
        ),
        // A number is typed as a letter is, an arrow marks for Enter.
        ("work | asks | '2", "2_ working asked answering"),
        (
            "work | asks | '2 | Enter | answered",
            r#"_ working  →  print "May it?\n→ no""#,
        ),
        (
            "work | asks | Down | Down | Up | Enter | answered",
            r#"_ working  →  print "May it?\n→ yes""#,
        ),
        (
            "work | 'half | asks | Tab | Down | Tab",
            "half_ working asked",
        ),
        // Nothing is suggested in an answer.
        ("work | asks | '/", "/_ working asked answering"),
    ] {
        check(steps, expected);
    }
}

#[test]
fn of_calls_that_run_at_once_the_one_that_ends_goes() {
    let now = Instant::now();
    let mut app = idle();
    take(&mut app, "work", now);
    for (call, key) in [("1", "slow"), ("2", "quick"), ("3", "other")] {
        let tool = RunningTool::new(call.into(), "bash", key, &LiveOutput::default());
        update(&mut app, Input::Running(tool), now);
    }
    update(&mut app, Input::Ran("2".into()), now);
    let progress = Progress {
        done: 1.0,
        total: Some(4.0),
        message: None,
    };
    update(&mut app, Input::Progress("3".into(), progress), now);
    let keys = app.work.iter().flat_map(|work| &work.tools);
    let keys: Vec<_> = keys.map(|tool| tool.key.as_str()).collect();
    assert_eq!(keys[0], "slow");
    assert!(keys[1].contains('4'), "{keys:?}");
    assert_eq!(keys.len(), 2);
}

#[test]
fn the_line_of_a_run_says_how_far_the_server_has_read() {
    let now = Instant::now();
    let mut app = idle();
    take(&mut app, "work", now);
    let lines = [(0, 1_000), (384, 1_000), (999, 1_000), (1_000, 1_000)].map(|(read, total)| {
        update(&mut app, Input::Reading(read, total), now);
        let live = view::live(&app, now);
        live.rows.into_iter().find(|row| row.contains("interrupts"))
    });
    insta::assert_snapshot!(lines.map(Option::unwrap_or_default).join("\n"), @"
    ⠋ reading the prompt, 0 % 0s · Esc interrupts
    ⠋ reading the prompt, 38 % 0s · Esc interrupts
    ⠋ reading the prompt, 99 % 0s · Esc interrupts
    ⠋ thinking 0s · Esc interrupts
    ");
}

/// What is typed for the conversation, or for a list, never becomes the answer.
#[test]
fn only_what_is_typed_at_a_question_answers_it() {
    for (steps, expected) in [
        // The question comes as somebody types.
        ("work | 'a | +Backspace | +asks", "_ working asked"),
        ("work | 'a | +Backspace | +asks | +'2", "2_ working asked"),
        (
            "work | 'a | +Backspace | +asks | +'2 | ' tests | Enter",
            r#"_ working asked  →  steer "2 tests""#,
        ),
        (
            "work | 'a | +Backspace | +asks | tick",
            "_ working asked answering",
        ),
        (
            "work | 'a | +Backspace | +asks | 'y",
            "y_ working asked answering",
        ),
        ("work | asks | '2 tests", "2 tests_ working asked answering"),
        // The question comes while a list hides the typed text.
        (
            "work | 'yes and more | Ctrl-P | asks | tick",
            "_ working asked choosing",
        ),
        (
            "work | 'yes and more | Ctrl-P | asks | Esc",
            "yes and more_ working asked",
        ),
        (
            "work | 'yes and more | Ctrl-P | asks | Esc | Enter",
            r#"_ working asked  →  steer "yes and more""#,
        ),
        ("work | Ctrl-P | asks | 'yes | Esc", "_ working asked"),
        (
            "work | Ctrl-P | asks | 'yes | Esc | tick",
            "_ working asked answering",
        ),
        // A queued message that is taken back is for the conversation.
        (
            "work | sent a small thing | asks | back a small thing",
            "_ working asked answering",
        ),
        (
            "work | sent a small thing | asks | back a small thing | Tab",
            "a small thing_ working asked",
        ),
        (
            "work | asks | 'no | sent a | back a | Enter | answered",
            r#"a_ working  →  print "May it?\n→ no""#,
        ),
        // A list that is open when the run fails filters by what is typed only.
        ("work | sent a | Ctrl-P | back a", "_ working choosing"),
        ("work | sent a | Ctrl-P | back a | Esc", "a_ working"),
        // Who turns away comes back by Tab.
        ("work | asks | Tab | tick", "_ working asked"),
        ("work | asks | Tab | 'y", "y_ working asked"),
        // What was no answer can be mended.
        (
            "work | asks | 'y but how | Enter | refused",
            "y but how_ working asked answering",
        ),
        (
            "work | asks | 'half | Alt+Enter",
            "half⏎_ working asked answering",
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn lists_leave_the_typed_text_alone() {
    for (steps, expected) in [
        ("'half | pick one two", "_ choosing"),
        ("'half | pick one two | Esc", "half_"),
        ("'half | pick one two | Ctrl-C", "half_"),
        ("pick one two | Enter", r#"_ working  →  Resume("ONE")"#),
        (
            "pick one two | Down | Enter",
            r#"_ working  →  Resume("TWO")"#,
        ),
        (
            "pick one two | Down | Down | Up | Enter",
            r#"_ working  →  Resume("ONE")"#,
        ),
        (
            "'half | pick one two | 'tw | Enter",
            r#"half_ working  →  Resume("TWO")"#,
        ),
        ("pick one two | 'none | Enter", "none_ choosing"),
        ("'half | pick one two | paste no\nne", "no ne_ choosing"),
        (
            "'half | pick one two | paste tw\n | Enter",
            r#"half_ working  →  Resume("TWO")"#,
        ),
        ("Ctrl-R", "_ choosing"),
        ("'fir | Ctrl-R | Enter", "first_"),
        ("'/co", "/co_ suggesting"),
        ("'/co | Esc", "/co_"),
        ("'/co | Down | Tab", "/cost _"),
        ("'see @mor | Tab", "see @src/more.rs_"),
        ("'see @mor | Enter", "see @src/more.rs_"),
        // The menu is about the word at the cursor.
        (
            "'see @mor | Ctrl-A | Enter",
            r#"_ working  →  print "> see @mor", run "see @mor""#,
        ),
        ("'see @mor | Ctrl-A | Tab", "_see @mor"),
        ("'see @mor | Ctrl-B", "see @mo_r suggesting"),
        ("'see @mor | Ctrl-B | Tab", "see @src/more.rs _r"),
        ("'see @mor | back words", "words⏎⏎see @mor_ suggesting"),
        ("'/co | paste st", "/cost_ suggesting"),
        // A name that is typed whole comes first.
        ("'/do | Enter", r#"_ working  →  print "> /do", run "/do""#),
        ("'/do | Tab", "/do _"),
        ("'/do | Down | Tab", "/doctor _"),
        ("'/new | Tab", "/new _"),
        // Its lines may follow; it is accepted once.
        (
            "'see @mor | Tab | '#1-4 | Enter",
            r#"_ working  →  print "> see @src/more.rs#1-4", run "see @src/more.rs#1-4""#,
        ),
        (
            "'see @mor | Tab | Enter",
            r#"_ working  →  print "> see @src/more.rs", run "see @src/more.rs""#,
        ),
        // There are more than are shown.
        ("'/ | Up | Tab", "/newest _"),
        (
            "'see @nothing | Enter",
            r#"_ working  →  print "> see @nothing", run "see @nothing""#,
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn keys_before_a_list_is_open_are_for_the_list() {
    for (steps, expected) in [
        (
            "'/resume | Enter | 'tw | Enter | pick one two",
            r#"_ working  →  Resume("TWO")"#,
        ),
        ("'/resume | Enter | 'on | pick one two", "on_ choosing"),
        ("'/resume | Enter | 'on | pick one two | Esc", "_"),
        (
            "'/resume | Enter | 'on | Enter | 'half | pick one two",
            r#"half_ working  →  Resume("ONE")"#,
        ),
        (
            "'/resume | Enter | paste tw\n | pick one two | Enter",
            r#"_ working  →  Resume("TWO")"#,
        ),
        // Where there is none, they are no prompt.
        ("'/resume | Enter | 'on | Enter | unlisted", "_"),
        ("'/resume | Enter | unlisted | 'half", "half_"),
        // It need not be waited for.
        ("'/resume | Enter | 'on | Ctrl-C | 'half", "half_"),
    ] {
        check(steps, expected);
    }
}

#[test]
fn a_run_goes_to_the_background_with_what_is_queued() {
    for (steps, expected) in [
        ("Ctrl-B", "_ hinting"),
        ("work | Ctrl-B", "_ working hinting"),
        ("'hi | Enter | Ctrl-B", "_ working  →  Leave(false)"),
        ("'hi | Enter | Ctrl-B | Ctrl-B", "_ working  →  Leave(true)"),
        (
            "'hi | Enter | '/do it | Enter | Ctrl-B",
            "_ working held:/do it  →  Leave(false)",
        ),
        (
            "'hi | Enter | '/do it | Enter | Ctrl-B | left",
            r#"_ working  →  Queued(["/do it"])"#,
        ),
        // It runs at this terminal only.
        (
            "'hi | Enter | '!ls | Enter | Ctrl-B",
            "_ working held:!ls hinting",
        ),
        ("bound | 'hi | Enter | Ctrl-B", "_ working hinting"),
        // Nobody could read the answer elsewhere.
        ("'/btw why | Enter | Ctrl-B", "_ working hinting"),
    ] {
        check(steps, expected);
    }
}

/// A run would read them as they were typed.
#[test]
fn what_is_to_be_expanded_waits_for_the_end_of_the_run() {
    for (steps, expected) in [
        ("work | '/do | Enter", "_ working held:/do hinting"),
        (
            "work | '/do it | Alt+Enter",
            "_ working held:/do it hinting",
        ),
        ("work | '!ls | Enter", "_ working held:!ls hinting"),
        (
            "work | 'see @a.yaml | Alt+Enter",
            "_ working held:see @a.yaml hinting",
        ),
        (
            "work | 'see @a.yaml | Enter",
            r#"_ working  →  steer "see @a.yaml""#,
        ),
        // A blank before it makes it words.
        ("work | ' /do | Enter", r#"_ working  →  steer "/do""#),
        (
            "work | 'a@b | Alt+Enter",
            r#"_ working  →  follow up "a@b""#,
        ),
        (
            "work | '/do it | Enter | well",
            r#"_ working  →  print "", print "> /do it", run "/do it""#,
        ),
        (
            "work | '!ls | Enter | '/do | Enter | well",
            r#"_ working held:/do hinting  →  print "", print "!ls", Shell("ls", true)"#,
        ),
        (
            "work | '!ls | Enter | '/do | Enter | well | well",
            r#"_ working  →  print "", print "> /do", run "/do""#,
        ),
        // Messages that the agent did not read come before.
        (
            "work | sent a | '/do | Enter | well",
            r#"_ waits:a held:/do hinting  →  print "", withdraw ["a"] to Prompt"#,
        ),
        (
            "work | sent a | '/do | Enter | well | unread a",
            r#"_ working held:/do hinting  →  print "> a", run "a""#,
        ),
        (
            "work | later a | '/do | Enter | well | heard a | none",
            r#"_ working  →  print "> /do", run "/do""#,
        ),
        // What is not sent goes back to the editor.
        ("work | '/do | Enter | Esc", "/do_ working suggesting"),
        (
            "work | '/do | Enter | stopped",
            r#"/do_ hinting  →  print "interrupted", print """#,
        ),
        (
            "work | sent a | '/do | Enter | Esc | back a",
            "a⏎⏎/do_ working",
        ),
    ] {
        check(steps, expected);
    }
}

/// What cannot be asked of the other process is refused before anything changes.
#[test]
fn attached_nothing_is_shown_that_is_not_so() {
    for (steps, expected) in [
        (
            "remote | work | sent a | Esc",
            "_ stopping waits:a  →  interrupt",
        ),
        ("remote | work | Esc", "_ stopping  →  interrupt"),
        (
            "remote | work | sent a | Ctrl-C",
            "_ stopping waits:a leaving  →  interrupt",
        ),
        // It is read in the next run.
        ("remote | work | sent a | well", r#"_ waits:a  →  print """#),
        (
            "remote | work | sent a | well | mail",
            "_ working waits:a  →  TakeMail",
        ),
        ("remote | Shift+Tab", "_ hinting"),
        ("remote | paste /tmp/shot.png", "/tmp/shot.png_"),
        ("remote | Ctrl-V", "_ hinting"),
        ("remote | Ctrl-O", "_ hinting"),
        ("remote | '!ls | Enter", "!ls_ hinting"),
        ("remote | '/model | Esc | Enter", "/model_ hinting"),
        ("remote | '/undo | Esc | Enter", "/undo_ hinting"),
        (
            "remote | work | '/steer x | Enter",
            r#"_ working  →  steer "x""#,
        ),
        ("remote | '/exit | Esc | Enter", "_  →  quit"),
        (
            "remote | work | '/exit | Esc | Enter",
            r#"_ working  →  print "> /exit", print "", quit"#,
        ),
        ("remote | Ctrl-P", "_ choosing"),
    ] {
        check(steps, expected);
    }
}

#[test]
fn up_and_down_move_through_lines_and_then_the_history() {
    for (steps, expected) in [
        ("Up", "second⏎of two lines_"),
        ("'half | Up", "second⏎of two lines_"),
        ("'half | Up | Down", "half_"),
        ("Up | Up | Up", "first_"),
        ("Up | Up | Up | Up", "first_"),
        ("Down", "_"),
        // What was sent as words is no command when it comes again.
        ("' /do | Enter | well | Up", " /do_"),
        ("'/tasks stop | Enter", "_ hinting"),
        ("'a | Ctrl-J | 'b | Up | 'c", "ac_⏎b"),
        (
            "work | Up | Enter",
            r#"_ working  →  steer "second\nof two lines""#,
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn two_escapes_offer_earlier_prompts_where_nothing_else_is_meant() {
    for (steps, expected) in [
        ("talked | Esc", "_ hinting"),
        ("talked | Esc | Esc", "_  →  List(Prompt)"),
        ("talked | Esc | 'a | Backspace | Esc", "_ hinting"),
        ("talked | 'half | Esc | Esc", "half_"),
        ("Esc | Esc", "_"),
        ("talked | work | Esc | Esc", "_ stopping"),
        ("talked | remote | Esc | Esc", "_"),
        (
            "typed echo | Enter",
            r#"_ working  →  print "> echo", run "echo""#,
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn an_answer_that_comes_late_is_dropped_and_not_sent() {
    for (steps, expected) in [
        (
            "work | asks | tick | 'y | +answered | +Enter",
            "_ working hinting",
        ),
        (
            "work | asks | tick | 'n | +answered | +'ot now | +Enter",
            "_ working hinting",
        ),
        // After a pause it is a message as any other, and so is what was not typed for the question.
        (
            "work | asks | tick | 'y | +answered | 'go on | Enter",
            r#"_ working  →  steer "go on""#,
        ),
        (
            "work | 'half | asks | +answered | +Enter",
            r#"_ working  →  steer "half""#,
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn plan_mode_is_a_command_too() {
    for (steps, expected) in [
        (
            "'/plan | Esc | Enter",
            r#"_ hinting Plan  →  print "> /plan", mode Plan"#,
        ),
        (
            "'/plan look around | Enter",
            r#"_ working Plan  →  mode Plan, print "> look around", run "look around""#,
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn the_viewer_opens_at_any_time_and_has_the_keys_until_it_is_closed() {
    for (steps, expected) in [
        ("Ctrl-O", "_ viewing  →  View"),
        ("'half | work | Ctrl-O", "half_ working viewing  →  View"),
        ("'half | Ctrl-O | +'jjj | seen | 'k", "half_ viewing"),
        ("'half | Ctrl-O | asks | 'y", "half_ asked viewing"),
        ("'half | Ctrl-O | 'q | seen | 'y", "halfy_"),
        ("Ctrl-O | Ctrl-O", "_"),
        ("Ctrl-O | Ctrl-C", "_"),
        ("work | Ctrl-O | Esc", "_ working"),
    ] {
        check(steps, expected);
    }
}

#[test]
fn modes_cycle() {
    for (steps, expected) in [
        ("Shift+Tab", "_ AcceptEdits  →  mode AcceptEdits"),
        ("Shift+Tab | Shift+Tab", "_ Plan  →  mode Plan"),
        (
            "Shift+Tab | Shift+Tab | Shift+Tab",
            "_ Sandboxed  →  mode Sandboxed",
        ),
        (
            "Shift+Tab | Shift+Tab | Shift+Tab | Shift+Tab",
            "_  →  mode Default",
        ),
        (
            "work | Shift+Tab",
            "_ working AcceptEdits  →  mode AcceptEdits",
        ),
    ] {
        check(steps, expected);
    }
}

#[test]
fn pastes_are_inserted_or_folded() {
    let many = "line\n".repeat(9);
    for (steps, expected) in [
        ("paste a\r\nb", "a⏎b_".to_owned()),
        (
            &format!("'see | paste {many}"),
            "see[pasted #1, 9 lines]_".to_owned(),
        ),
        (
            &format!("paste {many} | Enter"),
            format!("_ working  →  print \"> [pasted #1, 9 lines]\", run {many:?}"),
        ),
        // Wherever the text goes.
        (
            &format!("work | '/steer look | paste {many} | Enter"),
            format!("_ working  →  steer {:?}", format!("look{many}").trim()),
        ),
        (
            &format!("'/rename  | paste {many} | Enter"),
            format!(
                "_  →  print \"> /rename [pasted #1, 9 lines]\", Rename({:?})",
                many.trim()
            ),
        ),
        (
            &format!("'!cat <<X | paste {many} | Enter"),
            format!(
                "_ working  →  print \"!cat <<X[pasted #1, 9 lines]\", Shell({:?}, true)",
                format!("cat <<X{many}").trim()
            ),
        ),
        (
            &format!("work | asks | 'n | paste {many} | Enter | answered"),
            format!(
                "_ working  →  print {:?}",
                format!("May it?\n→ n{}", "line ".repeat(9).trim())
            ),
        ),
        // A line with it is called up as it was typed.
        (
            &format!("'see | paste {many} | Enter | well | Up"),
            "see[pasted #1, 9 lines]_".to_owned(),
        ),
        (
            &format!("'see | paste {many} | Enter | well | Up | Up | Down | Enter"),
            format!(
                "_ working  →  print \"> see[pasted #1, 9 lines]\", run {:?}",
                format!("see{many}")
            ),
        ),
        // A token goes as a whole.
        (&format!("'a | paste {many} | Backspace"), "a_".to_owned()),
        (&format!("'a | paste {many} | Ctrl-W"), "a_".to_owned()),
        (
            &format!("'a | paste {many} | Ctrl-A | Ctrl-F | Ctrl-D"),
            "a_".to_owned(),
        ),
        (
            &format!("paste {many} | Enter | well | Ctrl-_ | Enter"),
            "[pasted #1, 9 lines]_ hinting".to_owned(),
        ),
        // A cleared paste frees its number.
        (
            &format!("paste {many} | Ctrl-C | paste {many}"),
            "[pasted #1, 9 lines]_".to_owned(),
        ),
    ] {
        check(steps, &expected);
    }
}

/// While only a subagent in the background works, that is what the run waits for.
#[test]
fn what_a_run_waits_for_is_said() {
    let now = Instant::now();
    let mut app = idle();
    app.work = Some(Activity::run("answering", now));
    for (id, label) in [("a", "waiting for 1 task"), ("b", "waiting for 2 tasks")] {
        let task = ah_conversation::Task {
            id: id.to_owned(),
            call: id.into(),
            description: "dig".to_owned(),
            kind: ah_conversation::TaskKind::Command,
            is_background: true,
        };
        let started = Input::Background(Box::new((task, TaskUpdate::Started)));
        update(&mut app, started, now);
        let end = |reason| EventKind::ApiCallEnd {
            message_id: "m".into(),
            input_tokens: 1,
            output_tokens: 1,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            api_latency_ms: 1,
            model: "m".to_owned(),
            cost_usd: None,
            reason,
        };
        let work = |app: &App| {
            let work = app.work.as_ref().unwrap();
            (work.label.clone(), work.tokens)
        };
        // What is asked beside the conversation changes nothing.
        let before = work(&app);
        let warmed = end(Some(ah_conversation::CallReason::KeepWarm));
        update(&mut app, Input::Event(Box::new(warmed)), now);
        assert_eq!(work(&app), before);
        update(&mut app, Input::Event(Box::new(end(None))), now);
        assert_eq!(work(&app), (label.to_owned(), before.1 + 2));
    }
}
