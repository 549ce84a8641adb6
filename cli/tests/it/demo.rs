//! `ah demo`.

use std::path::PathBuf;

use crate::support::binary::World;
use crate::support::shown::steady;

/// Runs the demo in a minimal environment, and returns the folder it left behind and its output.
fn play(world: &World) -> (PathBuf, String) {
    let temporary = world.file("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let ended = world.ah(["demo"]).env("TMPDIR", &temporary).run().expect(0);
    let mut folders = std::fs::read_dir(&temporary).unwrap();
    let folder = folders.next().unwrap().unwrap().path();
    assert!(folders.next().is_none());
    let page = format!("{}\n--\n{}", ended.stdout, ended.stderr);
    (
        folder.clone(),
        page.replace(&folder.display().to_string(), "<folder>"),
    )
}

#[test]
fn the_demo_repairs_something_and_its_session_stays() {
    let world = World::new();
    let (folder, page) = play(&world);
    insta::assert_snapshot!(steady(&world, &page), @r#"
I'll run the test first, to see the failure for myself.
A name of two words is greeted as two people. Let me read the program.
There it is: `$*` without quotes is split at every space. `"$@"` keeps each argument whole.
Now the test again.
Both checks pass now.

The loop in `greet.sh` went over `$*`, which the shell splits into words, so "Grace Hopper" became two names. It goes over `"$@"` now: one argument, one greeting.

--
A test fails in <folder>. The model is scripted; everything else is real.

>>> The test fails. Find out why and repair it.

✗ bash (<n>s)
  $ sh test.sh
  ok: greet.sh Ada
  FAIL: greet.sh Grace Hopper
    expected: Hello, Grace Hopper!
    actual:   Hello, Grace! Hello, Hopper! 
  exit code: 1


read (<n>s)
  greet.sh
  1	#!/bin/sh
  2	# Greets everyone who is named.
  3	#
  ... (10 more lines)


edit (<n>s)
  greet.sh
   8       exit 2
   9   fi
  10
  11 - for name in $*; do
  11 + for name in "$@"; do
  12       echo "Hello, $name!"
  13   done


bash (<n>s)
  $ sh test.sh
  ok: greet.sh Ada
  ok: greet.sh Grace Hopper

12.8k in (9.9k cached) / 317 out (13.1k total), $0.0187, 1% of 200.0k [<id>]

The session is kept. To explore it:
  cd <folder>
  <ah> scan      its messages, one per line
  <ah> show 1    one of them
  <ah> tree      all branches
  <ah> usage     the tokens it took
"#);
    assert!(
        std::fs::read_to_string(folder.join("greet.sh"))
            .unwrap()
            .contains("\"$@\"")
    );
    assert!(
        !world.file(".ah").exists(),
        "the folder in which it was started stays as it was"
    );
    let run = |command: &str| {
        world
            .ah(command.split(' '))
            .within(&folder)
            .run()
            .expect(0)
            .stdout
    };
    let pages = ["scan", "show 1", "tree", "usage"].map(run);
    insta::assert_snapshot!(steady(&world, &pages.join("\n")), @r#"
    0 U The test fails. Find out why and repair it.
    1 A I'll run the test first, to see the failure for myself.
        → bash sh test.sh
    3 A A name of two words is greeted as two people. Let me read th...
        → read greet.sh
    5 A There it is: `$*` without quotes is split at every space. `"...
        → edit greet.sh
    7 A Now the test again.
        → bash sh test.sh
>   9 A Both checks pass now. The loop in `greet.sh` went over `$*`,...

--- assistant @1 ---
I'll run the test first, to see the failure for myself.
→ bash sh test.sh

* @0 U The test fails. Find out why and repair it.
* @1 A I'll run the test first, to see the failure for myself.
* @2 U ← results
* @3 A A name of two words is greeted as two people. Let me read th...
* @4 U ← results
* @5 A There it is: `$*` without quotes is split at every space. `"...
* @6 U ← results
* @7 A Now the test again.
* @8 U ← results
> @9 A Both checks pass now. The loop in `greet.sh` went over `$*`,...

         MODEL        INPUT  CACHED  WRITTEN  OUTPUT  HITS  COST
      1  script/demo   2.2k       0     2.2k      48    0%  $0.0090
      2  script/demo   2.3k    2.2k      140      45   93%  $0.0019
      3  script/demo   2.5k    2.3k      230     118   90%  $0.0034
      4  script/demo   2.7k    2.5k      190      32   92%  $0.0020
      5  script/demo   2.8k    2.7k      120      74   95%  $0.0024
5 calls  total        12.8k    9.9k     2.8k     317   77%  $0.0187
"#);
}

/// The user's settings and instructions do not affect the demo.
#[test]
fn the_demo_is_the_same_for_everybody() {
    let world = World::new();
    world.write(".ah/settings.json", r#"{"model": 3, "modle": 4}"#);
    std::fs::create_dir_all(world.home().join(".ah")).unwrap();
    std::fs::write(
        world.home().join(".ah/settings.json"),
        r#"{"permissions": {"deny": ["Bash"]}, "toolConcurrency": "serial"}"#,
    )
    .unwrap();
    let ended = world.ah(["demo"]).run().expect(0);
    assert!(!ended.stderr.contains("settings"), "{}", ended.stderr);
}
