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

/// Has the model do this to the project.
fn does(project: &Path, command: &str) {
    let mut shell = std::process::Command::new("/bin/sh");
    let done = shell.args(["-c", command]).current_dir(project).status();
    assert!(done.unwrap().success(), "{command}");
}

/// A link on the way to what is sealed is sealed as well, also where programs are looked for.
#[tokio::test]
async fn what_leads_to_a_sealed_file_is_sealed() {
    const ABSENT: &str = "mkdir ok; echo 'echo ok' > ok/checker; chmod +x ok/checker";
    let exchanges = |link: &str, file: &str| {
        format!("rm {link}; mkdir -p ok/x; echo : | tee ok/{file} > ok/x/{file}; ln -s ok {link}")
    };
    let moved = "mkdir sums; echo '. ./product' > sums/add.sh; ln -s sums tests";
    let run = "mkdir good; echo '. ./product' > good/run.sh";
    let programs = "mkdir -p bin two; echo 'exec sh ./product' > bin/checker; chmod +x bin/checker";
    for (made, command, lie) in [
        (moved, "sh tests/add.sh", exchanges("tests", "add.sh")),
        (
            &*format!("{run}; ln -s good checks"),
            "sh checks/run.sh",
            exchanges("checks", "run.sh"),
        ),
        (
            &*format!("{run}; ln -s good way; ln -s way checks"),
            "sh checks/run.sh",
            exchanges("way", "run.sh"),
        ),
        (
            &*format!("{run}; mv good/run.sh good/a.sh; ln -s good checks"),
            "for t in checks/*.sh; do sh $t || exit 1; done",
            exchanges("checks", "a.sh"),
        ),
        (
            "mkdir -p node_modules/m; echo '. ./product' > node_modules/m/run.sh; ln -s node_modules/m checks",
            "sh checks/run.sh",
            exchanges("checks", "run.sh"),
        ),
        (
            "mkdir -p good/x; echo '. ../../product' > good/x/run; ln -s good web",
            "cd web/x && sh ./run",
            exchanges("web", "run"),
        ),
        (
            &*format!("{programs}; ln -s bin programs"),
            "PATH=./programs:$PATH; checker",
            format!("{ABSENT}; rm programs; ln -s ok programs"),
        ),
        (
            "mkdir two; ln -s two programs",
            "PATH=./programs:$PATH; checker",
            "echo : > two/checker; chmod +x two/checker".to_owned(),
        ),
        (
            "true",
            "PATH=./programs:$PATH; checker",
            format!("{ABSENT}; ln -s ok programs"),
        ),
    ] {
        for (act, is_mended) in [(&*lie, false), ("echo : > product", true)] {
            let (_folder, project, mut plan) = planned(command);
            plan.programs = ["programs".into()].into();
            does(&project, &format!("echo 'exit 1' > product; {made}"));
            let is_possible = !is_mended || made.contains("product");
            let verifier = Verifier::seal(plan).await.unwrap();
            does(&project, act);
            let run = verifier.run().await;
            let ending = &run.ending;
            assert_eq!(
                run.is_passed,
                is_mended && is_possible,
                "{made}, {act}: {ending}"
            );
            // What lies passes as it is, and not with what is sealed.
            assert_eq!(run.changed.is_empty(), is_mended, "{made}, {act}");
        }
    }
}

/// Who continues a session finds what a link led to when the files were sealed.
#[tokio::test]
async fn links_are_those_of_the_time_of_sealing_for_whoever_continues() {
    let (folder, project, mut plan) = planned("sh tests/add.sh");
    let (_other, _, mut again) = planned("sh tests/add.sh");
    let kept = folder.path().join("kept");
    plan.kept = Some(kept.clone());
    again.kept = Some(kept);
    again.project.clone_from(&project);
    let made = "echo 'exit 1' > product; mkdir sums; ln -s sums tests";
    does(
        &project,
        &format!("{made}; echo '[ -e tests/new ] || . ./product' > sums/add.sh"),
    );
    Verifier::seal(plan).await.unwrap();
    does(
        &project,
        "rm tests; mkdir tests; cp sums/add.sh tests; touch sums/new tests/new",
    );
    let verifier = Verifier::seal(again).await.unwrap();
    assert!(!verifier.run().await.is_passed);
}

/// What is put back for the check is looked at as well: something may break it meanwhile.
#[tokio::test]
async fn a_sealed_file_must_not_change_while_it_is_replaced() {
    for (spoils, expected) in [
        (":", "exit 0"),
        (
            "echo exit 1 > ../project/tests/a.sh",
            "exit 0, but files changed while it ran",
        ),
    ] {
        let (_folder, project, plan) = planned("sh tests/a.sh");
        does(
            &project,
            &format!("mkdir tests; echo '{spoils}' > tests/a.sh"),
        );
        let verifier = Verifier::seal(plan).await.unwrap();
        does(&project, "echo : : > tests/a.sh");
        assert_eq!(verifier.run().await.ending, expected);
    }
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
