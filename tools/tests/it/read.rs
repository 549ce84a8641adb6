//! Results of `read` for each kind of file.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use ah_conversation::{Access, Interface, Tool as _};
use ah_tools::{Read, Workspace};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::folder::{Folder, run, run_and_drop, text};

fn read(folder: &Folder, input: Value) -> String {
    text(&run(
        &Read::new(folder.workspace(), Interface::Native),
        input,
    ))
}

#[test]
fn lines_are_numbered() {
    for (content, arguments, expected) in [
        ("one\ntwo\n", json!({}), "1\tone\n2\ttwo"),
        ("one\ntwo", json!({}), "1\tone\n2\ttwo"),
        ("one\n\n", json!({}), "1\tone\n2\t"),
        ("\n", json!({}), "1\t"),
        ("", json!({}), "[the file is empty]"),
        ("one\r\ntwo\r\n", json!({}), "1\tone\n2\ttwo"),
        ("a\rb\n", json!({}), "1\ta\rb"),
        ("\u{feff}one\n", json!({}), "1\tone"),
        ("a\nb\nc\n", json!({"offset": 2}), "2\tb\n3\tc"),
        ("a\nb\nc\n", json!({"offset": 2, "limit": 1}), "2\tb"),
        (
            "a\nb\nc\n",
            json!({"offset": 0, "limit": 0}),
            "1\ta\n2\tb\n3\tc",
        ),
        ("a\nb\nc\n", json!({"offset": "3", "limit": 9.0}), "3\tc"),
        (
            "a\nb\n",
            json!({"offset": 3}),
            "error: `f` has only 2 lines; there is no line 3",
        ),
        (
            "a\n",
            json!({"limit": -1}),
            "error: invalid input of read: `-1` is not a whole number, at least 0",
        ),
    ] {
        let folder = Folder::with(&[("f", content)]);
        let mut input = arguments;
        input["path"] = "f".into();
        assert_eq!(
            read(&folder, input.clone()),
            expected,
            "{content:?} {input}"
        );
    }
}

proptest! {
    // Each case is up to 40 calls.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn windows_make_up_the_whole(lines in prop::collection::vec("[a-zä\r\t ]{0,12}", 1..40), size in 1_usize..8) {
        let folder = Folder::with(&[("f", &(lines.join("\n") + "\n"))]);
        let windows: Vec<_> = (1..=lines.len())
            .step_by(size)
            .map(|offset| read(&folder, json!({"path": "f", "offset": offset, "limit": size})))
            .collect();
        prop_assert_eq!(windows.join("\n"), read(&folder, json!({"path": "f"})));
    }
}

#[test]
fn a_missing_file_gets_near_names() {
    let folder = Folder::with(&[
        ("src/main.rs", ""),
        ("src/lib.rs", ""),
        ("docs/guide.md", ""),
        ("Cargo.toml", ""),
    ]);
    for (path, expected) in [
        (
            "src/mian.rs",
            "no file `src/mian.rs`; did you mean `src/main.rs`?",
        ),
        ("main.rs", "no file `main.rs`; did you mean `src/main.rs`?"),
        (
            "cargo.toml",
            "no file `cargo.toml`; did you mean `Cargo.toml`?",
        ),
        (
            "guide.txt",
            "no file `guide.txt`; did you mean `docs/guide.md`?",
        ),
        (
            "src/main.rs/x",
            "no file `src/main.rs/x` (the working directory is `CWD`)",
        ),
    ] {
        let cwd = folder.workspace().cwd().display().to_string();
        let told = read(&folder, json!({ "path": path })).replace(&cwd, "CWD");
        assert_eq!(told, format!("error: {expected}"));
    }
}

#[test]
fn a_directory_gives_its_names() {
    let folder = Folder::with(&[("src/main.rs", ""), ("src/a/b", ""), ("src/.x", "")]);
    assert_eq!(
        read(&folder, json!({"path": "src"})),
        "`src` is a directory with 3 entries\n.x\na/\nmain.rs"
    );
}

#[test]
fn binary_files_are_refused() {
    let folder = Folder::new();
    for (content, expected) in [
        (&b"ab\0cd"[..], "error: `f` is a binary file of 5 bytes"),
        (
            b"\x01\x02abcdefgh",
            "error: `f` is a binary file of 10 bytes",
        ),
        (b"\x01abcdefghi", "1\t\u{1}abcdefghi"),
        (b"\r\x1b[K10%\r\x1b[K20%\n", "1\t\r\u{1b}[K10%\r\u{1b}[K20%"),
        (b"8=F\x019=6\x013=A\x01\n", "1\t8=F\u{1}9=6\u{1}3=A\u{1}"),
        (b"N\x08NA\x08A\n", "1\tN\u{8}NA\u{8}A"),
        (
            b"\x02\x03\x04\x05\n",
            "error: `f` is a binary file of 5 bytes",
        ),
        (
            b"\x1b[31mred, and still a text\n",
            "1\t\u{1b}[31mred, and still a text",
        ),
        (
            b"\xff\xfea\0",
            "error: `f` is a binary file of 4 bytes that looks like text in UTF-16: convert it with `iconv -f UTF-16 \
             -t UTF-8`",
        ),
        (
            b"caf\xe9\n",
            "1\tcaf\u{fffd}\n[not all of it is UTF-8: \u{fffd} stands for other bytes]",
        ),
    ] {
        folder.put("f", content);
        assert_eq!(read(&folder, json!({"path": "f"})), expected);
    }
}

#[test]
fn pipes_and_devices_are_refused() {
    let folder = Folder::new();
    folder.put_pipe("pipe");
    for (path, expected) in [
        ("pipe", "error: `pipe` is a pipe, not a regular file"),
        (
            "/dev/zero",
            "error: `/dev/zero` is a device, not a regular file",
        ),
    ] {
        assert_eq!(read(&folder, json!({ "path": path })), expected);
    }
}

#[test]
fn a_very_long_line_is_cut_between_characters() {
    let folder = Folder::new();
    folder.put("f", format!("a{}\nnext\n", "ä".repeat(10_000)));
    let told = read(&folder, json!({"path": "f"}));
    let (line, next) = told.split_once('\n').unwrap();
    assert!(line.starts_with("1\taä") && line.ends_with("ä [10003 more bytes in this line]"));
    assert_eq!(next, "2\tnext");

    folder.put("f", format!("{}\nnext\n", "x".repeat(10_000)));
    let told = read(&folder, json!({"path": "f"}));
    assert_eq!(told.len(), "1\t\n2\tnext".len() + 10_000);
}

#[test]
fn a_file_of_a_million_lines_is_read_in_parts() {
    let folder = Folder::new();
    let mut file = File::create(folder.path("f")).unwrap();
    let lines: String = (1..=1_000_000).map(|n| format!("line {n}\n")).collect();
    file.write_all(lines.as_bytes()).unwrap();
    assert_eq!(
        read(&folder, json!({"path": "f", "offset": 999_999})),
        "999999\tline 999999\n1000000\tline 1000000"
    );
    let whole = read(&folder, json!({"path": "f"}));
    let last = whole.lines().last().unwrap();
    assert!(
        last.starts_with("[more of the file: read from offset "),
        "{last}"
    );

    // Reading all of it would need all memory.
    file.set_len(1 << 40).unwrap();
    assert_eq!(read(&folder, json!({"path": "f", "limit": 1})), "1\tline 1");
}

#[test]
fn paths_are_resolved_as_in_a_shell() {
    let folder = Folder::with(&[
        ("home/notes", "n\n"),
        ("work/a/f", "f\n"),
        ("work/..x", "x\n"),
    ]);
    std::os::unix::fs::symlink(folder.path("work/a"), folder.path("work/link")).unwrap();
    let workspace = Workspace::new(&folder.path("work"), Some(folder.path("home")), &[]).into();
    let tool = Read::new(workspace, Interface::Native);
    let absolute = folder.path("work/a/f");
    for (path, expected) in [
        ("~/notes", "1\tn"),
        ("./a/../a//f", "1\tf"),
        ("link/f", "1\tf"),
        // `..` is resolved from the link's target, not from its folder.
        ("link/../a/f", "1\tf"),
        ("..x", "1\tx"),
        (absolute.to_str().unwrap(), "1\tf"),
    ] {
        assert_eq!(
            text(&run(&tool, json!({ "file_path": path }))),
            expected,
            "{path}"
        );
        assert_eq!(
            text(&run(&tool, json!({ "path": path }))),
            expected,
            "{path}"
        );
    }
    let real = fs::canonicalize(&absolute).unwrap();
    let access = |input: Value| tool.access(&input.into());
    let link = folder.path("work/link/f");
    assert_eq!(
        access(json!({"file_path": "link/f"})),
        [Access::Read(real), Access::Named(link)]
    );
    assert_eq!(
        access(json!({"path": "/no/such/../f"})),
        [Access::Read(Path::new("/no/f").into())]
    );
}

#[test]
fn a_dropped_call_reads_no_further() {
    let folder = Folder::with(&[("f", &"line\n".repeat(2000))]);
    // A huge sparse tail of zeros in one line.
    let file = File::options().write(true).open(folder.path("f")).unwrap();
    file.set_len(1 << 42).unwrap();
    let tool = Read::new(folder.workspace(), Interface::Native);
    run_and_drop(&tool, json!({"path": "f", "offset": 5000}));
}
