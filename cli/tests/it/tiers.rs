//! The strongest tier of the sandbox that a machine has is chosen and named; what no tier can protect is refused, or
//! finished later.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use ah_testkit::script::{says, uses, uses_all};
use serde_json::json;

use crate::sandbox::is_missing;
use crate::support::binary::{Ah, World, wait_for_file};

/// Runs a program on a machine that refuses some system calls, given as `number:bits of the first argument:error`.
const MACHINE: &str = r#"
import ctypes, os, struct, sys
code, argument = b"", lambda k, jt, jf, v: struct.pack("HBBI", k, jt, jf, v)
for call in sys.argv[1].split():
    number, bits, error = (int(word, 0) for word in call.split(":"))
    code += argument(0x20, 0, 0, 0) + argument(0x15, 0, 3, number) + argument(0x20, 0, 0, 16)
    code += argument(0x45, 0, 1 if bits else 0, bits) + argument(0x06, 0, 0, 0x50000 | error)
code += argument(0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code, len(code))
program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
pointer = ctypes.create_string_buffer(program, len(program))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(pointer)), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
"#;
/// Flags of namespaces in `clone` and `unshare`, and the same without the user namespace.
const ALL: u32 = 0x7e02_0000;
const OTHERS: u32 = 0x6e02_0000;

/// Numbers of `clone` and `unshare`.
fn numbers() -> (u32, u32) {
    match std::env::consts::ARCH {
        "aarch64" => (220, 97),
        _ => (56, 272),
    }
}

/// A machine without Landlock.
fn without_landlock() -> String {
    "444:0:95".to_owned()
}

/// A container that may not make namespaces.
fn docker() -> String {
    let (clone, unshare) = numbers();
    format!("{unshare}:{ALL}:1 {clone}:{ALL}:1 435:0:38")
}

/// A machine on which a namespace of the user's gives no capabilities.
fn ubuntu() -> String {
    let (clone, unshare) = numbers();
    format!("{unshare}:{OTHERS}:1 {clone}:{OTHERS}:1")
}

fn on(machine: &str, ah: Ah) -> Ah {
    ah.through("python3", ["-c", MACHINE, machine])
}

/// Whether the machines cannot be simulated; prints that tests are skipped.
#[expect(clippy::print_stderr, reason = "what is left out is named")]
fn is_impossible() -> bool {
    let world = World::new();
    let is_simulated = on(&docker(), world.ah(["--version"])).run().code == Some(0);
    if !is_simulated {
        eprintln!("left out, without python3");
    }
    !is_simulated || is_missing()
}

/// A model that tries to read a secret in the home, and writes a file of the project.
fn curious(world: &World) -> String {
    let secret = world.home().join("secret");
    fs::write(&secret, "canary").unwrap();
    let command = format!("cat {}; touch made", secret.display());
    let turns = [
        uses("bash", json!({ "command": command })),
        says("{{result}}"),
    ];
    world.scenario("curious", turns)
}

#[test]
fn without_namespaces_landlock_confines_commands_that_are_asked_about() {
    if is_impossible() {
        return;
    }
    for machine in [docker(), ubuntu()] {
        for (typed, is_made) in [("y\n", true), ("n\n", false)] {
            let world = World::new();
            let model = curious(&world);
            let asked = on(&machine, world.as_typed(["-m", &model, "go"]));
            let ended = asked.at_terminal().stdin(typed).run().expect(0);
            assert_eq!(world.file("made").exists(), is_made, "{}", ended.stderr);
            let what = "commands are sandboxed only by Landlock, without network, so ah asks before each one";
            let stderr = ended.stderr.replace("\r\n", " ").replace('\n', " ");
            assert!(stderr.contains(what), "{}", ended.stderr);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(!said.contains("canary"), "{said}");
        }
        let world = World::new();
        let model = curious(&world);
        let ended = on(&machine, world.as_typed(["-m", &model, "go"])).run();
        assert!(!world.file("made").exists(), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("so this run is read-only"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn without_landlock_namespaces_confine_commands_and_nobody_is_asked() {
    if is_impossible() {
        return;
    }
    let world = World::new();
    let model = curious(&world);
    let machine = without_landlock();
    let ended = on(&machine, world.as_typed(["-m", &model, "go"])).run();
    let ended = ended.expect(0);
    assert!(world.file("made").exists(), "{}", ended.stderr);
    assert!(!ended.stdout.contains("canary"), "{}", ended.stdout);
    let what = "commands are sandboxed by namespaces, without Landlock";
    assert!(ended.stderr.contains(what), "{}", ended.stderr);
    let check = on(&machine, world.ah(["sandbox", "check"])).run();
    let told = "a run without --sandbox uses: namespaces";
    assert!(check.stdout.contains(told), "{}", check.stdout);
    assert_eq!(check.code, Some(78), "{}", check.stdout);
}

/// Without a sandbox nothing keeps a line to reading then, so a run says so.
#[test]
fn a_run_without_a_sandbox_says_where_no_line_is_kept_to_its_verdict() {
    if is_impossible() {
        return;
    }
    for (machine, is_kept) in [(docker(), true), (without_landlock(), false)] {
        let world = World::new();
        let model = world.scenario("s", [says("Done.")]);
        let run = world.as_typed(["--no-sandbox", "-m", &model, "--", "go"]);
        let ended = on(&machine, run).run().expect(0);
        let what = "this kernel cannot keep a command to what was approved (no Landlock)";
        assert_eq!(!ended.stderr.contains(what), is_kept, "{}", ended.stderr);
        let doctor = on(&machine, world.ah(["doctor"])).run().stdout;
        assert_eq!(!doctor.contains("verdicts"), is_kept, "{doctor}");
    }
}

#[test]
fn a_tier_is_required_by_its_name() {
    if is_impossible() {
        return;
    }
    let none = format!("{} {}", docker(), without_landlock());
    for (machine, tier, is_built) in [
        (docker(), "full", false),
        (docker(), "namespaces", false),
        (docker(), "landlock", true),
        (without_landlock(), "full", false),
        (without_landlock(), "namespaces", true),
        (without_landlock(), "landlock", false),
        (none, "landlock", false),
    ] {
        let world = World::new();
        let arguments = ["sandbox", "exec", "--tier", tier, "--", "touch", "made"];
        let ended = on(&machine, world.ah(arguments)).run();
        let code = if is_built { 0 } else { 78 };
        assert_eq!(ended.code, Some(code), "{tier}: {}", ended.stderr);
        assert_eq!(world.file("made").exists(), is_built, "{tier}");
    }
}

#[test]
fn a_project_cannot_choose_a_tier() {
    let world = World::new();
    fs::create_dir_all(world.file(".ah")).unwrap();
    world.write(".ah/settings.json", r#"{"sandbox": {"tier": "landlock"}}"#);
    let model = world.scenario("s", [says("Done.")]);
    let ended = world.as_typed(["--trust", "-m", &model, "go"]).run();
    assert!(ended.stderr.contains("sandbox.tier"), "{}", ended.stderr);
}

#[test]
fn a_second_name_of_a_protected_file_is_refused() {
    if is_missing() {
        return;
    }
    let world = World::new();
    fs::create_dir_all(world.file(".git/hooks")).unwrap();
    world.write(".git/config", "[core]\n");
    fs::hard_link(world.file(".git/config"), world.file("second")).unwrap();
    let command = ["sandbox", "exec", "--", "sh", "-c", "echo evil > second"];
    let ended = world.ah(command).run();
    assert_eq!(ended.code, Some(78), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("has another name"),
        "{}",
        ended.stderr
    );
    assert_eq!(world.text(".git/config"), "[core]\n");
    let model = world.scenario("s", [says("Done.")]);
    let ended = world.as_typed(["-m", &model, "go"]).run();
    assert!(
        ended.stderr.contains("replace it with a copy"),
        "{}",
        ended.stderr
    );
    // A copy in its place is an ordinary file.
    fs::remove_file(world.file("second")).unwrap();
    world.ah(command).run().expect(0);
}

#[test]
fn what_belongs_to_sessions_stays_where_it_is_without_mounts() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let mut git = Command::new("sh");
    let commands =
        "git init -q && git -c user.name=A -c user.email=a@b commit -qm one --allow-empty";
    git.args(["-c", commands]).current_dir(world.project());
    assert!(git.status().unwrap().success());
    let bash = |line: &str| ("bash", json!({ "command": line }));
    let below = world.scenario(
        "below",
        [
            uses_all([bash("seq 90000; echo made > made")]),
            says("Made."),
        ],
    );
    let waits = "seq 100000; until [ -e .ah/worktrees/*/made ]; do sleep 0.01; done";
    let beside = world.scenario("beside", [uses_all([bash(waits)]), says("Seen.")]);
    let agents = json!({
        "below": {"description": "below", "prompt": "Write.", "model": below},
        "beside": {"description": "beside", "prompt": "Wait.", "model": beside},
    });
    let agent = |name: &str| {
        let input = json!({"description": "go", "prompt": "Go.", "subagent_type": name});
        ("agent", input)
    };
    let mut apart = agent("below");
    apart.1["isolation"] = json!("worktree");
    let model = world.scenario(
        "s",
        [
            uses_all([bash("seq 100000")]),
            uses_all([agent("beside"), apart]),
            says("Done."),
        ],
    );
    let agents = agents.to_string();
    let options = [
        "-m",
        &model,
        "--sandbox=landlock",
        "--agents",
        &agents,
        "go",
    ];
    world.ah(options).run().expect(0);
    let entries = fs::read_dir(world.file(".ah")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<_> = names.collect();
    assert!(
        names.iter().all(|name| !name.contains("quarantined")),
        "{names:?}"
    );
    let outputs = names.iter().find(|name| name.ends_with(".out")).unwrap();
    let outputs = world.file(&format!(".ah/{outputs}"));
    let outputs: Vec<_> = fs::read_dir(outputs).unwrap().collect();
    assert_eq!(outputs.len(), 3, "{outputs:?}");
}

#[test]
fn what_a_killed_run_left_is_moved_aside_before_the_next_reads_it() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let planted = r#"{"model": "nobody-chose-this"}"#;
    let command = format!(
        "echo KEY=1 > .envrc; mkdir .claude && echo '{planted}' > .claude/settings.json; echo x > started; sleep 1000"
    );
    let model = world.scenario("s", [uses("bash", json!({ "command": command }))]);
    let started = world.ah(["-m", &model, "--sandbox", "go"]).start();
    wait_for_file(&world.file("started"));
    started.kill();
    for name in [".envrc", ".claude/settings.json"] {
        assert!(world.file(name).exists(), "{name}");
    }
    let next = world.as_typed(["--trust", "doctor"]).run();
    let said = format!("{}{}", next.stdout, next.stderr);
    assert!(!said.contains("nobody-chose-this"), "{said}");
    for name in [".envrc", ".claude"] {
        assert!(!world.file(name).exists(), "{name}");
        let aside = world.file(&format!("{name}.quarantined"));
        assert!(aside.exists(), "{name}");
    }
    let journal = world.home().join(".ah/running");
    assert_eq!(fs::read_dir(journal).unwrap().count(), 0);
}

#[test]
fn a_command_that_ended_leaves_no_journal() {
    if is_missing() {
        return;
    }
    let world = World::new();
    world.ah(["sandbox", "exec", "--", "true"]).run().expect(0);
    let journal = world.home().join(".ah/running");
    assert_eq!(fs::read_dir(journal).unwrap().count(), 0);
}

/// Who a command is, and a file that it makes.
const WHO: &str = "id -u; id -g; id -un; id -gn; stat -c %u:%g .; touch made";

#[test]
fn commands_of_root_have_the_number_of_an_ordinary_user_and_its_name() {
    if is_missing() {
        return;
    }
    let outside = |option: &str| {
        let id = Command::new("id").arg(option).output().unwrap().stdout;
        String::from_utf8(id).unwrap().trim().to_owned()
    };
    for tier in ["full", "namespaces", "landlock"] {
        let world = World::new();
        let option = format!("--tier={tier}");
        let words = ["sandbox", "exec", &option, "--", "bash", "-c", WHO];
        let said = world.ah(words).run().expect(0).stdout;
        let [user, group, name, of_group] = ["-u", "-g", "-un", "-gn"].map(outside);
        let [as_user, as_group] = match rustix::process::geteuid().is_root() && tier != "landlock" {
            true => ["1000", "1000"].map(str::to_owned),
            false => [user.clone(), group.clone()],
        };
        let who = format!("{as_user}\n{as_group}\n{name}\n{of_group}\n{as_user}:{as_group}\n");
        assert_eq!(said, who, "{tier}");
        let made = fs::metadata(world.file("made")).unwrap();
        assert_eq!(made.uid().to_string(), user, "{tier}");
        assert_eq!(made.gid().to_string(), group, "{tier}");
    }
}

#[test]
fn the_names_of_users_are_hidden_and_granted_like_any_file() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let read =
        "cat /etc/passwd > /dev/null 2>&1 && echo read; cat /etc/group > /dev/null && echo read";
    let hidden = json!({"sandbox": {"filesystem": {"denyRead": ["/etc/passwd"]}}});
    fs::create_dir_all(world.home().join(".ah")).unwrap();
    fs::write(world.home().join(".ah/settings.json"), hidden.to_string()).unwrap();
    let words = ["sandbox", "exec", "--", "sh", "-c", read];
    assert_eq!(world.ah(words).run().expect(0).stdout, "read\n");
    let world = World::new();
    let words = [
        "sandbox",
        "exec",
        "--unveil",
        "/etc/passwd:r",
        "--",
        "sh",
        "-c",
        read,
    ];
    assert_eq!(world.ah(words).run().expect(0).stdout, "read\nread\n");
}
