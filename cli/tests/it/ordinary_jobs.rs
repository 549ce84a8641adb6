//! Everyday development tasks work in the sandbox.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::sandbox::{is_missing, stored_results};
use crate::support::binary::{Ended, World};

/// The programs that a job needs, and its script, which exits 0 or prints the error and fails.
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
        "tar gzip",
        "mkdir d && echo x > d/a && tar czf d.tgz --owner=4000 --group=4000 d && rm -r d && tar xzf d.tgz && [ -O d/a ]",
    ),
    (
        "install",
        "echo x > a && install -o $(id -un) -g $(id -gn) a b && cp -p b c && chown $(id -un):$(id -gn) c && [ -O c ] && [ ~$(id -un) != '' ]",
    ),
    (
        "ssh",
        "ssh -G example.com | grep -q '^hostname example.com'",
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
    (
        "bash",
        "sleep 0.01 & wait -n && (nohup sh -c 'echo late > late' > log 2>&1 &) ; until [ -s late ]; do sleep 0.01; done",
    ),
    (
        "diff patch",
        "printf 'a\\nb\\n' > f && printf 'a\\nc\\n' > g && { diff -u f g > p; patch -s f p; } && cmp f g && patch -sR f p && grep -q b f",
    ),
    (
        "git",
        "git init -q . && for n in 1 2 3 4 5; do echo $n > f && git add f && git commit -qm $n; done \
         && git bisect start HEAD HEAD~4 > log && git bisect run sh -c '[ $(cat f) -lt 4 ]' | grep -q 'first bad commit' && git bisect reset 2> log && git diff HEAD~1 | git apply -R && grep -q 4 f",
    ),
    (
        "python3",
        "mkdir tests && touch tests/__init__.py && printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test_it(self): self.assertEqual(1, 1)\\n' > tests/test_it.py \
         && python3 -m unittest discover -q && python3 -m compileall -q tests",
    ),
    // What builds anew when a file changes.
    (
        "node",
        "mkdir src && node -e 'require(\"fs\").watch(\"src\", () => process.exit(0)); console.log(\"ready\"); setTimeout(() => process.exit(1), 20000)' > log & \
         until [ -s log ]; do sleep 0.01; done; touch src/a; wait $!",
    ),
    // A server in the background, and its client.
    (
        "python3",
        "python3 -m http.server 8000 > log 2>&1 & echo served > page; \
         until python3 -c 'import urllib.request as u; assert u.urlopen(\"http://localhost:8000/page\").read() == b\"served\\n\"' 2> log2; \
         do kill -0 $! || { cat log log2; exit 1; }; done",
    ),
    (
        "node python3",
        "node -e 'require(\"http\").createServer((q, r) => r.end(\"served\")).listen(8000)' > log 2>&1 & \
         until python3 -c 'import urllib.request as u; assert u.urlopen(\"http://127.0.0.1:8000/\").read() == b\"served\"' 2> log2; \
         do kill -0 $! || { cat log log2; exit 1; }; done",
    ),
];

/// The programs that a job needs, the setup of the files to download, and its script. `SITE` stands for the server,
/// on a loopback address that programs do not treat as local, so that it is reached through the proxy.
const FETCHING: &[(&str, &str, &str)] = &[
    (
        "python3",
        "mkdir -p simple/made && python3 -c 'import zipfile as z; w = z.ZipFile(\"simple/made/made-1.0-py3-none-any.whl\", \"w\"); d = \"made-1.0.dist-info/\"; \
         w.writestr(\"made.py\", \"word = 42\"); w.writestr(d + \"METADATA\", \"Metadata-Version: 2.1\\nName: made\\nVersion: 1.0\\n\"); \
         w.writestr(d + \"WHEEL\", \"Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n\"); \
         w.writestr(d + \"RECORD\", \"made.py,,\\n%sMETADATA,,\\n%sWHEEL,,\\n%sRECORD,,\\n\" % (d, d, d))' \
         && echo '<a href=\"made-1.0-py3-none-any.whl\">made</a>' > simple/made/index.html",
        "python3 -m venv env && env/bin/pip install -q --disable-pip-version-check --index-url http://SITE/simple/ --trusted-host 127.0.0.2 made \
         && env/bin/python -c 'import made; assert made.word == 42'",
    ),
    (
        "npm node",
        "mkdir package && echo '{\"name\":\"made\",\"version\":\"1.0.0\",\"main\":\"made.js\"}' > package/package.json \
         && echo 'module.exports = 42' > package/made.js && tar czf made.tgz package \
         && echo '{\"name\":\"made\",\"dist-tags\":{\"latest\":\"1.0.0\"},\"versions\":{\"1.0.0\":{\"name\":\"made\",\"version\":\"1.0.0\",\"main\":\"made.js\",\
         \"dist\":{\"tarball\":\"http://SITE/made.tgz\"}}}}' > made",
        "echo '{\"private\":true}' > package.json && npm install --silent --no-audit --no-fund --registry http://SITE/ made \
         && node -e 'if (require(\"made\") !== 42) process.exit(1)'",
    ),
    (
        "node",
        "echo fetched > page",
        "node -e 'fetch(\"http://SITE/page\").then(r => r.text()).then(t => process.exit(t === \"fetched\\n\" ? 0 : 1))'",
    ),
    (
        "node",
        "true",
        "node -e 'fetch(\"http://127.0.0.3:4443/\").catch(e => process.exit(/--allow-host 127.0.0.3:4443|403/.test(e.cause.message) ? 0 : 1))'",
    ),
    (
        "curl",
        "echo fetched > page",
        "curl -sS http://SITE/page | grep -q fetched && curl -sSp http://SITE/page | grep -q fetched",
    ),
    (
        "python3",
        "echo fetched > page",
        "python3 -c 'import urllib.request as u; assert u.urlopen(\"http://SITE/page\").read() == b\"fetched\\n\"'",
    ),
    (
        "git",
        "git init -q made && cd made && git commit -q --allow-empty -m one && git update-server-info",
        "git clone -q http://SITE/made/.git made && git -C made log --oneline | grep -q one",
    ),
];

#[test]
fn ordinary_jobs_work() {
    if is_missing() {
        return;
    }
    assert!(JOBS.len() >= 25);
    let mut faults = Vec::new();
    for (programs, job) in JOBS {
        if is_possible(programs, job) {
            faults.extend(fault(job, &inside(&World::new(), &[], job)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns how many calls with these lines are asked about. Nobody answers.
fn questions(sandbox: &str, lines: impl Iterator<Item = String>) -> usize {
    let world = World::new();
    let calls = lines.map(|line| uses("bash", json!({ "command": line })));
    let turns: Vec<_> = calls.chain([says("Done.")]).collect();
    let model = world.scenario("s", turns);
    world
        .as_typed(["-n", sandbox, "-m", &model, "go"])
        .run()
        .expect(0);
    let results = stored_results(&world);
    assert_eq!(results.len(), JOBS.len());
    let is_asked = |result: &&String| result.contains("was denied");
    results.iter().filter(is_asked).count()
}

#[test]
fn no_ordinary_job_is_asked_about_in_the_sandbox_and_each_is_without() {
    if is_missing() {
        return;
    }
    // It is judged and not run.
    let judged = |job: &str| format!("if false; then\n{job}\nfi");
    let jobs = || JOBS.iter().map(|(_, job)| *job);
    assert_eq!(questions("--sandbox", jobs().map(judged)), 0);
    let all = questions("--no-sandbox", jobs().map(str::to_owned));
    assert_eq!(all, JOBS.len());
}

#[test]
fn what_is_allowed_is_fetched_through_the_proxy() {
    if is_missing() {
        return;
    }
    let mut faults = Vec::new();
    for (programs, outside, job) in FETCHING {
        if !is_possible(programs, job) {
            continue;
        }
        let (world, folder) = (World::new(), tempfile::tempdir().unwrap());
        let site = serve(folder.path().to_owned());
        let [outside, job] = [outside, job].map(|script| script.replace("SITE", &site));
        let mut laid = Command::new("bash");
        laid.args(["-c", &outside]).current_dir(folder.path());
        for (name, value) in committer() {
            laid.env(name, value);
        }
        assert!(laid.status().unwrap().success(), "{outside}");
        let refused = inside(&world, &[], &job);
        let allowed = ["--allow-host", &site, "--allow-http", &site];
        faults.extend(fault(&job, &inside(&World::new(), &allowed, &job)));
        // A job that succeeds without the host allowed did not go through the proxy.
        let is_about_refusal = !job.contains(&site);
        if !is_about_refusal && refused.code == Some(0) {
            faults.push(format!("nothing was allowed: {job}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Runs a job in the sandbox of a world.
fn inside(world: &World, options: &[&str], job: &str) -> Ended {
    let real_home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let arguments = [&["sandbox", "exec"], options, &["--", "bash", "-c", job]].concat();
    let mut ah = world.ah(arguments);
    for (name, folder) in [
        ("CARGO_HOME", ".cargo"),
        ("RUSTUP_HOME", ".rustup"),
        ("PYENV_ROOT", ".pyenv"),
    ] {
        if real_home.join(folder).is_dir() {
            ah = ah.env(name, real_home.join(folder));
        }
    }
    for (name, value) in committer() {
        ah = ah.env(&name, value);
    }
    ah.run()
}

/// Environment variables with git's author and committer.
pub fn committer() -> impl Iterator<Item = (String, &'static str)> {
    let roles = ["AUTHOR", "COMMITTER"].into_iter();
    roles.flat_map(|role| {
        let variable = |what| format!("GIT_{role}_{what}");
        [(variable("NAME"), "A"), (variable("EMAIL"), "a@b.example")]
    })
}

/// The error of a job that failed.
pub fn fault(job: &str, ended: &Ended) -> Option<String> {
    let Ended { stdout, stderr, .. } = ended;
    (ended.code != Some(0)).then(|| format!("{:?} {job}\n{stdout}{stderr}", ended.code))
}

/// Serves a folder by HTTP on a loopback address other than 127.0.0.1, and returns its address.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let site = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut seen = [0; 4096];
            let length = stream.read(&mut seen).unwrap_or_default();
            let line = String::from_utf8_lossy(&seen[..length]);
            let path = line
                .split(' ')
                .nth(1)
                .unwrap_or_default()
                .split('?')
                .next()
                .unwrap_or_default();
            let path = folder.join(path.trim_matches('/'));
            let file = match path.is_dir() {
                true => path.join("index.html"),
                false => path,
            };
            let (status, body) = match fs::read(&file) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let kind = match file.extension().is_some_and(|end| end == "html") {
                true => "text/html",
                false => "application/octet-stream",
            };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&body);
        }
    });
    site
}

/// Whether all programs are installed; prints the one that is not.
#[expect(clippy::print_stderr, reason = "what is left out is named")]
fn is_possible(programs: &str, job: &str) -> bool {
    let missing = programs.split(' ').find(|program| !is_there(program));
    if let Some(missing) = missing {
        eprintln!("left out, without {missing}: {job}");
    }
    missing.is_none()
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
