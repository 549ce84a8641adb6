use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

fn trust(project: &[PathBuf], folders: &[PathBuf], memory: &Memory) -> Trust {
    Trust::decide(&Grounds {
        project,
        given: None,
        folders,
        memory,
    })
}

#[test]
fn who_says_what_decides() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("src/a/sub")).unwrap();
    symlink(path("src"), path("link")).unwrap();
    let home = path("home");
    let answered = |answer: Option<bool>| {
        let mut memory = Memory::read(Some(&home)).0;
        if let Some(answer) = answer {
            memory.keep(&real(&path("src/a")), answer).unwrap();
        }
        memory
    };
    let project = [path("src/a/sub"), path("src/a")];
    for (project, folders, answer, expected) in [
        (&project[..], vec![], None, None),
        (&project, vec![], Some(true), Some(Reason::Answer)),
        (&project, vec![], Some(false), None),
        (
            &project,
            vec![path("src")],
            Some(false),
            Some(Reason::Setting),
        ),
        (&project, vec![path("link/a")], None, Some(Reason::Setting)),
        (&project, vec![path("src/a/sub"), path("sr")], None, None),
        // An answer for a folder does not apply to its subfolders.
        (&project[..1], vec![], Some(true), None),
        (&[path("link/a")], vec![], Some(true), Some(Reason::Answer)),
        (&[], vec![], None, Some(Reason::NoProject)),
    ] {
        let trust = trust(project, &folders, &answered(answer));
        assert_eq!(
            trust.reason(),
            expected,
            "{project:?} {folders:?} {answer:?}"
        );
    }
}

#[test]
fn answers_are_kept_for_the_user_alone() {
    let folder = TempDir::new().unwrap();
    let home = folder.path().join("new/home");
    let (mut memory, _) = Memory::read(Some(&home));
    memory.keep(Path::new("/a"), true).unwrap();
    memory.keep(Path::new("/b"), false).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&home), mode(&home.join("trust.json"))),
        (0o700, 0o600)
    );
    let (memory, error) = Memory::read(Some(&home));
    assert_eq!(error, None);
    let answers = ["/a", "/b", "/a/b"].map(|folder| memory.answer(Path::new(folder)));
    assert_eq!(answers, [Some(true), Some(false), None]);
    assert!(Memory::default().keep(Path::new("/a"), true).is_err());
    for damage in ["", "{", "[]", r#"{"folders": {"/a": "yes"}}"#] {
        fs::write(home.join("trust.json"), damage).unwrap();
        let (memory, error) = Memory::read(Some(&home));
        assert_eq!(memory.answer(Path::new("/a")), None, "{damage}");
        assert!(error.unwrap().contains("trust.json"), "{damage}");
    }
}

#[test]
fn code_is_found_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let project = folder.path().join("project");
    for (name, text) in [
        (".mcp.json", "{}"),
        (".ah/tools/deploy.lua", ""),
        (".ah/models.json", "{}"),
        (".ah/commands/tell.md", "Tell me of $1."),
        (".ah/commands/state/git.md", "Of !`git status`"),
        (".claude/skills/plain/SKILL.md", "Read on."),
        (".claude/skills/busy/bin/run", ""),
        (".agents/skills/flat.md", "!`date`"),
        ("tools/mine.lua", ""),
        ("sub/.ah/bin/x", ""),
    ] {
        let path = project.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::create_dir_all(project.join(".ah/bin")).unwrap();
    symlink(&project, project.join(".ah/commands/up")).unwrap();
    let folders = [project.join("sub"), project];
    let mut trust = trust(&folders, &[], &Memory::default());
    trust.skip_code(&folders);
    trust.skip(folders[1].join(".ah/settings.json"), Some("env"));
    trust.skip(folders[1].join(".ah/settings.json"), Some("providers"));
    insta::assert_snapshot!(trust.skipped().join("\n"), @"
    .agents/skills/flat.md
    .ah/commands/state/git.md
    .ah/models.json
    .ah/settings.json (env, providers)
    .ah/tools
    .claude/skills/busy/bin
    .mcp.json
    sub/.ah/bin
    ");
}
