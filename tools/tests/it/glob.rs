//! Searches with `glob`.

use ah_conversation::{Access, Interface, Tool as _};
use ah_tools::Glob;
use serde_json::{Value, json};

use crate::folder::{Folder, run, text};

fn glob(folder: &Folder, input: Value) -> String {
    text(&run(
        &Glob::new(folder.workspace(), Interface::Native),
        input,
    ))
}

#[test]
fn files_are_found_by_pattern() {
    let folder = Folder::with(&[
        (".git/HEAD", ""),
        (".gitignore", "target\n"),
        (".github/ci.yml", ""),
        ("Cargo.toml", ""),
        ("src/main.rs", ""),
        ("src/deep/lib.rs", ""),
        ("src/deep/.env", ""),
        ("src/deep/more/x.rs", ""),
        ("src.rs", ""),
        ("target/out.rs", ""),
    ]);
    for (pattern, path, expected) in [
        (
            "**/*.rs",
            "",
            "src/deep/lib.rs\nsrc/deep/more/x.rs\nsrc/main.rs\nsrc.rs",
        ),
        (
            "*.rs",
            "",
            "src/deep/lib.rs\nsrc/deep/more/x.rs\nsrc/main.rs\nsrc.rs",
        ),
        ("src/*.rs", "", "src/main.rs"),
        ("src/*/*.rs", "", "src/deep/lib.rs"),
        ("src/deep/lib.rs", "", "src/deep/lib.rs"),
        ("./src/../src/*.rs", "", "src/main.rs"),
        ("*.{toml,yml}", "", "Cargo.toml"),
        (".github/*", "", ".github/ci.yml"),
        ("**/.env", "", "src/deep/.env"),
        ("*.rs", "src/deep", "src/deep/lib.rs\nsrc/deep/more/x.rs"),
        ("more/*", "src/deep", "src/deep/more/x.rs"),
        ("../*.rs", "src/deep", "src/main.rs"),
        ("[lm]*.rs", "", "src/deep/lib.rs\nsrc/main.rs"),
        (
            "**/*.py",
            "",
            "no files match\n[not searched, since hidden or ignored: .github, target; name one in path or pattern]",
        ),
        ("src/**/*.py", "", "no files match"),
        // Folders that are hidden or ignored, and named.
        ("target/*.rs", "", "target/out.rs"),
        ("**/target/*.rs", "", "target/out.rs"),
        ("{target,src}/*.rs", "", "src/main.rs\ntarget/out.rs"),
        ("**/.github/**/*.yml", "", ".github/ci.yml"),
        (
            "{.github,src}/*.{yml,rs}",
            "",
            ".github/ci.yml\nsrc/main.rs",
        ),
        (
            "sorc/*.rs",
            "",
            "error: no file `sorc/`; did you mean `src`?",
        ),
        (
            "{a",
            "",
            "error: bad pattern `{a`: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)",
        ),
    ] {
        let input = json!({"pattern": pattern, "path": path});
        assert_eq!(glob(&folder, input), expected, "{pattern} in {path:?}");
    }
    let absolute = folder.workspace().cwd().join("src/*.rs");
    assert_eq!(
        glob(&folder, json!({"pattern": absolute, "path": "target"})),
        "src/main.rs"
    );
}

/// Brackets in names of folders are common where folders are routes.
#[test]
fn brackets_are_a_class_or_a_part_of_a_name() {
    let folder = Folder::with(&[
        ("app/[id]/page.tsx", ""),
        ("app/[...slug]/page.tsx", ""),
        ("app/[[...all]]/page.tsx", ""),
        ("app/i/page.tsx", ""),
        ("app/(group)/page.tsx", ""),
        ("app/x[1].tsx", ""),
    ]);
    for (pattern, expected) in [
        ("app/[id]/*.tsx", "app/[id]/page.tsx\napp/i/page.tsx"),
        ("app/[...slug]/*", "app/[...slug]/page.tsx"),
        ("app/[[...all]]/page.tsx", "app/[[...all]]/page.tsx"),
        ("**/[id]/page.*", "app/[id]/page.tsx\napp/i/page.tsx"),
        ("app/(group)/*", "app/(group)/page.tsx"),
        (r"app/\[id\]/*", "app/[id]/page.tsx"),
        ("x[1].tsx", "app/x[1].tsx"),
    ] {
        assert_eq!(
            glob(&folder, json!({"pattern": pattern})),
            expected,
            "{pattern}"
        );
    }
}

#[test]
fn more_than_a_thousand_are_counted() {
    let folder = Folder::new();
    for number in 0..1003 {
        folder.put(&format!("f{number:04}"), "");
    }
    let told = glob(&folder, json!({"pattern": "*"}));
    assert!(told.starts_with("f0000\nf0001\n"), "{told}");
    assert!(
        told.ends_with("f0999\n[3 more of 1003: narrow the pattern]"),
        "{told}"
    );
}

#[test]
fn a_call_reads_where_the_pattern_leads() {
    let folder = Folder::new();
    let cwd = folder.workspace().cwd().to_owned();
    let tool = Glob::new(folder.workspace(), Interface::AgentSdk);
    for (pattern, path, expected) in [
        ("*.rs", None, cwd.clone()),
        ("a/b/*.rs", None, cwd.join("a/b")),
        ("b/*.rs", Some("a"), cwd.join("a/b")),
        ("/etc/*.conf", Some("a"), "/etc".into()),
        ("/*", None, "/".into()),
        ("../../../../../../../../../../x/*", None, "/x".into()),
    ] {
        let input = json!({"pattern": pattern, "path": path}).into();
        assert_eq!(tool.access(&input), [Access::Read(expected)], "{pattern}");
    }
}
