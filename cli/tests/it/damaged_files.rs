//! Damaged databases: the damaged file is kept, its readable part is recovered, the user is told, and the next run
//! continues. Databases of an unknown version are left as they are.

use std::fs;
use std::path::{Path, PathBuf};

use ah_provider::script::format::Turn;
use ah_testkit::script::says;
use ah_testkit::server::Server;

use crate::interrupted_again_and_again::{Talk, open_sound};
use crate::support::binary::World;
use crate::support::random::{Random, rounds};

/// A way to damage a database and its write-ahead log.
type Damage = fn(&mut Vec<u8>, &mut Vec<u8>, &mut Random);

fn place(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap()
}

const DAMAGES: [(&str, Damage); 6] = [
    ("truncated", |database, _, random| {
        let length = place(random, database.len());
        database.truncate(length);
    }),
    ("flipped bits", |database, _, random| {
        for _ in 0..20 {
            let at = place(random, database.len());
            database[at] ^= 1 << random.below(8);
        }
    }),
    ("zeroed", |database, _, random| {
        let start = place(random, database.len());
        let end = (start + 8_192).min(database.len());
        database[start..end].fill(0);
    }),
    ("without its first page", |database, _, _| {
        database[..4_096].fill(0xff);
    }),
    ("something else altogether", |database, _, random| {
        database.fill_with(|| u8::try_from(random.below(256)).unwrap());
    }),
    ("with a log of junk", |_, log, random| {
        log.resize(20_000, 0);
        log.fill_with(|| u8::try_from(random.below(256)).unwrap());
    }),
];

#[test]
fn a_damaged_session_is_kept_aside_saved_and_gone_on_with() {
    let mut random = Random::new();
    let talk = Talk::with_tools();
    for prompt in ["go", "and", "so", "on"] {
        talk.ah(prompt).run().expect(0);
    }
    let path = talk.world.database();
    let sound = fs::read(&path).unwrap();
    for _ in 0..rounds("AH_TEST_DAMAGED", 3) {
        for (what, damage) in DAMAGES {
            let (mut database, mut log) = (sound.clone(), Vec::new());
            damage(&mut database, &mut log, &mut random);
            fs::write(&path, &database).unwrap();
            if !log.is_empty() {
                fs::write(with_ending(&path, "-wal"), &log).unwrap();
            }
            go_on(&talk.world, what);
            for (kept, bytes) in kept_aside(&path) {
                assert_ne!(bytes, sound, "{what}");
                fs::remove_file(kept).unwrap();
            }
        }
    }
}

/// Starts another run; fails unless it continues and reports `what` was done.
fn go_on(world: &World, what: &str) {
    let path = world.database();
    let server = Server::new([says("Went on.")]);
    let run = || {
        let ended = world.asking(&server, ["-m", "sonnet", "go on"]).run();
        let kept = kept_aside(&path);
        assert_eq!(
            ended.stderr.contains("damaged"),
            !kept.is_empty(),
            "{what}: {ended:#?}"
        );
        for (kept, _) in kept {
            // The damaged file is named; its log is beside it.
            let name = kept.display().to_string();
            let name = name.strip_suffix("-wal").unwrap_or(&name);
            assert!(ended.stderr.contains(name), "{what}: {ended:#?}");
        }
        ended.without_panic()
    };
    let mut ended = run();
    if ended.code == Some(1) {
        // The lost part may have been needed for the write. The remaining database is sound.
        assert!(
            ended.stderr.contains(&*path.to_string_lossy()),
            "{what}: {ended:#?}"
        );
        assert_ne!(kept_aside(&path).len(), 0, "{what}: {ended:#?}");
        ended = world.asking(&server, ["-m", "sonnet", "go on"]).run();
    }
    let ended = ended.expect(0);
    assert_eq!(ended.stdout, "Went on.\n", "{what}: {ended:#?}");
    assert_eq!(server.refusals(), Vec::<String>::new(), "{what}");
    let doctor = world.asking(&server, ["-m", "sonnet", "doctor"]).run();
    match doctor.code {
        // The damage is in a part that was not read.
        Some(1) => assert!(
            doctor.stdout.contains(&*path.to_string_lossy()),
            "{doctor:#?}"
        ),
        _ => drop(open_sound(&path)),
    }
    assert!(
        kept_aside(&path).is_empty() || doctor.code == Some(0),
        "{what}: {doctor:#?}"
    );
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The files kept aside for the database at `path`, and their content.
fn kept_aside(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let kept = paths.filter(|path| path.to_string_lossy().contains(".corrupt-"));
    kept.map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn the_doctor_names_a_damaged_session() {
    let world = World::new();
    let server = Server::new([says("Hello."), says("Went on.")]);
    world
        .asking(&server, ["-m", "sonnet", "go"])
        .run()
        .expect(0);
    world
        .asking(&server, ["-m", "sonnet", "doctor"])
        .run()
        .expect(0);
    let path = world.database();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4_096..12_288].fill(0);
    fs::write(&path, bytes).unwrap();
    let report = world
        .asking(&server, ["-m", "sonnet", "doctor"])
        .run()
        .expect(1);
    assert!(
        report.stdout.contains(&path.display().to_string()),
        "{report:#?}"
    );
    world
        .asking(&server, ["-m", "sonnet", "go on"])
        .run()
        .expect(0);
    world
        .asking(&server, ["-m", "sonnet", "doctor"])
        .run()
        .expect(0);
}

#[test]
fn a_session_of_a_newer_program_is_refused_and_left_as_it_is() {
    let world = World::new();
    let server = Server::new([says("Hello."), says("Elsewhere.")]);
    world
        .asking(&server, ["-m", "sonnet", "go"])
        .run()
        .expect(0);
    let path = world.database();
    let connection = open_sound(&path);
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    let refused = world
        .asking(&server, ["-m", "sonnet", "go on"])
        .run()
        .expect(1);
    assert!(
        refused.stderr.contains(&path.display().to_string()),
        "{refused:#?}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(kept_aside(&path).len(), 0);
    let doctor = world.asking(&server, ["-m", "sonnet", "doctor"]).run();
    let remedy = "use the newer `ah`";
    for told in [refused.stderr, doctor.expect(1).stdout] {
        assert!(told.contains(remedy), "{told}");
    }
    world
        .asking(&server, ["-m", "sonnet", "--new", "go"])
        .run()
        .expect(0);
}

#[test]
fn where_nothing_can_be_written_nothing_is_asked() {
    if rustix::process::geteuid().is_root() {
        println!("not run: root may write everywhere");
        return;
    }
    let world = World::new();
    let server = Server::new([says("Never.")]);
    let project = world.project();
    let mut permissions = fs::metadata(&project).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&project, permissions).unwrap();
    let ended = world
        .asking(&server, ["-m", "sonnet", "go"])
        .run()
        .expect(1);
    assert!(
        ended
            .stderr
            .contains(&world.file(".ah").display().to_string()),
        "{ended:#?}"
    );
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_damaged_queue_takes_words_again() {
    let world = World::new();
    let server = Server::new([
        says("Hello."),
        Turn {
            repeat: Some(2),
            ..says("Heard.")
        },
    ]);
    world
        .asking(&server, ["-m", "sonnet", "go"])
        .run()
        .expect(0);
    world.ah(["--steer", "lost"]).run().expect(0);
    let queue = world.database().with_extension("queue.db");
    let mut bytes = fs::read(&queue).unwrap();
    bytes.fill(7);
    fs::write(&queue, bytes).unwrap();
    world.ah(["--followup", "found"]).run().expect(0);
    let ended = world
        .asking(&server, ["-m", "sonnet", "go on"])
        .run()
        .expect(0);
    assert_eq!(ended.stdout, "Heard.\nHeard.\n");
    assert_eq!(server.refusals(), Vec::<String>::new());
}
