//! `ah sandbox exec`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::thread;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::binary::{HANG, World};

/// Whether this machine cannot build the sandbox; then these tests are skipped by name. It is a failure on a machine
/// that should be able to.
#[expect(clippy::print_stderr, reason = "what is left out is named")]
pub fn is_missing() -> bool {
    let world = World::new();
    let probe = world.ah(["sandbox", "exec", "--", "true"]).run();
    if probe.code == Some(0) {
        return false;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "no sandbox, though CI is set: {}",
        probe.stderr
    );
    eprintln!("left out, since there is no sandbox here: {}", probe.stderr);
    true
}

#[test]
fn the_exit_code_is_the_commands() {
    if is_missing() {
        return;
    }
    for (command, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let run = World::new()
            .ah(["sandbox", "exec", "--", "sh", "-c", command])
            .run();
        assert_eq!(run.code, Some(code), "{command}: {}", run.stderr);
    }
    let run = World::new()
        .ah(["sandbox", "exec", "--", "no-such-program"])
        .run();
    assert_eq!(run.code, Some(127));
    assert!(
        run.stderr
            .starts_with("error: cannot run `no-such-program`"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_project_is_written_and_the_home_is_not_seen() {
    if is_missing() {
        return;
    }
    let world = World::new();
    fs::write(world.home().join("secret"), "canary").unwrap();
    world.write("input", "in");
    let command = format!(
        "cat input && echo out > output && ls -A ~ && cat {}/secret",
        world.home().display()
    );
    let run = world
        .ah(["sandbox", "exec", "--", "sh", "-c", &command])
        .run();
    assert_eq!(run.stdout, "in");
    assert!(
        run.stderr.contains("No such file or directory"),
        "{}",
        run.stderr
    );
    assert_eq!(world.text("output"), "out\n");
}

#[test]
fn what_is_unveiled_is_seen_as_far_as_it_was_said() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let data = world.home().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("a"), "one").unwrap();
    let path = data.display();
    let command = format!("cat {path}/a && echo two > {path}/a; echo three > {path}/b; true");
    for (letters, a, has_b) in [("r", "one", false), ("rwc", "two\n", true)] {
        fs::write(data.join("a"), "one").unwrap();
        let grant = format!("{path}:{letters}");
        let run = world
            .ah([
                "sandbox", "exec", "--unveil", &grant, "--", "sh", "-c", &command,
            ])
            .run();
        assert_eq!(
            (run.stdout.as_str(), run.code),
            ("one", Some(0)),
            "{letters}: {}",
            run.stderr
        );
        assert_eq!(fs::read_to_string(data.join("a")).unwrap(), a, "{letters}");
        assert_eq!(data.join("b").exists(), has_b, "{letters}");
    }
}

#[test]
fn a_path_that_does_not_exist_is_named() {
    let world = World::new();
    let run = ["-m", "script:none", "--unveil", "gone:r", "hi"];
    let exec = ["sandbox", "exec", "--unveil", "gone:r", "--", "true"];
    for words in [&run[..], &exec] {
        let refused = world.as_typed(words.iter().copied()).run().expect(2);
        let told = "error: cannot unveil `gone`: it does not exist";
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
}

#[test]
fn a_sandbox_around_the_home_is_refused() {
    let world = World::new();
    let home = world.home();
    let run = world
        .ah([
            "sandbox",
            "exec",
            "--workspace",
            home.to_str().unwrap(),
            "--",
            "true",
        ])
        .run();
    assert_eq!(run.code, Some(78));
    assert!(run.stderr.contains("hide nothing"), "{}", run.stderr);
}

/// The proxy's response to `request`, sent by a shell in the sandbox.
fn ask_proxy(options: &[&str], request: &str) -> String {
    let world = World::new();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/3128; printf '{request}' >&3; cat <&3");
    let arguments = ["sandbox", "exec"]
        .into_iter()
        .chain(options.iter().copied());
    let run = world
        .ah(arguments.chain(["--", "bash", "-c", &script]))
        .run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.stdout
}

#[test]
fn only_allowed_hosts_are_reached_and_a_refusal_says_how() {
    if is_missing() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut seen = [0; 512];
            let length = stream.read(&mut seen).unwrap();
            let line = String::from_utf8_lossy(&seen[..length]);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\n\r\nserved {}",
                line.lines().next().unwrap_or_default()
            );
        }
    });
    let to = format!("127.0.0.1:{port}");
    let connect = format!("CONNECT {to} HTTP/1.1\\r\\n\\r\\nhello\\n");
    let get = format!("GET http://{to}/x HTTP/1.1\\r\\n\\r\\n");
    let by_name = format!("CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\nhello\\n");
    let name = format!("localhost:{port}");
    for (options, request, expected) in [
        (
            vec![],
            &connect,
            format!("403 Forbidden|`--allow-host {to}` would allow it"),
        ),
        (
            vec!["--allow-host", &to],
            &connect,
            "200 Connection Established|served hello".to_owned(),
        ),
        (
            vec!["--allow-http", &to],
            &connect,
            "403 Forbidden|is not allowed".to_owned(),
        ),
        (
            vec!["--allow-http", &to],
            &get,
            "200 OK|served GET /x HTTP/1.1".to_owned(),
        ),
        (
            vec!["--allow-host", &to],
            &get,
            format!("403 Forbidden|`--allow-http {to}`"),
        ),
        (
            vec!["--allow-host", &name],
            &by_name,
            "403 Forbidden|which is not public".to_owned(),
        ),
        (
            vec!["--allow-host", &name, "--allow-host", &to],
            &by_name,
            "200 Connection Established|served hello".to_owned(),
        ),
    ] {
        let answer = ask_proxy(&options, request);
        for part in expected.split('|') {
            assert!(answer.contains(part), "{options:?} {request}: {answer}");
        }
    }
    let world = World::new();
    let direct = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let run = world
        .ah([
            "sandbox",
            "exec",
            "--allow-host",
            &to,
            "--",
            "bash",
            "-c",
            &direct,
        ])
        .run();
    assert_ne!(
        run.code,
        Some(0),
        "the listener outside is not the one inside"
    );
}

#[test]
fn the_proxy_is_served_on_a_socket_of_its_owner() {
    let world = World::new();
    let path = world.file("proxy.sock");
    let running = world.ah(["proxy", path.to_str().unwrap()]).start();
    wait::until("the proxy", || UnixStream::connect(&path).is_ok());
    let mut client = UnixStream::connect(&path).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    client
        .write_all(b"CONNECT example.com:443 HTTP/1.1\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden"), "{answer}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code, Some(0));
    assert!(!path.exists());
}

fn bash(command: &str) -> Turn {
    uses("bash", json!({ "command": command }))
}

#[test]
fn the_tools_of_a_confined_run_share_what_they_may_see() {
    if is_missing() {
        return;
    }
    let world = World::new();
    fs::write(world.home().join("secret"), "canary").unwrap();
    let secret = world.home().join("secret").display().to_string();
    world.write(".git/hooks/sample", "");
    world.write(".git/config", "[core]\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve =
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3";
    let model = world.scenario(
        "confined",
        [
            bash("echo kept > /tmp/note; echo at-home > ~/note"),
            bash("cat /tmp/note ~/note"),
            uses("read", json!({ "path": "/tmp/note" })),
            uses(
                "write",
                json!({ "path": "/tmp/other", "content": "of-the-tool" }),
            ),
            bash("cat /tmp/other"),
            bash(&format!("cat {secret}")),
            uses("read", json!({ "path": secret })),
            uses("grep", json!({ "pattern": "canary", "path": world.home() })),
            uses(
                "write",
                json!({ "path": ".git/hooks/pre-commit", "content": "evil" }),
            ),
            uses(
                "write",
                json!({ "path": world.home().join("new"), "content": "kept apart" }),
            ),
            bash(&format!(
                "(exec 3<>/dev/tcp/127.0.0.1/{port}) || echo unreachable"
            )),
            bash(serve),
            bash("ln -s ../home/secret link"),
            uses("read", json!({ "path": "link" })),
            bash("cd .git && touch commondir"),
            says("done"),
        ],
    );
    let run = world.ah(["-m", &model, "--sandbox", "go"]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let results: Vec<String> = stored_results(&world);
    for (at, expected) in [
        (1, "kept\nat-home"),
        (2, "kept"),
        (4, "of-the-tool"),
        (5, "No such file"),
        (6, "no file"),
        (7, "no matches"),
        (8, "protects it"),
        (10, "unreachable"),
        (11, "405 Method Not Allowed"),
        (13, "no file"),
        (14, "moved a file"),
    ] {
        assert!(
            results[at].contains(expected),
            "{at}: {expected}\n{results:#?}"
        );
    }
    assert!(
        results.iter().all(|result| !result.contains("canary")),
        "{results:#?}"
    );
    assert!(!world.home().join("new").exists());
    assert!(!world.file(".git/hooks/pre-commit").exists());
    assert!(world.file(".git/commondir.quarantined").exists());
}

/// The tool results in the only session, in order.
pub fn stored_results(world: &World) -> Vec<String> {
    let database = rusqlite::Connection::open(world.database()).unwrap();
    let query = "SELECT CAST(tool_output AS TEXT) FROM content_blocks WHERE block_type = 'tool_result' ORDER BY rowid";
    let mut statement = database.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_run_that_insists_on_the_sandbox_does_not_begin_without() {
    let world = World::new();
    world.scenario("once", [says("done")]);
    let model = format!("script:{}", world.file("once.json").display());
    let home = world.home();
    // The home directory as the project cannot be sandboxed.
    let run = world
        .ah(["-m", &model, "--sandbox", "go"])
        .within(&home)
        .run();
    assert_eq!(run.code, Some(78), "{}", run.stderr);
    assert!(
        run.stderr.contains("`ah sandbox check` shows details"),
        "{}",
        run.stderr
    );
    let run = world
        .ah(["-m", &model, "--no-sandbox", "--unveil", "/x", "go"])
        .run();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
}

#[test]
fn programs_are_not_asked_about_confined_commands() {
    if is_missing() {
        return;
    }
    for (options, expected) in [(vec![], false), (vec!["--sandbox"], true)] {
        let world = World::new();
        let model = world.scenario(
            "made",
            [
                uses("Bash", json!({ "command": "touch made" })),
                says("done"),
            ],
        );
        let arguments = ["-p", "-m", &model]
            .into_iter()
            .chain(options)
            .chain(["go"]);
        let run = world.ah(arguments).run();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(world.file("made").exists(), expected);
    }
}

#[test]
fn nothing_is_left_when_the_program_is_killed() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let mark = world.project().display().to_string();
    let command = format!(
        "(setsid sleep 1000 {mark} 2>/dev/null || setsid sleep 1000) & echo $$ > started; exec sleep 1000"
    );
    let model = world.scenario("long", [bash(&command), says("done")]);
    let running = world.ah(["-m", &model, "--sandbox", "go"]).start();
    wait::until("the command", || world.file("started").exists());
    let inside = confined_below(running.pid.as_raw_pid());
    assert!(inside.len() >= 3, "{inside:?}");
    running.signal(Signal::KILL);
    let _ = running.wait_for_end(HANG);
    wait::until("the end of all inside", || {
        !inside.iter().any(|pid| is_alive(*pid))
    });
}

/// Whether it runs. A zombie has no command line, which matters in a container whose first process reaps none.
fn is_alive(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// All descendants of the process.
pub fn confined_below(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children
            .split_whitespace()
            .map(|child| child.parse().unwrap())
        {
            found.push(child);
            found.extend(confined_below(child));
        }
    }
    found
}

#[test]
fn the_lesser_tier_hides_the_home_and_has_no_sockets() {
    let world = World::new();
    fs::write(world.home().join("secret"), "canary").unwrap();
    let command = format!(
        "echo in > made && cat {}/secret; (exec 3<>/dev/tcp/127.0.0.1/80); echo $HOME > /dev/null",
        world.home().display()
    );
    let run = world
        .ah([
            "sandbox", "exec", "--tier", "landlock", "--", "bash", "-c", &command,
        ])
        .run();
    if run.code == Some(78) && std::env::var_os("CI").is_none() {
        return;
    }
    assert_eq!(
        (run.stdout.as_str(), run.code),
        ("", Some(0)),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("Permission denied"), "{}", run.stderr);
    assert!(
        run.stderr.contains("Operation not permitted"),
        "{}",
        run.stderr
    );
    assert_eq!(world.text("made"), "in\n");
}

#[test]
fn each_guarantee_is_tried_and_told() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let run = world.ah(["sandbox", "check", "--json"]).run();
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(told["full"]["held"], true);
    assert!(
        told["full"]["guarantees"].as_array().unwrap().len() >= 15,
        "{told}"
    );
    assert_eq!(told["remedy"], Value::Null);
    let run = world.ah(["sandbox", "check"]).run();
    let line = |name: &str| {
        run.stdout
            .lines()
            .find(|line| line.contains(name))
            .unwrap_or_default()
    };
    assert!(
        line("make a user namespace").contains("Operation not permitted"),
        "{}",
        run.stdout
    );
    // Sandboxes cannot be nested.
    let binary = env!("CARGO_BIN_EXE_ah");
    let inner = world
        .ah([
            "sandbox",
            "exec",
            "--unveil",
            &format!("{binary}:rx"),
            "--",
            binary,
            "sandbox",
            "check",
        ])
        .run();
    assert_eq!(inner.code, Some(78), "{}{}", inner.stdout, inner.stderr);
    assert!(inner.stdout.contains("hint: "), "{}", inner.stdout);
}
