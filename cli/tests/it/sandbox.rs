//! `ah sandbox exec`, as people call it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::process::Signal;

use crate::binary::World;

/// A machine that cannot build the sandbox leaves these tests out, by name; where it should be able to, that is a
/// failure.
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

/// What comes back through the proxy of a sandbox for `request`, sent by a shell inside.
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
    let mut client = loop {
        match UnixStream::connect(&path) {
            Ok(client) => break client,
            Err(_) => thread::yield_now(),
        }
    };
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
