//! Results of commands for the model.

use ah_conversation::{
    Access, Content, Context, Environment, Interface, Output, Reach, Tool, ToolUse,
};
use ah_testkit::wait::eventually;
use ah_tools::{Bash, Shell};
use serde_json::{Value, json};

use crate::folder::{Folder, text};

pub fn bash(folder: &Folder) -> Bash {
    bash_of(folder, Interface::Native)
}

pub fn bash_of(folder: &Folder, interface: Interface) -> Bash {
    let path = std::env::var("PATH").unwrap();
    let variables = [
        ("PATH".into(), path),
        ("GREETING".into(), "hello".into()),
        ("ANTHROPIC_API_KEY".into(), "sk-1".into()),
    ];
    let cwd = folder.workspace().cwd().to_owned();
    let shell = Shell::new(&Environment::new(variables, cwd));
    Bash::new(folder.workspace(), shell, interface)
}

/// Runs a call with the id `id`.
pub async fn call(tool: &dyn Tool, folder: &Folder, id: &str, input: Value) -> Output {
    let call = ToolUse {
        id: id.into(),
        name: tool.spec().name.clone(),
        input: input.into(),
    };
    let context = Context::new(folder.path("out").join(id));
    tool.run(&call, &context).await
}

async fn run(folder: &Folder, input: Value) -> String {
    text(&call(&bash(folder), folder, "call", input).await)
}

#[tokio::test]
async fn a_command_gives_its_output_and_its_failure() {
    let folder = Folder::with(&[("here", "")]);
    for (command, expected) in [
        ("true", "(no output)"),
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n"),
        ("exit 3", "error: exit code: 3"),
        ("echo no >&2; exit 1", "error: no\nexit code: 1"),
        ("printf half; false", "error: half\nexit code: 1"),
        ("kill -9 $$", "error: exit code: 137 (killed by signal 9)"),
        ("ls", "here\n"),
        ("cat; echo no input", "no input\n"),
        (
            "echo $GREETING ${ANTHROPIC_API_KEY:-no key}",
            "hello no key\n",
        ),
        ("set -o | grep -c posix", "1\n"),
    ] {
        assert_eq!(
            run(&folder, json!({ "command": command })).await,
            expected,
            "{command}"
        );
    }
}

/// Runs a command that may do this at most.
async fn run_within(folder: &Folder, command: &str, reach: Reach) -> String {
    let call = ToolUse {
        id: "call".into(),
        name: "bash".into(),
        input: json!({ "command": command }).into(),
    };
    let context = Context {
        reach,
        ..Context::new(folder.path("out/call"))
    };
    text(&bash(folder).run(&call, &context).await)
}

#[tokio::test]
async fn a_command_runs_within_its_verdict_and_tells_which_was_kept() {
    let folder = Folder::with(&[("work/here", "")]);
    let work = folder.path("work");
    let told = run_within(&folder, "touch made", Reach::ReadOnly).await;
    assert!(!folder.path("made").exists());
    let note = "[the command was judged to only read, so it could change no file and reach no network. If it needs more, run \
                it as `bash -c '…'`, which needs permission]";
    assert!(
        told.contains("exit code: 1") && told.ends_with(note),
        "{told}"
    );
    let edits = Reach::Edits(vec![work]);
    let told = run_within(&folder, "touch made", edits.clone()).await;
    assert!(!folder.path("made").exists());
    assert!(
        told.contains("judged to only change files of the working directories"),
        "{told}"
    );
    assert_eq!(
        run_within(&folder, "touch work/made", edits).await,
        "(no output)"
    );
    assert_eq!(
        run_within(&folder, "touch made", Reach::Anything).await,
        "(no output)"
    );
    assert!(folder.path("work/made").exists() && folder.path("made").exists());
}

#[tokio::test]
async fn a_command_that_may_only_read_has_temporary_files_and_fails_as_ever() {
    let folder = Folder::with(&[("here", "text\n")]);
    for (command, expected) in [
        ("cat here", "text\n"),
        ("sort <(cat here) | wc -l", "1\n"),
        (
            "file=$(mktemp) && echo a > $file && cat $file && rm $file",
            "a\n",
        ),
        ("grep nothing here", "error: exit code: 1"),
    ] {
        assert_eq!(
            run_within(&folder, command, Reach::ReadOnly).await,
            expected,
            "{command}"
        );
    }
}

#[tokio::test]
async fn a_timeout_is_told_and_bounded() {
    let folder = Folder::new();
    for (input, expected) in [
        (
            json!({ "command": "echo a; sleep 1000", "timeout": 1000 }),
            "error: a\nerror: timed out after 1000 ms",
        ),
        // Seconds.
        (
            json!({ "command": "echo a; sleep 1000", "timeout": 1 }),
            "error: a\nerror: timed out after 1000 ms",
        ),
        (json!({ "command": "true", "timeout": 999 }), "(no output)"),
        (
            json!({ "command": "true", "timeout": "600000" }),
            "(no output)",
        ),
        (
            json!({ "command": "true", "timeout": 600_001 }),
            "error: `timeout` is 600001 ms; it can be 1 to 600000. For what takes longer, set `run_in_background`.",
        ),
        (
            json!({ "command": "true", "timeout": 0 }),
            "error: `timeout` is 0 ms; it can be 1 to 600000. For what takes longer, set `run_in_background`.",
        ),
    ] {
        assert_eq!(run(&folder, input).await, expected);
    }
}

#[tokio::test]
async fn a_long_output_is_kept_whole_with_its_exit_code() {
    let folder = Folder::new();
    let command = json!({ "command": "seq 100000; exit 3" });
    let output = call(&bash(&folder), &folder, "long", command).await;
    assert!(output.is_error);
    let Content::Spool(spool) = output.content else {
        panic!("a file: {:?}", output.content);
    };
    assert_eq!(spool.path, folder.path("out/long"));
    let whole = folder.get("out/long");
    assert!(whole.starts_with("1\n2\n") && whole.ends_with("\n100000\nexit code: 3"));
    assert!(spool.tail.ends_with(b"\n100000\nexit code: 3"));
}

#[tokio::test]
async fn bytes_that_are_no_text_stay_bytes() {
    let folder = Folder::new();
    let output = call(
        &bash(&folder),
        &folder,
        "call",
        json!({ "command": r"printf '\377\0'" }),
    )
    .await;
    assert_eq!(output.content, Content::Bytes(vec![0xff, 0]));
}

#[test]
fn access_names_the_command_line() {
    let tool = bash(&Folder::new());
    let harmless = |input: Value| match &tool.access(&input.into())[..] {
        [Access::Command(command), ..] => format!("{}: {}", command.line, command.harmless),
        other => format!("{other:?}"),
    };
    for (input, expected) in [
        (json!({ "command": "ls | wc -l" }), "ls | wc -l: true"),
        (json!({ "command": "ls > x" }), "ls > x: false"),
        (
            json!({ "command": "sleep 9", "run_in_background": true }),
            "sleep 9: false",
        ),
        (json!({ "command": "stop", "job": "call" }), "[]"),
    ] {
        assert_eq!(harmless(input), expected);
    }
}

/// The shell follows links where a pattern stands for them, so what they lead to counts.
#[test]
fn patterns_are_looked_up_in_the_file_system() {
    let folder = Folder::new();
    for name in ["plain", "many"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    std::fs::write(folder.path("plain/a.rs"), "").unwrap();
    for name in 0..1100 {
        std::fs::write(folder.path("many").join(name.to_string()), "").unwrap();
    }
    std::os::unix::fs::symlink("/proc", folder.path("link")).unwrap();
    let tool = bash(&folder);
    for (line, harmless) in [
        ("cat plain/*.rs", true),
        ("cat p*/a.rs", true),
        ("cat none*", true),
        ("cat l*/1/environ", false),
        ("cat [l]ink/1/environ", false),
        ("cat ./*/1/environ", false),
        ("ls l?nk/1/fd", false),
        ("cat plain/../l*/1/environ", false),
        ("cat p*/../link/1/environ", false),
        ("cat many/*", false),
        ("cat many/9*", true),
    ] {
        let accesses = tool.access(&json!({ "command": line }).into());
        let [Access::Command(command), ..] = &accesses[..] else {
            panic!("{accesses:?}");
        };
        assert_eq!(command.harmless, harmless, "{line}");
    }
}

#[tokio::test]
async fn a_dropped_call_ends_its_command() {
    let folder = Folder::new();
    let tool = bash(&folder);
    let command = json!({ "command": "echo $$ >pid.new; mv pid.new pid; sleep 1000" });
    tokio::select! {
        _ = call(&tool, &folder, "call", command) => panic!("it sleeps"),
        () = appears(&folder, "pid") => {}
    }
    let pid = folder.get("pid");
    ends(pid.trim()).await;
}

/// Waits for a file.
pub async fn appears(folder: &Folder, name: &str) {
    eventually("a file", || folder.path(name).exists().then_some(())).await;
}

/// Waits for the end of a process, zombies included.
pub async fn ends(pid: &str) {
    let path = std::path::PathBuf::from(format!("/proc/{pid}"));
    eventually("the end of a process", || (!path.exists()).then_some(())).await;
}

#[tokio::test]
async fn git_that_a_rule_allows_to_look_has_a_repository_start_nothing_that_changes_files() {
    let folder = Folder::with(&[("old", "text\n"), (".gitattributes", "old diff=evil\n")]);
    let made = folder.path("made");
    let program = format!("touch {}; cat", made.display());
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &["config", "core.fsmonitor", &program],
        &["config", "diff.evil.textconv", &program],
    ] {
        let mut git = std::process::Command::new("git");
        let status = git.args(arguments).current_dir(folder.path("")).status();
        assert!(status.unwrap().success());
    }
    folder.put("old", "other\n");
    for line in ["git status", "git diff"] {
        run_within(&folder, line, Reach::Anything).await;
        assert!(std::fs::remove_file(&made).is_ok(), "{line}");
        run_within(&folder, line, Reach::ReadOnly).await;
        assert!(!made.exists(), "{line}");
    }
}
