//! Answers of the Interactions API.

use std::collections::VecDeque;

use ah_conversation::StreamEvent;
use ah_provider::interactions::Decoder;

/// The events of an answer do not depend on how it is cut into pieces, and each block has a beginning and an end.
pub fn run(bytes: &[u8]) {
    let (whole, is_whole) = events(bytes, usize::MAX);
    for size in [1, 2, 7] {
        let pieces = events(bytes, size);
        assert!(pieces == (whole.clone(), is_whole), "in pieces of {size}");
    }
    let mut open = Vec::new();
    for event in whole {
        match event {
            StreamEvent::BlockStarted { index, .. } => open.push(index),
            StreamEvent::Delta { index, .. } => assert!(open.contains(&index)),
            StreamEvent::BlockStopped { index } => {
                let at = open.iter().position(|it| *it == index);
                open.remove(at.expect("an open block"));
            }
            _ => {}
        }
    }
    assert!(!is_whole || open.is_empty());
}

/// The events, and whether they are a whole answer.
fn events(bytes: &[u8], size: usize) -> (Vec<StreamEvent>, bool) {
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    for piece in bytes.chunks(size) {
        if decoder.feed(piece, &mut events).is_err() {
            return (events.into(), false);
        }
    }
    let is_whole = decoder.finish(&mut events).is_ok();
    (events.into(), is_whole)
}
