//! States that a repository can be in when the work begins, in the checkout and at the remote.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use super::super::people::commit_of_a_person;
use super::super::site::Site;

/// Makes a state of the repository in the project and at the remote.
pub(super) type State = fn(&Site);

pub(super) const STATES: [(&str, State); 30] = [
    ("plain", |_| {}),
    ("uncommitted changes", |site| {
        site.world.write("greet.sh", "echo mine\n");
        site.world.write("untracked", "mine\n");
    }),
    ("a stash", |site| {
        site.world.write("greet.sh", "echo stashed\n");
        site.git(&site.world.project(), &["stash", "-q"]);
    }),
    ("no branch", |site| {
        site.git(&site.world.project(), &["checkout", "-q", "--detach"]);
    }),
    ("commits that were not pushed", |site| {
        site.world.write("own.txt", "mine\n");
        let project = site.world.project();
        site.git(&project, &["add", "own.txt"]);
        site.git(&project, &["commit", "-qm", "not for others"]);
    }),
    ("a branch of a person", |site| {
        commit_of_a_person(site, "origin/main");
    }),
    ("a branch that was merged", |site| {
        commit_of_a_person(site, "origin/main");
        let person = site.world.home().join("person");
        site.git(&person, &["push", "-q", "origin", "work/7:main"]);
    }),
    ("a base that has moved", |site| {
        let person = site.world.home().join("mover");
        let (remote, path) = (site.remote(), person.to_str().unwrap().to_owned());
        site.git(
            &site.world.home(),
            &["clone", "-q", remote.to_str().unwrap(), &path],
        );
        fs::write(person.join("more.txt"), "more\n").unwrap();
        site.git(&person, &["add", "more.txt"]);
        site.git(&person, &["commit", "-qm", "the base goes on"]);
        site.git(&person, &["push", "-q", "origin", "main"]);
    }),
    ("a local branch of the same name", |site| {
        site.git(&site.world.project(), &["branch", "work/7"]);
    }),
    ("a tag of the same name", |site| {
        let project = site.world.project();
        site.git(&project, &["tag", "work/7"]);
        site.git(&project, &["push", "-q", "origin", "refs/tags/work/7"]);
    }),
    ("hooks that fail", |site| {
        for name in [
            "pre-commit",
            "pre-push",
            "post-checkout",
            "reference-transaction",
        ] {
            let hook = site.world.project().join(".git/hooks").join(name);
            fs::create_dir_all(hook.parent().unwrap()).unwrap();
            fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
            fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }),
    ("attributes and a submodule without content", |site| {
        let project = site.world.project();
        site.world
            .write(".gitattributes", "* text=auto eol=lf\n*.bin filter=lfs\n");
        let entry = "160000,1111111111111111111111111111111111111111,vendor/lib";
        site.git(&project, &["update-index", "--add", "--cacheinfo", entry]);
        site.world.write(
            ".gitmodules",
            "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = https://example.invalid/lib\n",
        );
        site.git(&project, &["add", ".gitattributes", ".gitmodules"]);
        site.git(&project, &["commit", "-qm", "a submodule"]);
        site.git(&project, &["push", "-q", "origin", "main"]);
    }),
    ("staged changes", |site| {
        site.world.write("greet.sh", "echo staged\n");
        site.git(&site.world.project(), &["add", "greet.sh"]);
    }),
    ("a merge in progress", |site| {
        two_sides(site);
        conflicts(site, &["merge", "-q", "side"]);
    }),
    ("a rebase in progress", |site| {
        two_sides(site);
        conflicts(site, &["rebase", "-q", "side"]);
    }),
    ("a shallow clone", |site| {
        commit(site, "second.txt", "second\n");
        let project = site.world.project();
        site.git(&project, &["push", "-q", "origin", "main"]);
        let head = site.git(&project, &["rev-parse", "HEAD"]);
        fs::write(project.join(".git/shallow"), head + "\n").unwrap();
    }),
    ("packed references and objects", |site| {
        site.git(&site.world.project(), &["gc", "-q", "--prune=now"]);
        site.git(&site.remote(), &["gc", "-q", "--prune=now"]);
    }),
    ("signatures that cannot be made", |site| {
        set(site, "commit.gpgSign", "true");
        set(site, "user.signingKey", "nobody");
        set(site, "gpg.program", "/bin/false");
    }),
    ("other ends of lines", |site| {
        set(site, "core.autocrlf", "true");
    }),
    ("a replaced commit", |site| {
        commit(site, "own.txt", "mine\n");
        let project = site.world.project();
        site.git(&project, &["replace", "HEAD~1", "HEAD"]);
        site.git(&project, &["update-ref", "refs/heads/main", "origin/main"]);
        site.git(&project, &["rm", "-q", "--cached", "own.txt"]);
        fs::remove_file(project.join("own.txt")).unwrap();
    }),
    ("another remote for pushes", |site| {
        let other = site.world.home().join("other.git");
        let path = other.to_str().unwrap().to_owned();
        site.git(&site.world.home(), &["init", "-q", "--bare", &path]);
        site.git(&site.world.project(), &["remote", "add", "other", &path]);
        set(site, "remote.pushDefault", "other");
        set(site, "push.default", "nothing");
    }),
    ("an address that is rewritten", |site| {
        let project = site.world.project();
        let home = site.world.home();
        let real = format!("url.{}/.insteadOf", home.to_str().unwrap());
        set(site, &real, "hub:");
        let words = ["remote", "set-url", "origin", "hub:remote.git"];
        site.git(&project, &words);
    }),
    ("a worktree with the branch", |site| {
        let place = site.world.home().join("beside");
        let path = place.to_str().unwrap().to_owned();
        let words = ["worktree", "add", "-q", "-b", "work/7", &path];
        site.git(&site.world.project(), &words);
    }),
    ("strange names", |site| {
        for name in ["ä ö", "-x", "a\nb", "\"q\"", ":(top)x", "$(id)"] {
            site.world.write(name, "strange\n");
        }
        push_all(site, "strange names");
    }),
    ("a sparse checkout", |site| {
        site.world.write("sub/kept.txt", "kept\n");
        push_all(site, "a folder");
        let project = site.world.project();
        site.git(&project, &["sparse-checkout", "set", "--no-cone", "/sub"]);
    }),
    ("a lock that was left", |site| {
        fs::write(site.world.project().join(".git/index.lock"), "").unwrap();
    }),
    ("everything ignored", |site| {
        site.world
            .write(".gitignore", "*\n!greet.sh\n!.gitignore\n!*.txt\n");
        push_all(site, "ignores everything");
    }),
    ("links and programs", |site| {
        let project = site.world.project();
        symlink("greet.sh", project.join("link")).unwrap();
        symlink("/nowhere", project.join("broken")).unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(project.join("greet.sh"), mode).unwrap();
        push_all(site, "links");
    }),
    ("a branch that is gone", |site| {
        commit_of_a_person(site, "origin/main");
        site.git(&site.world.project(), &["fetch", "-q", "origin"]);
        site.git(&site.remote(), &["update-ref", "-d", "refs/heads/work/7"]);
    }),
    ("a base that was rewritten", |site| {
        commit(site, "wrong.txt", "wrong\n");
        let project = site.world.project();
        site.git(&project, &["push", "-q", "origin", "main"]);
        site.git(&site.remote(), &["update-ref", "refs/heads/main", "main~1"]);
    }),
];

/// Sets an option of the user's repository.
fn set(site: &Site, name: &str, value: &str) {
    site.git(&site.world.project(), &["config", name, value]);
}

/// Commits a file in the user's repository.
fn commit(site: &Site, name: &str, text: &str) {
    site.world.write(name, text);
    let project = site.world.project();
    site.git(&project, &["add", name]);
    site.git(&project, &["commit", "-qm", "a person's commit"]);
}

fn push_all(site: &Site, subject: &str) {
    let project = site.world.project();
    site.git(&project, &["add", "--all"]);
    site.git(&project, &["commit", "-qm", subject]);
    site.git(&project, &["push", "-q", "origin", "main"]);
}

/// Makes two commits that conflict, on the branch and on `side`; neither is pushed.
fn two_sides(site: &Site) {
    let project = site.world.project();
    site.git(&project, &["checkout", "-q", "-b", "side"]);
    commit(site, "greet.sh", "echo one\n");
    site.git(&project, &["checkout", "-q", "main"]);
    commit(site, "greet.sh", "echo other\n");
}

/// Runs a command of git that ends with a conflict.
fn conflicts(site: &Site, words: &[&str]) {
    let ended = Command::new("git")
        .args(words)
        .current_dir(site.world.project())
        .env("HOME", site.world.home())
        .output()
        .unwrap();
    assert!(!ended.status.success());
}
