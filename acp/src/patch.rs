//! Changes of files as text: a patch as git writes it, and blocks of code. Pure.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// Returns the change of a file with these hunks as a patch, all paths absolute; `content` is that of a new file.
pub(crate) fn patch(path: &Path, hunks: &[Value], content: Option<&str>) -> String {
    let name = quoted(path);
    let mut text = format!("diff --git {name} {name}\n");
    let Some(content) = content else {
        let _ = write!(text, "--- {name}\n+++ {name}\n");
        for hunk in hunks {
            let number = |field: &str| hunk[field].as_u64().unwrap_or(0);
            let [old, olds] = [number("oldStart"), number("oldLines")];
            let [new, news] = [number("newStart"), number("newLines")];
            let _ = writeln!(text, "@@ -{old},{olds} +{new},{news} @@");
            for line in hunk["lines"].as_array().into_iter().flatten() {
                let _ = writeln!(text, "{}", line.as_str().unwrap_or_default());
            }
        }
        return text;
    };
    let _ = write!(text, "new file mode 100644\n--- /dev/null\n+++ {name}\n");
    let lines = content.lines().count();
    if lines > 0 {
        let _ = writeln!(text, "@@ -0,0 +1,{lines} @@");
        for line in content.lines() {
            let _ = writeln!(text, "+{line}");
        }
        if !content.ends_with('\n') {
            text.push_str("\\ No newline at end of file\n");
        }
    }
    text
}

/// Returns a path as git writes it: quoted if there is anything unusual in it.
fn quoted(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = path.as_os_str().as_bytes();
    let is_usual = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if bytes.iter().all(is_usual) {
        return path.to_string_lossy().into_owned();
    }
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            byte if is_usual(byte) => text.push(char::from(*byte)),
            byte => _ = write!(text, "\\{byte:03o}"),
        }
    }
    text.push('"');
    text
}

/// Returns text as a block of code in `language`, whatever is in it.
pub(crate) fn fenced(language: &str, text: &str) -> String {
    let (mut longest, mut run) = (2, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!(
        "{fence}{language}\n{}\n{fence}",
        text.trim_end_matches('\n')
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_a_patch_that_git_would_write() {
        let hunks = [json!({
            "oldStart": 3, "oldLines": 2, "newStart": 3, "newLines": 2,
            "lines": [" one", "-two", "+zwei"],
        })];
        assert_eq!(
            patch(Path::new("/work/a.rs"), &hunks, None),
            "diff --git /work/a.rs /work/a.rs\n--- /work/a.rs\n+++ /work/a.rs\n@@ -3,2 +3,2 @@\n one\n-two\n+zwei\n"
        );
        assert_eq!(
            patch(Path::new("/é\n\"b"), &[], Some("x")),
            "diff --git \"/\\303\\251\\n\\\"b\" \"/\\303\\251\\n\\\"b\"\nnew file mode 100644\n--- /dev/null\n\
             +++ \"/\\303\\251\\n\\\"b\"\n@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn no_text_ends_its_fence() {
        assert_eq!(fenced("", "a\n"), "```\na\n```");
        assert_eq!(fenced("", "```\nb"), "````\n```\nb\n````");
    }
}
