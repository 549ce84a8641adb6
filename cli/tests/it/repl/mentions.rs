//! Files that a prompt names behind an `@`.

use ah_testkit::script::says;
use ah_testkit::server::Server;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

#[test]
fn files_are_completed_and_their_lines_are_sent() {
    let world = World::new();
    // One of the lines is empty, and counts.
    let lines = (1..=30).map(|line| {
        if line == 7 {
            "\n".to_owned()
        } else {
            format!("line {line}\n")
        }
    });
    let lines: String = lines.collect();
    world.write("source/numbers.txt", lines);
    world.write("source/other.txt", "another\n");
    world.write(
        ".ah/settings.json",
        r#"{"permissions": {"deny": ["Read(source/other.txt)"]}}"#,
    );
    world.write("source/two words.md", "The words.\r\nTheir ends.\r\n");
    let server = Server::new(["I see.", "And now."].map(says));
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.types("explain @numb");
    seat.sees("source/numbers.txt");
    seat.types("\t");
    seat.sees("@source/numbers.txt");
    seat.types("#5-7 and @source, not @source/other.txt or a@b, @twowo");
    seat.sees("❯ @\"source/two words.md\"");
    seat.types("\t\r");
    seat.sees("Read source/numbers.txt (3 lines)");
    seat.sees("Listed source (3 entries)");
    seat.sees("Read source/two words.md (2 lines)");
    seat.sees("I see.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let content = server.requests()[0].body["messages"][0]["content"].clone();
    let texts: Vec<_> = { content.as_array().unwrap().iter() }
        .map(|block| block["text"].as_str().unwrap())
        .collect();
    let at = texts
        .iter()
        .position(|text| text.contains("<file"))
        .unwrap();
    assert_eq!(
        texts[at..at + 4],
        [
            "[ah] Named in the prompt:\n<file path=\"source/numbers.txt\" lines=\"5-7\">\nline 5\nline 6\n\n</file>",
            "[ah] Named in the prompt:\n<file path=\"source\">\nnumbers.txt\nother.txt\ntwo words.md\n</file>",
            "[ah] Named in the prompt:\n<file path=\"source/two words.md\">\nThe words.\r\nTheir ends.\n</file>",
            "explain @source/numbers.txt#5-7 and @source, not @source/other.txt or a@b, @\"source/two words.md\"",
        ]
    );
    // Coming back, one sees what was typed.
    let seat = Seat::take(world.asking(&server, ["-m", "sonnet", "-c"]));
    seat.sees("> explain @source/numbers.txt#5-7");
    assert!(
        !seat.scrollback().contains("<file"),
        "{}",
        seat.scrollback()
    );
}
