use std::fs;

use super::*;

/// A project of its own, and the plan of a check of it.
fn planned(command: &str) -> (tempfile::TempDir, PathBuf, CheckPlan) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let [project, copy, outputs] = ["project", "copy", "outputs"].map(|name| {
        fs::create_dir(top.join(name)).unwrap();
        top.join(name)
    });
    fs::create_dir(project.join(".git")).unwrap();
    let plan = CheckPlan {
        command: command.to_owned(),
        project: project.clone(),
        cwd: PathBuf::new(),
        copy: (copy, Box::new(())),
        seals: Vec::new(),
        programs: BTreeSet::new(),
        kept: None,
        is_resealed: false,
        hidden: Vec::new(),
        most: 1,
        timeout: Duration::from_secs(60),
        outputs,
        shell: "/bin/sh".into(),
        confine: Arc::new(|_, _| Ok((None, Vec::new()))),
        is_fresh: false,
    };
    (folder, project, plan)
}

/// What is hidden is to be what it was when the check has passed with it.
#[tokio::test]
async fn what_is_hidden_must_not_change_meanwhile() {
    for (spoils, expected) in [
        ("true", "exit 0"),
        (
            "[ ! -e new ] || echo >> ../project/new",
            "exit 0, but files changed before it could be repeated",
        ),
    ] {
        let (_folder, project, plan) = planned(spoils);
        let verifier = Verifier::seal(plan).await.unwrap();
        fs::write(project.join(".gitignore"), "new").unwrap();
        fs::write(project.join("new"), "").unwrap();
        assert_eq!(verifier.run().await.ending, expected);
    }
}

/// A thread that serves several sessions serves the others meanwhile: files are read on another one, here the only one, which
/// is busy until they were served.
#[test]
fn sealing_holds_nobody_up() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (served, waits) = std::sync::mpsc::channel();
        let busy = tokio::task::spawn_blocking(move || waits.recv().unwrap());
        let (_folder, _, plan) = planned("true");
        let sealing = async {
            let verifier = Verifier::seal(plan).await.unwrap();
            assert!(busy.is_finished());
            verifier.run().await
        };
        let (run, ()) = tokio::join!(sealing, async { served.send(()).unwrap() });
        assert!(run.is_passed);
    });
}
