//! Background commands.

use ah_conversation::Output;
use ah_tools::Bash;
use serde_json::{Value, json};

use crate::bash::{appears, bash, call, ends};
use crate::folder::{Folder, text};

async fn start(tool: &Bash, folder: &Folder, command: &str) -> Output {
    let input = json!({ "command": command, "run_in_background": true });
    call(tool, folder, "job", input).await
}

async fn ask(tool: &Bash, folder: &Folder, request: &str) -> Output {
    let input = json!({ "command": request, "job": "job", "timeout": 20_000 });
    call(tool, folder, "ask", input).await
}

#[tokio::test]
async fn a_job_is_polled_bit_by_bit() {
    let folder = Folder::new();
    let tool = bash(&folder);
    let script = "echo one; touch first; until [ -e go ]; do sleep 0.01; done; echo two; exit 3";
    let started = start(&tool, &folder, script).await;
    let file = folder.path("out/job.job").display().to_string();
    assert_eq!(
        text(&started),
        format!("started in the background as job job; it writes to {file}")
    );
    let details = started.details.unwrap();
    assert_eq!(details["backgroundTaskId"], "job");
    assert_eq!(details["path"], file);

    appears(&folder, "first").await;
    let mut seen = String::new();
    while !seen.contains("one") {
        seen = text(&ask(&tool, &folder, "output").await);
    }
    assert_eq!(seen, "one\n[still running]");
    assert_eq!(
        text(&ask(&tool, &folder, "output").await),
        "(no new output)\n[still running]"
    );

    folder.put("go", "");
    let ended = ask(&tool, &folder, "wait").await;
    assert_eq!(text(&ended), "error: two\n[ended, exit code: 3]");
    let task = &ended.details.unwrap()["task"];
    assert_eq!(
        (&task["status"], &task["exitCode"]),
        (&json!("failed"), &json!(3))
    );
    assert_eq!(
        text(&ask(&tool, &folder, "output").await),
        "error: (no new output)\n[ended, exit code: 3]"
    );
}

#[tokio::test]
async fn a_job_can_be_stopped() {
    let folder = Folder::new();
    let tool = bash(&folder);
    start(
        &tool,
        &folder,
        "echo $$; echo $$ >pid.new; mv pid.new pid; exec sleep 1000",
    )
    .await;
    appears(&folder, "pid").await;
    let stopped = text(&ask(&tool, &folder, "stop").await);
    let pid = folder.get("pid");
    assert_eq!(stopped, format!("{pid}[stopped]"));
    ends(pid.trim()).await;
}

#[tokio::test]
async fn jobs_end_with_the_session() {
    let folder = Folder::new();
    let tool = bash(&folder);
    start(
        &tool,
        &folder,
        "echo hello; echo $$ >pid.new; mv pid.new pid; exec sleep 1000",
    )
    .await;
    appears(&folder, "pid").await;
    appears(&folder, "out/job.job").await;
    drop(tool);
    ends(folder.get("pid").trim()).await;
    assert!(!folder.path("out/job.job").exists());
}

#[tokio::test]
async fn much_output_comes_in_whole_lines_and_is_all_there() {
    let folder = Folder::new();
    let tool = bash(&folder);
    start(&tool, &folder, "seq 100000; printf end").await;
    let mut all = String::new();
    loop {
        let news = text(&ask(&tool, &folder, "wait").await);
        let (output, state) = news.rsplit_once('[').unwrap();
        all.push_str(output);
        match state {
            "ended; more output follows]" => assert!(output.ends_with('\n')),
            state => {
                assert_eq!(state, "ended, exit code: 0]");
                break;
            }
        }
    }
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(all == expected + "end\n");
}

#[tokio::test]
async fn invalid_requests_to_jobs_give_their_reason() {
    let folder = Folder::new();
    let tool = bash(&folder);
    let ask = async |input: Value| text(&call(&tool, &folder, "ask", input).await);
    assert_eq!(
        ask(json!({ "command": "output", "job": "toolu_1" })).await,
        "error: there is no job toolu_1; if there was one, it ended with the earlier process of this session"
    );
    start(&tool, &folder, "sleep 1000").await;
    assert_eq!(
        ask(json!({ "command": "pause", "job": "job" })).await,
        "error: with `job`, `command` must be `output`, `wait` or `stop`, not `pause`"
    );
}
