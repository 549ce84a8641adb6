//! Deny rules hold for whatever a command starts that is allowed, without a sandbox.

use ah_conversation::{Context, PatternRoots, Permissions, Tool, ToolUse};
use serde_json::json;

use crate::bash::bash;
use crate::folder::{Folder, text};

/// Rules that deny something, and lines that do it without naming it.
const CASES: [(&str, &[&str]); 7] = [
    (
        "Read(.env)",
        &[
            "python3 -c 'print(open(\".e\"+\"nv\").read())'",
            "python3 -c 'print(open(\"sub/.e\"+\"nv\").read())'",
            "x=v; cat .en$x",
            "grep -rh 'secret [12]' .",
            "tar c sub/.e* | tar xO | cat",
            "mv sub other; cat oth*/.e*",
        ],
    ),
    (
        "Read(*.pem)",
        &["cat sub/deep/k*", "cat $(find . -name '*pem')"],
    ),
    (
        "Read(./sub/**)",
        &["cat */.env", "cp -r sub new; cat new/.env"],
    ),
    ("Read(link)", &["cat sub/deep/target"]),
    (
        "Edit(*.lock)",
        &[
            "sed -i 's/kept/x/' c*k",
            "printf '%s\\n' H ',s/kept/x/' w q | ed -s cargo.lock || echo x > cargo.lock",
            "python3 -c 'import os; os.remove(\"cargo.\"+\"lock\")'",
        ],
    ),
    (
        "Edit(sub/**)",
        &[
            "mv sub other; mkdir sub",
            "find . -name guard -delete",
            "rm -rf s*",
        ],
    ),
    (
        "Bash(who:*)",
        &[
            "python3 -c 'import os; os.system(\"wh\"+\"o; echo ran $?\")'",
            "x=o; wh$x && echo ran 0",
        ],
    ),
];

fn folder() -> Folder {
    let folder = Folder::with(&[
        (".env", "secret 1\n"),
        ("sub/.env", "secret 2\n"),
        ("sub/guard", "kept\n"),
        ("sub/deep/key.pem", "secret 3\n"),
        ("sub/deep/target", "secret 4\n"),
        ("cargo.lock", "kept\n"),
    ]);
    std::os::unix::fs::symlink("sub/deep/target", folder.path("link")).unwrap();
    folder
}

async fn run(folder: &Folder, line: &str, rule: &str) -> String {
    let cwd = folder.workspace().cwd().to_owned();
    let permissions = Permissions {
        deny: vec![rule.parse().unwrap()],
        places: PatternRoots {
            project: cwd.clone(),
            cwd,
            home: None,
        },
        ..Permissions::default()
    };
    let call = ToolUse {
        id: "call".into(),
        name: "bash".into(),
        input: json!({ "command": line }).into(),
    };
    let context = Context {
        denied: permissions.denied_to(&call.name),
        ..Context::new(folder.path("out/call"))
    };
    text(&bash(folder).run(&call, &context).await)
}

/// Whether a secret was shown, a guarded file is gone, or the program ran.
fn has_done(folder: &Folder, shown: &str) -> bool {
    let is_kept =
        |name| std::fs::read_to_string(folder.path(name)).is_ok_and(|text| text == "kept\n");
    shown.contains("secret ")
        || shown.contains("ran 0")
        || !is_kept("sub/guard")
        || !is_kept("cargo.lock")
}

#[tokio::test]
async fn what_a_rule_denies_is_kept_from_every_program() {
    for (rule, lines) in CASES {
        for line in lines {
            let (free, kept) = (folder(), folder());
            let shown = run(&free, line, "Read(other)").await;
            assert!(has_done(&free, &shown), "{line}: {shown}");
            let shown = run(&kept, line, rule).await;
            assert!(!has_done(&kept, &shown), "{rule}: {line}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_command_is_told_which_file_is_kept_from_it() {
    let folder = folder();
    let shown = run(&folder, "cat sub/.en*", "Read(.env)").await;
    let place = folder.workspace().cwd().join("sub/.env");
    let told = format!("[a rule denies `{}` to all commands]", place.display());
    assert!(shown.ends_with(&told), "{shown}");
}

/// What was found in a folder is kept until a name in it comes or goes.
#[tokio::test]
async fn files_that_come_and_go_are_looked_up_for_each_command() {
    let folder = folder();
    let line = "cat $(find . -name '*pem')";
    for _ in 0..2 {
        let shown = run(&folder, line, "Read(*.pem)").await;
        assert!(!shown.contains("secret"), "{shown}");
    }
    for name in ["new.pem", "sub/deep/other.pem", "sub/made/a/b.pem"] {
        let path = folder.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "secret 5\n").unwrap();
        let shown = run(&folder, line, "Read(*.pem)").await;
        assert!(!shown.contains("secret"), "{name}: {shown}");
        std::fs::rename(&path, folder.path("sub/plain")).unwrap();
        let shown = run(&folder, "cat sub/pl*", "Read(*.pem)").await;
        assert!(shown.contains("secret 5"), "{name}: {shown}");
        std::fs::rename(folder.path("sub/plain"), folder.path("sub/late.pem")).unwrap();
        let shown = run(&folder, line, "Read(*.pem)").await;
        assert!(!shown.contains("secret"), "{name}: {shown}");
        std::fs::remove_file(folder.path("sub/late.pem")).unwrap();
    }
}
