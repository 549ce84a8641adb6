use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use ah_agent::CallPlace;
use ah_conversation::{
    Interface, LoopAction, Model, Price, ResultBlock, ToolResult, ToolSpec, Truncation,
};

use super::*;
use crate::print::drawn::Size;
use crate::print::screen::{Look, Outlet};

mod results;

/// Both streams in the order of writing, each line prefixed with the sign of its stream.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<(char, String)>>>);

struct Pen(Paper, char);

impl Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let mut written = self.0.0.lock();
        match written.last_mut() {
            Some((pen, last)) if *pen == self.1 => last.push_str(&text),
            _ => written.push((self.1, text.into_owned())),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn read(&self) -> String {
        let written = self.0.lock();
        let pieces = written.iter().flat_map(|(pen, text)| {
            text.lines()
                .map(move |line| format!("{pen} {line}").trim_end().to_owned())
        });
        pieces
            .collect::<Vec<_>>()
            .join("\n")
            .replace('\x1b', "␛")
            .replace('\t', "⇥")
    }
}

fn spec(name: &str, key: DisplayKey) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: Arc::default(),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: Some(key),
    }
}

fn view(interface: Interface) -> View {
    let price = Price {
        input: 3_000_000,
        output: 15_000_000,
        cache_read: 300_000,
        cache_write: 3_750_000,
        cache_write_1h: 6_000_000,
    };
    View {
        shows_work: interface.shows_work(),
        model: Model {
            provider: "script".into(),
            name: "m".into(),
            context_window: 200_000,
            max_output: 1000,
            price: Some(price),
            long_price: None,
        },
        tools: Arc::new([
            spec("bash", DisplayKey::Command("command")),
            spec("read", DisplayKey::Path("path")),
        ]),
        cwd: "/work".into(),
        session: Some("01ARZ3ND".to_owned()),
        group: None,
        asks: None,
        is_conversation: false,
        elsewhere: None,
    }
}

const SIZE: Size = Size {
    width: 80,
    height: 24,
};
const PIPE: Look = Look {
    out_is_terminal: false,
    err_is_terminal: false,
    colours: false,
    spinner: false,
    drawn: false,
    size: SIZE,
};
const TERMINAL: Look = Look {
    out_is_terminal: true,
    err_is_terminal: true,
    colours: true,
    spinner: false,
    drawn: false,
    size: SIZE,
};
const DRAWN: Look = Look {
    drawn: true,
    ..TERMINAL
};

fn show(view: View, look: Look, events: &[EventKind]) -> String {
    let paper = Paper::default();
    let screen = Screen::new(
        Box::new(Pen(paper.clone(), '1')),
        Box::new(Pen(paper.clone(), '2')),
        look,
        Outlet::default(),
    );
    let text = Text::new(view, screen);
    for kind in events {
        match kind {
            EventKind::TextDelta { text: piece } => text.text(piece),
            EventKind::ToolCallEnd {
                tool_name,
                tool_output,
                is_error,
                duration_ms,
                tool_key,
                tool_index,
                tool_count,
                tool_lines,
            } => {
                let result = ToolResult {
                    tool_use_id: "t".into(),
                    tool_name: tool_name.clone(),
                    content: vec![ResultBlock::Text {
                        text: tool_output.clone(),
                    }],
                    is_error: *is_error,
                    duration_ms: *duration_ms,
                    details: None,
                    lines: *tool_lines,
                };
                let place = CallPlace {
                    key: tool_key,
                    index: *tool_index,
                    count: *tool_count,
                };
                text.update(SessionUpdate::Result(&result, place));
            }
            kind => text.update(SessionUpdate::Happened(kind)),
        }
    }
    drop(text);
    paper.read()
}

fn says(text: &str) -> EventKind {
    EventKind::TextDelta {
        text: text.to_owned(),
    }
}

fn starts() -> EventKind {
    EventKind::AgentStart {
        model: "m".into(),
        prompt: "fix it".into(),
        parent_id: None,
    }
}

fn answered() -> EventKind {
    EventKind::ApiCallEnd {
        message_id: "1".into(),
        input_tokens: 2_000,
        output_tokens: 100,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 10_000,
        api_latency_ms: 5,
        model: "m".into(),
        cost_usd: Some(0.0105),
        reason: None,
    }
}

fn ran(name: &str, key: &str, output: &str, is_error: bool) -> EventKind {
    EventKind::ToolCallEnd {
        tool_name: name.into(),
        tool_output: output.into(),
        is_error,
        duration_ms: 1200,
        tool_key: key.into(),
        tool_index: 1,
        tool_count: 1,
        tool_lines: None,
    }
}

fn ends(stop_reason: ExitReason, error: Option<&str>) -> EventKind {
    EventKind::AgentEnd {
        stop_reason,
        total_input_tokens: 0,
        total_output_tokens: 0,
        total_cache_read_tokens: 0,
        error: error.map(str::to_owned),
        error_class: None,
    }
}

fn failed(error: &str) -> EventKind {
    EventKind::Error {
        error: error.to_owned(),
    }
}

fn retry() -> EventKind {
    EventKind::Retry {
        attempt: 0,
        delay_ms: 1500,
        status: 529,
        error: "overloaded".into(),
    }
}

fn a_run() -> Vec<EventKind> {
    vec![
        starts(),
        says("Let me "),
        says("look."),
        answered(),
        ran("read", "/work/src/main.rs", "1\tfn main() {}\n", false),
        ran("bash", "make \x1b]0;x\x07", "no rule\n\x1b[2J\n", true),
        says("All\x1b[31m done."),
        answered(),
        ends(ExitReason::EndTurn, None),
    ]
}

#[test]
fn in_a_pipe_all_is_plain() {
    insta::assert_snapshot!(show(view(Interface::Native), PIPE, &a_run()), @r#"
2 >>> fix it
1 Let me look.
2
2 read (1.2s)
2   src/main.rs
2   1⇥fn main() {}
2
2 ✗ bash (1.2s)
2   $ make ␛]0;x␇
2   no rule
2   ␛[2J
2
1 All␛[31m done.
2 24.0k in (20.0k cached) / 200 out (24.2k total), $0.0210, 6% of 200.0k [01ARZ3ND]
"#);
}

#[test]
fn on_a_terminal_nothing_steers_it_but_we() {
    insta::assert_snapshot!(show(view(Interface::Native), TERMINAL, &a_run()), @r#"
1 Let me look.
2
2 ␛[32m✓␛[0m read ␛[2m(1.2s)␛[0m
2   src/main.rs
2   ␛[2m1⇥fn main() {}␛[0m
2
2 ␛[1m␛[31m✗ bash␛[0m ␛[2m(1.2s)␛[0m
2   $ make ␛]0;x␇
2   ␛[2mno rule␛[0m
2   ␛[2m␛[2J␛[0m
2
1 All␛[31m done.
2 ␛[2m24.0k in (20.0k cached) / 200 out (24.2k total), $0.0210, 6% of 200.0k
2 [01ARZ3ND]␛[0m
"#);
}

#[test]
fn where_it_is_drawn_answers_are_laid_out_and_calls_have_signs() {
    insta::assert_snapshot!(show(view(Interface::Native), DRAWN, &a_run()), @r#"
1 Let me look.
2
2 ␛[32m✓ ␛[0m␛[1mread␛[0m src/main.rs␛[2m (1.2s)␛[0m
2 ␛[1m␛[31m✗ bash␛[0m␛[2m $ ␛[0mmake ␛]0;x␇␛[2m (1.2s)␛[0m
2   ␛[2mno rule␛[0m
2   ␛[2m␛[2J␛[0m
2
1 All␛[31m done.
2
2 ␛[2m24.0k in (20.0k cached) / 200 out (24.2k total), $0.0210, 6% of 200.0k␛[0m
2 ␛[2m[01ARZ3ND]␛[0m
"#);
    let still = Look {
        colours: false,
        ..DRAWN
    };
    let answer = [
        starts(),
        says("# Plan\n\n1. **Look**\n2. "),
        says("Do\n\nOne \x1b[2J"),
        retry(),
        says("So."),
        answered(),
        ends(ExitReason::MaxTurns, None),
    ];
    insta::assert_snapshot!(show(view(Interface::Native), still, &answer), @r#"
1 # Plan
1
1 1. Look
1 2. Do
1
1 One ␛[2J
2 connection lost; retrying the answer from the start
2
2 retried once: overloaded (529)
2
1 So.
2 stopped by --max-turns
2
2 12.0k in (10.0k cached) / 100 out (12.1k total), $0.0105, 6% of 200.0k
2 [01ARZ3ND]
"#);
    // The last answer alone is printed unchanged.
    assert_eq!(
        show(view(Interface::AgentSdk), still, &answer)
            .lines()
            .next(),
        Some("2 overloaded (529), retrying in 1.5s")
    );
}

#[test]
fn as_a_drop_in_only_the_last_answer_is_shown_and_once_it_is_whole() {
    insta::assert_snapshot!(show(view(Interface::AgentSdk), PIPE, &a_run()), @r#"
2 read (1.2s)
2   src/main.rs
2   1⇥fn main() {}
2
2 ✗ bash (1.2s)
2   $ make ␛]0;x␇
2   no rule
2   ␛[2J
2
1 All␛[31m done.
"#);
    let cut_off = [
        starts(),
        says("Let me look."),
        answered(),
        says("I"),
        ends(ExitReason::Interrupted, None),
    ];
    insta::assert_snapshot!(show(view(Interface::AgentSdk), PIPE, &cut_off), @r#"
"#);
}

#[test]
fn a_retry_voids_what_was_shown() {
    let events = [
        starts(),
        says("The ans"),
        retry(),
        says("The answer."),
        answered(),
        ends(ExitReason::EndTurn, None),
    ];
    insta::assert_snapshot!(show(view(Interface::Native), PIPE, &events), @r#"
2 >>> fix it
1 The ans
2 connection lost; retrying the answer from the start
2 overloaded (529), retrying in 1.5s
1 The answer.
2 12.0k in (10.0k cached) / 100 out (12.1k total), $0.0105, 6% of 200.0k [01ARZ3ND]
"#);
    insta::assert_snapshot!(show(view(Interface::AgentSdk), PIPE, &events), @r#"
2 overloaded (529), retrying in 1.5s
1 The answer.
"#);
}

#[test]
fn what_ends_the_run_is_left_to_the_end_of_the_program() {
    let events = [
        starts(),
        failed("no summary could be made"),
        says("On."),
        answered(),
        failed("API error 400: bad"),
        ends(ExitReason::Error, Some("API error 400: bad")),
    ];
    insta::assert_snapshot!(show(view(Interface::Native), PIPE, &events), @r#"
2 >>> fix it
2 no summary could be made
1 On.
2 12.0k in (10.0k cached) / 100 out (12.1k total), $0.0105, 6% of 200.0k [01ARZ3ND]
"#);
}

#[test]
fn a_workflow_gets_its_markers() {
    let view = View {
        group: Some("plan".to_owned()),
        ..view(Interface::Native)
    };
    let events = [
        starts(),
        says("No."),
        answered(),
        ends(ExitReason::Error, Some("it\nbroke")),
    ];
    insta::assert_snapshot!(show(view, PIPE, &events), @r#"
1 ::group::plan
2 >>> fix it
1 No.
2 12.0k in (10.0k cached) / 100 out (12.1k total), $0.0105, 6% of 200.0k [01ARZ3ND]
1 ::endgroup::
1 ::error::it%0Abroke
"#);
}

#[test]
fn what_goes_on_besides_is_told_in_a_line() {
    let events = [
        EventKind::SteeringReceived {
            content: "go left".into(),
            message_count: 1,
        },
        EventKind::FollowupReceived {
            content: "then right".into(),
            message_count: 1,
        },
        EventKind::LoopDetected {
            consecutive_count: 3,
            turn_signature: "bash:make".into(),
            action: LoopAction::Warn,
        },
        EventKind::CompactionTriggered {
            input_tokens: 165_000,
            context_limit: 200_000,
        },
        EventKind::CompactionComplete {
            input_tokens: 165_000,
            output_tokens: 1_200,
        },
        EventKind::BudgetExceeded {
            total_input_tokens: 900,
            total_output_tokens: 200,
            max_tokens: 1_000,
        },
        EventKind::PayloadWarn {
            payload_bytes: 900_000,
            threshold: 800_000,
        },
        EventKind::Fallback {
            from_model: "big".into(),
            to_model: "small".into(),
            error: "API error 529: overloaded".into(),
        },
    ];
    insta::assert_snapshot!(show(view(Interface::Native), PIPE, &events), @r#"
2 steering: go left
2 follow-up: then right
2 loop: the same calls 3 times in a row; the model was warned: bash:make
2 165.0k of 200.0k tokens used, compacting the conversation
2 compacted to 1.2k tokens
2 stopped: 1.1k tokens used, 1.0k allowed
2 the request is large: 900 kB
2 falling back from big to small: API error 529: overloaded
"#);
}

#[test]
fn progress_is_measured_in_a_few_words() {
    for (done, total, message, expected) in [
        (3.0, None, None, "3"),
        (0.5, Some(1.0), None, "0.5/1"),
        (3.0, Some(10.0), Some("reading"), "reading (3/10)"),
    ] {
        let message = message.map(str::to_owned);
        let progress = Progress {
            done,
            total,
            message,
        };
        assert_eq!(measure(&progress), expected);
    }
}

#[test]
fn the_line_below_a_run_in_a_conversation_is_its_time_and_its_cost() {
    let paper = Paper::default();
    let screen = Screen::new(
        Box::new(Pen(paper.clone(), '1')),
        Box::new(Pen(paper.clone(), '2')),
        PIPE,
        Outlet::default(),
    );
    let mut view = view(Interface::Native);
    view.is_conversation = true;
    let text = Text::new(view, screen);
    let [start, answer, end] = [starts(), answered(), ends(ExitReason::EndTurn, None)];
    text.update(SessionUpdate::Happened(&start));
    text.update(SessionUpdate::Happened(&answer));
    // As if it had begun a while ago.
    let earlier = Instant::now().checked_sub(Duration::from_secs(75));
    text.state.lock().started = Some(earlier.unwrap());
    text.update(SessionUpdate::Happened(&end));
    // The time of the next run is its own.
    for event in [&start, &answer, &end] {
        text.update(SessionUpdate::Happened(event));
    }
    text.flush();
    let said = paper.read();
    assert!(said.contains("2 1m15s · $0.01\n"), "{said}");
    assert!(said.ends_with("2 0s · $0.01"), "{said}");
}

/// Whatever comes after what: lines about the run stand together, and all else is apart by one blank line.
#[test]
fn blocks_of_a_drawn_run_are_apart_by_one_line() {
    let delta = |text: &str| EventKind::TextDelta { text: text.into() };
    let heard = EventKind::SteeringReceived {
        content: "go left".into(),
        message_count: 1,
    };
    let compacts = [
        EventKind::CompactionTriggered {
            input_tokens: 165_000,
            context_limit: 200_000,
        },
        EventKind::CompactionComplete {
            input_tokens: 165_000,
            output_tokens: 1_200,
        },
    ];
    let [triggered, complete] = compacts;
    let retry = EventKind::Retry {
        attempt: 1,
        delay_ms: 500,
        status: 529,
        error: "overloaded".into(),
    };
    let events = [
        starts(),
        triggered,
        complete,
        delta("One."),
        answered(),
        heard,
        retry,
        delta("Two."),
        answered(),
        ends(ExitReason::EndTurn, None),
    ];
    let mut view = view(Interface::Native);
    view.is_conversation = true;
    let look = Look {
        colours: false,
        ..DRAWN
    };
    insta::assert_snapshot!(show(view, look, &events), @"
2 165.0k of 200.0k tokens used, compacting the conversation
2 compacted to 1.2k tokens
2
1 One.
2
2 > go left
2
2 retried once: overloaded (529)
2
1 Two.
2
2 0s · $0.02
");
}
