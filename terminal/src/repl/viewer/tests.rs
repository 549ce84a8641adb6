//! What the screen shows after keys.

use ah_render::Palette;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Kind, Looked, Section, Viewer};

fn section(kind: Kind, head: &str, text: &str, depth: usize) -> Section {
    Section {
        kind,
        head: head.to_owned(),
        text: text.to_owned(),
        depth,
        is_folded: kind == Kind::Subagent,
        call: None,
    }
}

fn story() -> Vec<Section> {
    vec![
        section(Kind::Prompt, "you @0", "Look.", 0),
        section(Kind::Thinking, "thinking", "Where is it?", 0),
        section(Kind::Output, "agent look", "Found.", 0),
        section(Kind::Subagent, "subagent ab: look", "", 0),
        section(Kind::Output, "read a.txt", "gold\nsilver", 1),
        section(Kind::Answer, "m @3", "It is **gold**.", 0),
    ]
}

/// Presses keys on a terminal of 40 columns; returns the screen, and what was copied.
fn after(lines: usize, keys: &str) -> (String, Option<String>) {
    let mut viewer = Viewer::new((40, lines));
    viewer.renew(story());
    let mut copied = None;
    for key in keys.split(' ').filter(|key| !key.is_empty()) {
        let code = match key {
            "Enter" => KeyCode::Enter,
            "Tab" => KeyCode::Tab,
            "BackTab" => KeyCode::BackTab,
            "Home" => KeyCode::Home,
            "Up" => KeyCode::Up,
            letter => KeyCode::Char(letter.chars().next().unwrap()),
        };
        if let Looked::Copied(text) = viewer.press(KeyEvent::new(code, KeyModifiers::NONE)) {
            copied = Some(text);
        }
    }
    let rows = viewer.frame(None, Palette::Plain);
    let rows: Vec<_> = rows.iter().map(|row| row.trim_end()).collect();
    (rows.join("\n"), copied)
}

#[test]
fn everything_is_there_and_can_be_folded() {
    insta::assert_snapshot!(after(14, "").0, @"
      - you @0
        Look.
      - thinking
        Where is it?
      - agent look
        Found.
      + subagent ab: look
    ❯ - m @3
        It is gold.




    1-9 of 9 · q back · Tab next · Enter fo…
    ");
    insta::assert_snapshot!(after(14, "Home Tab Tab Enter Tab Enter").0, @"
      - you @0
        Look.
      - thinking
        Where is it?
      + agent look
    ❯ - subagent ab: look
        - read a.txt
          gold
          silver
      - m @3
        It is gold.


    1-11 of 11 · q back · Tab next · Enter …
    ");
    insta::assert_snapshot!(after(8, "z").0, @"
      + you @0
      + thinking
      + agent look
      + subagent ab: look
    ❯ + m @3


    1-5 of 5 · q back · Tab next · Enter fo…
    ");
    assert_eq!(after(14, "z z z").0, after(14, "z").0);
}

#[test]
fn what_is_looked_for_is_unfolded_and_gone_to() {
    insta::assert_snapshot!(after(6, "/ s i l v e r Enter").0, @"
      ❯ - read a.txt
          gold
          silver
      - m @3
        It is gold.
    1 of 1 · n next · N previous
    ");
    insta::assert_snapshot!(after(4, "/ x y z Enter").0, @"
      + subagent ab: look
    ❯ - m @3
        It is gold.
    nothing contains `xyz`
    ");
}

/// The screen cannot go on behind its last rows, but the search does.
#[test]
fn the_next_place_is_found_where_the_screen_cannot_move() {
    for (lines, keys, expected) in [
        // Both are on the last screen.
        (6, "/ g o l d Enter", "1 of 2"),
        (6, "/ g o l d Enter n", "2 of 2"),
        (6, "/ g o l d Enter n n", "1 of 2"),
        (6, "/ g o l d Enter N", "2 of 2"),
        (6, "/ g o l d Enter N N", "1 of 2"),
        // All is on one screen.
        (20, "/ l o o k Enter", "1 of 3"),
        (20, "/ l o o k Enter n", "2 of 3"),
        (20, "/ l o o k Enter n n", "3 of 3"),
        (20, "/ l o o k Enter n n n", "1 of 3"),
        (20, "/ y o u Enter", "1 of 1"),
        // Who has moved searches from there.
        (20, "/ l o o k Enter n Home n", "1 of 3"),
    ] {
        let (screen, _) = after(lines, keys);
        let foot = screen.lines().last().unwrap();
        let remark = format!("{expected} · n next · N previous");
        assert_eq!(foot, remark, "{keys}");
    }
}

#[test]
fn the_marked_part_is_copied() {
    assert_eq!(after(9, "c").1.as_deref(), Some("It is **gold**."));
    assert_eq!(after(9, "Home c").1.as_deref(), Some("Look."));
}
