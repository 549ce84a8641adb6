//! Searches with `grep`, whose output is that of ripgrep.

use std::fs::File;
use std::process::Command;

use ah_conversation::{Access, Interface, Tool as _};
use ah_tools::Grep;
use serde_json::{Value, json};

use crate::folder::{Folder, run, run_and_drop, text};

fn grep(folder: &Folder, input: Value) -> String {
    text(&run(
        &Grep::new(folder.workspace(), Interface::Native),
        input,
    ))
}

fn fixture() -> Folder {
    let folder = Folder::with(&[
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".gitignore", "target\n*.log\n"),
        (".hidden/a.rs", "fn hidden() {}\n"),
        ("README.md", "# Title\n\nfn in prose\n"),
        (
            "src/main.rs",
            "fn main() {\n    run();\n}\n\nfn run() {}\n\n\n\nfn last() {}",
        ),
        (
            "src/deep/lib.rs",
            "struct A;\nimpl A {\n    fn new() -> A {\n        A\n    }\n}\n",
        ),
        ("src.rs", "// no match\n"),
        ("crlf.txt", "FN one\r\nfn two\r\n"),
        ("target/out.rs", "fn ignored() {}\n"),
        ("debug.log", "fn ignored() {}\n"),
    ]);
    folder.put("data.bin", b"fn binary\n\0fn\n");
    folder.put("latin1.txt", b"fn caf\xe9\n");
    folder
}

/// Input of the tool, arguments of `rg`, and the output of both.
const CASES: [(&str, &str, &str); 18] = [
    (
        r#"{"pattern": "fn"}"#,
        "-l fn",
        "README.md\ncrlf.txt\nlatin1.txt\nsrc/deep/lib.rs\nsrc/main.rs",
    ),
    (
        r#"{"pattern": "fn \\w+\\(", "output_mode": "content"}"#,
        r"-n fn\s\w+\(",
        "src/deep/lib.rs:3:    fn new() -> A {\nsrc/main.rs:1:fn main() {\nsrc/main.rs:5:fn run() {}\n\
         src/main.rs:9:fn last() {}",
    ),
    (
        r#"{"pattern": "fn", "output_mode": "count"}"#,
        "-c fn",
        "README.md:1\ncrlf.txt:1\nlatin1.txt:1\nsrc/deep/lib.rs:1\nsrc/main.rs:3",
    ),
    (
        r#"{"pattern": "^fn", "output_mode": "content", "-n": false, "-i": true}"#,
        "-N -i ^fn",
        "README.md:fn in prose\ncrlf.txt:FN one\r\ncrlf.txt:fn two\r\nlatin1.txt:fn caf\u{fffd}\n\
         src/main.rs:fn main() {\nsrc/main.rs:fn run() {}\nsrc/main.rs:fn last() {}",
    ),
    (
        r#"{"pattern": "run", "output_mode": "content", "-C": 1}"#,
        "-n -C1 run",
        "src/main.rs-1-fn main() {\nsrc/main.rs:2:    run();\nsrc/main.rs-3-}\nsrc/main.rs-4-\n\
         src/main.rs:5:fn run() {}\nsrc/main.rs-6-",
    ),
    (
        r#"{"pattern": "struct|last", "output_mode": "content", "-A": "1"}"#,
        "-n -A1 struct|last",
        "src/deep/lib.rs:1:struct A;\nsrc/deep/lib.rs-2-impl A {\n--\nsrc/main.rs:9:fn last() {}",
    ),
    (
        r#"{"pattern": "fn (run|last)", "output_mode": "content", "-B": 1}"#,
        r"-n -B1 fn\s(run|last)",
        "src/main.rs-4-\nsrc/main.rs:5:fn run() {}\n--\nsrc/main.rs-8-\nsrc/main.rs:9:fn last() {}",
    ),
    (
        r#"{"pattern": "impl.*new", "output_mode": "content", "multiline": true}"#,
        "-n -U --multiline-dotall impl.*new",
        "src/deep/lib.rs:2:impl A {\nsrc/deep/lib.rs:3:    fn new() -> A {",
    ),
    (
        r#"{"pattern": "fn", "glob": "*.md"}"#,
        "-l -g *.md fn",
        "README.md",
    ),
    (
        r#"{"pattern": "fn", "glob": "!src/**"}"#,
        "-l -g !src/** fn",
        "README.md\ncrlf.txt\nlatin1.txt",
    ),
    (
        r#"{"pattern": "fn", "type": "rust"}"#,
        "-l -t rust fn",
        "src/deep/lib.rs\nsrc/main.rs",
    ),
    (
        r#"{"pattern": "fn", "path": "src/deep"}"#,
        "-l fn src/deep",
        "src/deep/lib.rs",
    ),
    (
        r#"{"pattern": "impl", "path": "src/deep/lib.rs", "output_mode": "content"}"#,
        "-n impl src/deep/lib.rs",
        "2:impl A {",
    ),
    (
        r#"{"pattern": "fn \\w+", "output_mode": "content", "-o": true}"#,
        r"-n -o fn\s\w+",
        "README.md:3:fn in\ncrlf.txt:2:fn two\nlatin1.txt:1:fn caf\nsrc/deep/lib.rs:3:fn new\n\
         src/main.rs:1:fn main\nsrc/main.rs:5:fn run\nsrc/main.rs:9:fn last",
    ),
    (
        r#"{"pattern": "FN", "output_mode": "count", "-i": true, "type": "md"}"#,
        "-c -i -t md FN",
        "README.md:1",
    ),
    (
        r#"{"pattern": "A", "output_mode": "content", "-A": 1, "-B": 2, "path": "src/deep"}"#,
        "-n -A1 -B2 A src/deep",
        "src/deep/lib.rs:1:struct A;\nsrc/deep/lib.rs:2:impl A {\nsrc/deep/lib.rs:3:    fn new() -> A {\n\
         src/deep/lib.rs:4:        A\nsrc/deep/lib.rs-5-    }",
    ),
    (
        r#"{"pattern": "\\(\\) \\{\n", "multiline": true}"#,
        r"-l -U --multiline-dotall \(\)\s\{\n",
        "src/main.rs",
    ),
    (
        r#"{"pattern": "fn", "path": "data.bin", "output_mode": "content"}"#,
        "-n fn data.bin",
        "binary file matches (found \"\\0\" byte around offset 10)",
    ),
];

/// The expected output was printed by `rg`, which runs again if it is installed.
#[test]
fn the_output_is_that_of_rg() {
    let folder = fixture();
    for (input, same_for_rg, expected) in CASES {
        let output = grep(&folder, serde_json::from_str(input).unwrap());
        assert_eq!(output, expected, "{input}");
        match rg(&folder, same_for_rg) {
            Some(printed) => assert_eq!(printed, expected, "rg {same_for_rg}"),
            None => eprintln!("left out: no `rg` to be asked for {same_for_rg}"),
        }
    }
}

/// Returns the output of `rg`, where it is installed.
fn rg(folder: &Folder, arguments: &str) -> Option<String> {
    let output = Command::new("rg")
        .args([
            "--no-config",
            "--color=never",
            "--no-heading",
            "--sort=path",
        ])
        .args(arguments.split(' '))
        .current_dir(folder.path(""))
        .output()
        .ok()?;
    assert!(output.stderr.is_empty(), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    Some(printed.strip_suffix('\n').unwrap_or(&printed).to_owned())
}

#[test]
fn output_is_paged() {
    let files: Vec<_> = (0..200).map(|n| format!("f{n:03}")).collect();
    let files: Vec<_> = files.iter().map(|name| (name.as_str(), "x\nx\n")).collect();
    let folder = Folder::with(&files);
    for (offset, limit, expected) in [
        (0, 2, "f000\nf001\n[more: set offset to 2]"),
        (2, 1, "f002\n[more: set offset to 3]"),
        (198, 2, "f198\nf199"),
        (199, 9, "f199"),
        (200, 1, "[no output after line 200]"),
    ] {
        let input = json!({"pattern": "x", "head_limit": limit, "offset": offset});
        assert_eq!(grep(&folder, input), expected, "{offset} {limit}");
    }
    let all = json!({"pattern": "x", "output_mode": "content", "head_limit": 0});
    assert_eq!(grep(&folder, all).lines().count(), 400);
}

#[test]
fn very_long_output_is_cut() {
    let folder = Folder::with(&[("a", &"match\n".repeat(1_000_000)), ("b", "match\n")]);
    folder.put("long", "x".repeat(10_000) + "match\n");
    let told = grep(
        &folder,
        json!({"pattern": "match", "output_mode": "content"}),
    );
    assert!(told.len() < 1_100_000, "{}", told.len());
    assert!(told.ends_with(":match\n[more: narrow the search, or set head_limit and offset]"));

    let told = grep(
        &folder,
        json!({"pattern": "match", "path": "long", "output_mode": "content"}),
    );
    assert!(told.len() < 3000, "{told}");
    assert!(
        told.starts_with("1:[8005 bytes ...] xx") && told.ends_with("xxmatch"),
        "{told}"
    );
}

#[test]
fn nothing_found_is_no_error() {
    let folder = Folder::with(&[("a", "text\n")]);
    assert_eq!(grep(&folder, json!({"pattern": "absent"})), "no matches");
    assert_eq!(
        grep(&folder, json!({"pattern": "x", "type": "rust"})),
        "no matches"
    );
}

/// What is hidden, ignored or in a folder with brackets is found where the glob names it.
#[test]
fn a_search_looks_where_the_glob_says() {
    let folder = Folder::with(&[
        (".gitignore", "dist\nnode_modules\n"),
        (".git/HEAD", "word\n"),
        (".github/workflows/ci.yml", "word\n"),
        (".github/workflows/deep/.x/more.yaml", "word\n"),
        ("sub/.github/a.yml", "word\n"),
        ("dist/out.js", "word\n"),
        ("packages/a/dist/out.js", "word\n"),
        ("node_modules/x/index.js", "word\n"),
        ("app/[id]/page.tsx", "word\n"),
        ("app/i/page.tsx", "word\n"),
        ("src/main.rs", "word\n"),
    ]);
    let everywhere = "app/[id]/page.tsx\napp/i/page.tsx\nsrc/main.rs";
    for (glob, path, expected) in [
        ("", "", everywhere),
        (
            ".github/**",
            "",
            ".github/workflows/ci.yml\n.github/workflows/deep/.x/more.yaml",
        ),
        (
            ".github/workflows/*.{yml,yaml}",
            "",
            ".github/workflows/ci.yml",
        ),
        (
            "**/.github/**/*.yml",
            "",
            ".github/workflows/ci.yml\nsub/.github/a.yml",
        ),
        (
            "{.github,src}/**/*.{yml,rs}",
            "",
            ".github/workflows/ci.yml\nsrc/main.rs",
        ),
        ("dist/**", "", "dist/out.js"),
        ("dist/*.js", "", "dist/out.js"),
        ("packages/*/dist/*.js", "", "packages/a/dist/out.js"),
        ("**/node_modules/x/*.js", "", "node_modules/x/index.js"),
        ("*.js", "dist", "dist/out.js"),
        ("dist/*.js", "packages/a", "packages/a/dist/out.js"),
        ("app/[id]/*.tsx", "", "app/[id]/page.tsx\napp/i/page.tsx"),
        (r"app/\[id\]/*.tsx", "", "app/[id]/page.tsx"),
        ("!app/[id]/**", "", "src/main.rs"),
        ("!.github/**", "", everywhere),
    ] {
        let input = json!({"pattern": "word", "glob": glob, "path": path});
        assert_eq!(grep(&folder, input), expected, "{glob} in {path:?}");
    }
}

#[test]
fn the_end_of_a_line_may_have_a_return() {
    let folder = Folder::with(&[
        ("unix.c", "int x;\nreturn;\n"),
        ("win.c", "int x;\r\nreturn;\r\n"),
    ]);
    let both = "unix.c\nwin.c";
    for (pattern, multiline, expected) in [
        ("return;$", false, both),
        ("^int x;$", false, both),
        (r"^int x;$", true, both),
        (r"x;\s+return;$", true, both),
        (r";\r$", false, "win.c"),
        (r"\r\n", true, "win.c"),
        (r";\x0d", false, "win.c"),
        ("retur$", false, "no matches"),
    ] {
        let input = json!({"pattern": pattern, "multiline": multiline});
        assert_eq!(grep(&folder, input), expected, "{pattern}");
    }
    let input = json!({"pattern": "re.*", "output_mode": "content", "-o": true});
    assert_eq!(grep(&folder, input), "unix.c:2:return;\nwin.c:2:return;");
}

#[test]
fn of_a_long_line_the_part_with_the_match_is_shown() {
    let long = format!("{}NEEDLE{}", "a;".repeat(3_000), ";b".repeat(3_000));
    let folder = Folder::with(&[("min.js", &format!("first\n{long}\nlast\n"))]);
    let input = |more: Value| {
        let mut input = json!({"pattern": "NEEDLE", "output_mode": "content"});
        input
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        input
    };
    let told = grep(&folder, input(json!({})));
    assert!(told.starts_with("min.js:2:[5500 bytes ...] a;"), "{told}");
    assert!(
        told.contains("a;NEEDLE;b") && told.ends_with(";b [... 4506 bytes]"),
        "{told}"
    );
    let told = grep(&folder, input(json!({"-C": 1, "path": "min.js"})));
    assert!(told.starts_with("1-first\n2:[5500 bytes ...]"), "{told}");
    assert!(told.ends_with("bytes]\n3-last"), "{told}");
    let told = grep(&folder, input(json!({"-o": true, "-n": false})));
    assert_eq!(told, "min.js:NEEDLE");
    let told = grep(
        &folder,
        json!({"pattern": "first", "output_mode": "content", "-A": 1}),
    );
    assert!(told.starts_with("min.js:1:first\nmin.js-2-a;a;"), "{told}");
    assert!(told.ends_with(" [... 10006 bytes]"), "{told}");
    let told = grep(
        &folder,
        input(json!({"pattern": "^.*NEEDLE", "multiline": true})),
    );
    assert!(told.contains("[... ") && told.len() < 6_000, "{told}");
}

#[test]
fn what_was_not_searched_is_told_where_nothing_is_found() {
    let folder = Folder::with(&[
        (".gitignore", "dist\n"),
        (".git/HEAD", "word\n"),
        (".github/ci.yml", "word\n"),
        ("dist/out.js", "word\n"),
        ("a", "text\n"),
    ]);
    folder.put("data.bin", b"word\0\n");
    let left_out = |names: &str| {
        format!("[not searched, since hidden or ignored: {names}; name one in path or glob]")
    };
    let binary = "\n[1 binary file was not searched: name it in path]";
    for (input, expected) in [
        (
            json!({"pattern": "word"}),
            format!(
                "no matches\n{}{binary}",
                left_out(".github, .gitignore, dist")
            ),
        ),
        (
            json!({"pattern": "word", "glob": "*.rs"}),
            format!("no matches\n{}", left_out(".github, .gitignore, dist")),
        ),
        (
            json!({"pattern": "absent", "glob": ".github/**"}),
            format!("no matches\n{}", left_out(".gitignore, dist")),
        ),
        (
            json!({"pattern": "word", "path": "a"}),
            "no matches".to_owned(),
        ),
        (json!({"pattern": "text"}), "a".to_owned()),
    ] {
        assert_eq!(grep(&folder, input.clone()), expected, "{input}");
    }
}

#[test]
fn failed_searches_give_their_reason() {
    let folder = Folder::with(&[("source/a.rs", "a\n")]);
    folder.put_pipe("pipe");
    for (input, expected) in [
        (
            json!({"pattern": "(a"}),
            "bad pattern: regex parse error:\n    (?:(a)\n    ^\nerror: unclosed group",
        ),
        (
            json!({"pattern": "a\nb"}),
            "bad pattern: the literal \"\\n\" is not allowed in a regex; set multiline to match across lines",
        ),
        (
            json!({"pattern": "a", "path": "sorce"}),
            "no file `sorce`; did you mean `source`?",
        ),
        (
            json!({"pattern": "a", "type": "rusty"}),
            "unrecognized file type: rusty; `glob` takes any pattern",
        ),
        (
            json!({"pattern": "a", "glob": "{a"}),
            "bad glob `{a`: error parsing glob '{a': unclosed alternate group; missing '}' (maybe escape '{' with \
             '[{]'?)",
        ),
        (
            json!({"pattern": 1}),
            "invalid input of grep: invalid type: integer `1`, expected a string",
        ),
        (
            json!({"pattern": "a", "path": "pipe"}),
            "`pipe` is a pipe, not a regular file",
        ),
    ] {
        assert_eq!(
            grep(&folder, input.clone()),
            format!("error: {expected}"),
            "{input}"
        );
    }
}

#[test]
fn a_call_reads_what_it_searches() {
    let folder = Folder::new();
    let cwd = folder.workspace().cwd().to_owned();
    let tool = Grep::new(folder.workspace(), Interface::AgentSdk);
    assert_eq!(tool.spec().name, "Grep");
    let access = |input: Value| tool.access(&input.into());
    assert_eq!(access(json!({"pattern": "x"})), [Access::Read(cwd.clone())]);
    assert_eq!(
        access(json!({"pattern": "x", "path": "a"})),
        [Access::Read(cwd.join("a"))]
    );
}

#[test]
fn a_dropped_call_searches_no_further() {
    let folder = Folder::with(&[("f", &"line\n".repeat(2000))]);
    // A sparse tail of zeros that takes hours to search; a file named explicitly is searched to its end.
    let file = File::options().write(true).open(folder.path("f")).unwrap();
    file.set_len(1 << 42).unwrap();
    let tool = Grep::new(folder.workspace(), Interface::Native);
    run_and_drop(&tool, json!({"pattern": "absent", "path": "f"}));
}
