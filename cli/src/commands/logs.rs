//! `ah logs`: prints the log file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _, stdout};
use std::path::Path;
use std::thread;
use std::time::Duration;

use ah_config::Error;
use ah_conversation::Environment;
use ah_terminal::exit::output_error;
use ah_terminal::print::shown;

/// Interval of checks for new content.
const PAUSE: Duration = Duration::from_millis(200);

/// Prints the log, or its last `lines`; with `follow` also new content until interrupted.
pub fn run(
    environment: &Environment,
    named: Option<&Path>,
    lines: Option<usize>,
    follow: bool,
) -> Result<u8, Error> {
    let kept = environment.get("AH_LOG_FILE").map(Path::new);
    let path = named.or(kept).ok_or_else(|| {
        Error::failure("logging is off")
            .hint("set AH_LOG_FILE to a file and AH_LOG to `debug`, or run with --debug-file FILE")
    })?;
    let failed =
        |error| Error::failure(format!("cannot read the log `{}`: {error}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    let mut position = 0;
    let mut log = Vec::new();
    loop {
        position += file.read_to_end(&mut log).map_err(failed)? as u64;
        let text = String::from_utf8_lossy(&log);
        let text = lines
            .filter(|_| position == log.len() as u64)
            .map_or(&*text, |lines| last(&text, lines));
        let mut out = stdout().lock();
        out.write_all(shown(text).as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| output_error(&error))?;
        drop(out);
        if !follow {
            return Ok(0);
        }
        log.clear();
        thread::sleep(PAUSE);
        // A truncated log starts over.
        if file.metadata().map_err(failed)?.len() < position {
            position = file.seek(SeekFrom::Start(0)).map_err(failed)?;
        }
    }
}

/// Returns the last lines of `text`.
fn last(text: &str, lines: usize) -> &str {
    let ends = text.trim_end_matches('\n').rmatch_indices('\n');
    match (
        lines,
        ends.map(|(at, _)| at + 1).nth(lines.saturating_sub(1)),
    ) {
        (0, _) => "",
        (_, Some(start)) => &text[start..],
        (_, None) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_counted_from_the_end() {
        for (text, lines, expected) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 1, "c"),
            ("a\n", 5, "a\n"),
            ("a\n", 0, ""),
            ("", 1, ""),
        ] {
            assert_eq!(last(text, lines), expected, "{lines} of {text:?}");
        }
    }
}
