//! Output that is the same on every machine and day: paths, ids, times and durations are replaced by stand-ins.

use std::path::PathBuf;
use std::sync::LazyLock;

use regex::Regex;

use crate::support::binary::{Ended, World};

/// The varying parts, and their stand-ins.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let ulid = "[0-7][0-9A-HJKMNP-TV-Z]{25}";
    let pairs = [
        (ulid.to_owned(), "<id>"),
        // The beginning of an id, as in lists.
        (r"\b01[0-9A-HJKMNP-TV-Z]{9}\b".to_owned(), "<id>"),
        (
            "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".to_owned(),
            "<uuid>",
        ),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d".to_owned(), "<time>"),
        (r"\b\d+\.\ds\b".to_owned(), "<n>s"),
        (
            r#""(timestamp|created_at|last_written)":\s?\d+"#.to_owned(),
            "\"$1\": <time>",
        ),
        (r#""(\w+_ms)":\s?\d+"#.to_owned(), "\"$1\": <n>"),
        (r"\btoolu_\w+".to_owned(), "<call>"),
        (r"\breq_\w+".to_owned(), "<request>"),
        (r"process \d+".to_owned(), "process <pid>"),
        (r"127\.0\.0\.1:\d+".to_owned(), "<server>"),
    ];
    let compile = |(pattern, name): (String, _)| (Regex::new(&pattern).unwrap(), name);
    pairs.into_iter().map(compile).collect()
});

/// Replaces the varying parts of `text`.
pub fn steady(world: &World, text: &str) -> String {
    let mut text = text.to_owned();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_ah"));
    let places = [
        (world.project(), "<project>"),
        (world.home(), "<home>"),
        (program, "<ah>"),
    ];
    for (path, name) in places {
        text = text.replace(&path.display().to_string(), name);
    }
    for (pattern, name) in VARYING.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    text
}

/// Standard output, standard error and exit code, without trailing blanks.
pub fn shown(world: &World, ended: &Ended) -> String {
    let code = ended
        .code
        .map_or("killed".to_owned(), |code| code.to_string());
    let mut page = String::new();
    for (name, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        if !text.is_empty() {
            page.push_str(&format!(
                "{name}:\n{}\n",
                steady(world, text).trim_end_matches('\n')
            ));
        }
    }
    page.push_str(&format!("exit code {code}"));
    let lines: Vec<_> = page.lines().map(str::trim_end).collect();
    lines.join("\n")
}
