//! What people have an agent do all day must go on working in the sandbox.

use std::path::PathBuf;

use crate::binary::World;
use crate::sandbox::is_missing;

/// The programs that a job needs, and what it does. It ends well, or prints what is wrong and ends otherwise.
const JOBS: &[(&str, &str)] = &[
    (
        "git",
        "git init -q . && echo a > a && git add a && git commit -qm one && git status --short",
    ),
    (
        "git",
        "git init -q . && git commit -q --allow-empty -m one && git checkout -q -b two && git branch --list | grep -q two",
    ),
    (
        "git",
        "git init -q -b main . && echo a > a && git add . && git commit -qm a && git checkout -q -b side && echo b > b && git add . \
         && git commit -qm b && git checkout -q main && echo c > c && git add . && git commit -qm c && git checkout -q side \
         && git rebase -q main && git log --oneline | wc -l | grep -q 3",
    ),
    (
        "git",
        "git init -q . && git commit -q --allow-empty -m one && git worktree add -q tree && cd tree && git commit -q --allow-empty -m two",
    ),
    (
        "git",
        "git init -q . && echo a > a && git add . && git commit -qm a && echo b > a && git stash -q && git stash pop -q && grep -q b a",
    ),
    (
        "git",
        "git init -q . && git commit -q --allow-empty -m one && git tag v1 && git clone -q . copy && git -C copy log --oneline v1",
    ),
    (
        "make",
        "printf 'all: a b\\na b:\\n\\t@echo $@ > $@\\n' > Makefile && make -s -j4 && cat a b",
    ),
    (
        "gcc",
        "echo 'int main(){return 42;}' > m.c && gcc m.c -o m && { ./m; [ $? = 42 ]; }",
    ),
    (
        "gdb gcc",
        "echo 'int main(){return 42;}' > m.c && gcc -g m.c -o m && gdb -q -batch -ex 'break main' -ex run -ex continue ./m | grep -q 'code 052'",
    ),
    (
        "strace",
        "strace -f -o log sh -c true && grep -q exit_group log",
    ),
    (
        "cargo",
        "cargo init -q --vcs none --lib --name job . && cargo build -q --offline && cargo test -q --offline",
    ),
    (
        "python3",
        "python3 -m venv --without-pip env && env/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'",
    ),
    (
        "python3",
        "python3 -c 'import sqlite3; d = sqlite3.connect(\"x.db\"); d.execute(\"create table t(a)\"); d.commit()'",
    ),
    (
        "python3",
        "python3 -c 'import multiprocessing as m; assert m.Pool(2).map(abs, [-1, -2]) == [1, 2]'",
    ),
    (
        "python3",
        "python3 -c 'import threading; t = [threading.Thread(target=print) for _ in range(20)]; [x.start() for x in t]; [x.join() for x in t]'",
    ),
    (
        "python3",
        "python3 -c 'import pty, os; m, s = pty.openpty(); os.write(s, b\"x\"); assert os.read(m, 1) == b\"x\"; assert os.isatty(s)'",
    ),
    (
        "python3",
        "python3 -c 'import pty, sys; sys.exit(pty.spawn([\"sh\", \"-c\", \"tty && exit 0\"]) >> 8)' < /dev/null",
    ),
    (
        "python3",
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"s\"); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(\"s\")'",
    ),
    (
        "python3",
        "python3 -c 'import http.server, threading, urllib.request as u; s = http.server.HTTPServer((\"127.0.0.1\", 0), http.server.SimpleHTTPRequestHandler); \
         threading.Thread(target=s.serve_forever, daemon=True).start(); assert u.urlopen(\"http://localhost:%d/\" % s.server_port).status == 200'",
    ),
    (
        "python3",
        "python3 -c 'import tempfile; tempfile.NamedTemporaryFile().write(b\"x\"); import locale, ssl, uuid; uuid.uuid4()'",
    ),
    (
        "node",
        "node -e 'require(\"child_process\").execSync(\"true\")'",
    ),
    (
        "node",
        "node -e 'const n = require(\"net\"); n.createServer(c => c.end()).listen(\"./s\", () => n.connect(\"./s\").on(\"close\", () => process.exit(0)))'",
    ),
    (
        "node",
        "node -e 'const h = require(\"http\"); const s = h.createServer((q, r) => r.end(\"x\")).listen(0, async () => { const r = await fetch(`http://localhost:${s.address().port}`); process.exit(await r.text() === \"x\" ? 0 : 1) })'",
    ),
    (
        "node",
        "node -e 'const { Worker, isMainThread } = require(\"worker_threads\"); if (isMainThread) new Worker(\"0\", { eval: true }).on(\"exit\", process.exit)'",
    ),
    (
        "npm node",
        "echo '{\"scripts\":{\"test\":\"node -e 0\"}}' > package.json && npm test --silent",
    ),
    ("curl", "echo x > a && curl -s file://$PWD/a | grep -q x"),
    (
        "tar gzip",
        "mkdir d && echo x > d/a && tar czf d.tgz d && rm -r d && tar xzf d.tgz && grep -q x d/a",
    ),
    (
        "bash",
        "diff <(printf 'a\\nb\\n') <(printf 'b\\na\\n' | sort) && seq 1000 | xargs -P 4 -n 50 echo | wc -w | grep -q 1000",
    ),
    (
        "bash",
        "echo one > /tmp/a && f=$(mktemp) && cat /tmp/a > $f && grep -q one $f && rm $f && touch /var/tmp/x /dev/shm/y",
    ),
    ("bash", "sleep 30 & kill %1; wait %1; [ $? = 143 ]"),
    ("bash", "trap 'exit 0' USR1; kill -USR1 $$; exit 1"),
    (
        "bash",
        "LC_ALL=C.UTF-8 printf '%s\\n' \u{e4} | LC_ALL=C.UTF-8 grep -q '^.$' && TZ=Europe/Berlin date +%Z | grep -q CE",
    ),
    (
        "bash",
        "printf '#!/bin/sh\\necho ran\\n' > s && chmod 755 s && ./s && ln -s s l && ./l && ln s h && mv s t && sed -i s/ran/run/ t && mkfifo p",
    ),
    (
        "bash",
        "ulimit -n && nproc && df . > /dev/null && whoami && hostname > /dev/null && cat /proc/self/status > /dev/null && echo 100 > /proc/self/oom_score_adj; true",
    ),
    ("flock", "flock lock true && timeout 5 true"),
    ("ps", "ps -ef | grep -q ps"),
];

#[test]
fn ordinary_jobs_work() {
    if is_missing() {
        return;
    }
    assert!(JOBS.len() >= 25);
    let real_home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let mut faults = Vec::new();
    for (programs, job) in JOBS {
        let world = World::new();
        let run = |script: &str| {
            let chains = [
                ("CARGO_HOME", ".cargo"),
                ("RUSTUP_HOME", ".rustup"),
                ("PYENV_ROOT", ".pyenv"),
            ];
            let mut ah = world.ah(["sandbox", "exec", "--", "bash", "-c", script]);
            for (name, folder) in chains {
                if real_home.join(folder).is_dir() {
                    ah = ah.env(name, real_home.join(folder));
                }
            }
            for role in ["AUTHOR", "COMMITTER"] {
                ah = ah
                    .env(&format!("GIT_{role}_NAME"), "A")
                    .env(&format!("GIT_{role}_EMAIL"), "a@b.example");
            }
            ah.run()
        };
        if let Some(missing) = programs.split(' ').find(|program| !is_there(program)) {
            eprintln!("left out, without {missing}: {job}");
            continue;
        }
        let ended = run(job);
        if ended.code != Some(0) {
            faults.push(format!(
                "{:?} {job}\n{}{}",
                ended.code, ended.stdout, ended.stderr
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
