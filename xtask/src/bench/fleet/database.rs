//! A PostgreSQL server of the benchmark, with its usual settings, on a temporary folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;

/// User of the server if we are root, which it refuses: `nobody`.
const NOBODY: u32 = 65534;

/// What the server has done since its start.
pub struct Done {
    /// Transactions that were committed.
    pub transactions: u64,
    /// Bytes written to its log, which go to the disk before a commit is acknowledged.
    pub logged: u64,
    /// Bytes of the tables and indexes of `ah`.
    pub stored: u64,
    /// Messages of all sessions.
    pub messages: u64,
}

/// A server; it ends with this value.
pub struct Database {
    folder: TempDir,
    programs: PathBuf,
    url: String,
    process: Option<Child>,
}

impl Database {
    /// Starts a server; `None` if none is installed.
    pub fn start() -> Result<Option<Self>> {
        let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let folders = installed.flatten().map(|entry| entry.path().join("bin"));
        let Some(programs) = folders
            .filter(|folder| folder.join("initdb").exists())
            .max()
        else {
            return Ok(None);
        };
        let folder = TempDir::with_prefix("ah-bench-")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let host = folder.path().join("home");
        fs::create_dir(&host)?;
        if geteuid().is_root() {
            chown(&host, Some(NOBODY), Some(NOBODY))?;
        }
        let place = host.display().to_string().replace('/', "%2F");
        let mut database = Self {
            folder,
            programs,
            url: format!("postgresql://ah_owner@{place}/postgres"),
            process: None,
        };
        let mut made = database.command("initdb", &["-A", "trust", "-U", "ah_owner", "-D", "data"]);
        ensure!(
            made.stdout(Stdio::null()).status()?.success(),
            "`initdb` failed"
        );
        let mut server = database.command("postgres", &["-D", "data", "-c", "listen_addresses="]);
        server.arg("-k").arg(&host).stdout(Stdio::null());
        database.process = Some(server.spawn().context("starting PostgreSQL")?);
        let began = Instant::now();
        while database.run("SELECT").is_err() {
            ensure!(
                began.elapsed() < Duration::from_secs(60),
                "PostgreSQL does not answer"
            );
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(database))
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(arguments).env("LC_ALL", "C.UTF-8");
        command.current_dir(self.folder.path().join("home"));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns what it has done; what was done by connections that are closed is counted.
    pub fn done(&self) -> Result<Done> {
        let counted = self.run(
            "SELECT xact_commit, pg_current_wal_lsn() - '0/0', (
                 SELECT sum(pg_total_relation_size(oid)) FROM pg_class
                 WHERE relnamespace = 'ah'::regnamespace AND relkind = 'r'),
                 (SELECT coalesce(sum(messages), 0) FROM ah.sessions)
             FROM pg_stat_database WHERE datname = current_database()",
        )?;
        let mut numbers = counted.trim().split('|').map(str::parse);
        let mut next = || Ok::<_, anyhow::Error>(numbers.next().context("no number")??);
        Ok(Done {
            transactions: next()?,
            logged: next()?,
            stored: next()?,
            messages: next()?,
        })
    }

    /// Runs a statement; returns what it says.
    pub fn run(&self, statement: &str) -> Result<String> {
        let options = ["-XqAtv", "ON_ERROR_STOP=1", "-c", statement, &self.url];
        let output = self
            .command("psql", &options)
            .stderr(Stdio::piped())
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "PostgreSQL refused {statement}: {error}"
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Queues so many sessions, as `ah enqueue` does.
    pub fn queue(&self, sessions: u32, folder: &Path, model: &str) -> Result<String> {
        let folder = folder.display();
        self.run(&format!(
            "WITH new AS MATERIALIZED (SELECT '0' || upper(left(md5(random()::text), 25)) AS id FROM generate_series(1, {sessions})),
             made AS (INSERT INTO ah.sessions (id) SELECT id FROM new),
             sent AS (INSERT INTO ah.mail (session, id, kind, content) SELECT id, id, 'followup', 'go' FROM new)
             INSERT INTO ah.runs (session, folder, model) SELECT id, '{folder}', '{model}' FROM new"
        ))
    }

    /// Adds so many sessions that are over: copies of one that is, with all that it has stored.
    pub fn fill(&self, sessions: u32) -> Result<String> {
        self.run(&format!(
            "CREATE TEMP TABLE copies AS
                 SELECT '0' || upper(left(md5(n::text), 25)) AS id,
                        (SELECT session FROM ah.runs WHERE state = 'done' ORDER BY id DESC LIMIT 1) AS source
                 FROM generate_series(1, {sessions}) n;
             INSERT INTO ah.sessions (id, epoch, next, messages)
                 SELECT c.id, epoch, next, messages FROM copies c JOIN ah.sessions s ON s.id = source;
             INSERT INTO ah.changes (session, seq, epoch, body)
                 SELECT c.id, seq, epoch, body FROM copies c JOIN ah.changes s ON s.session = source;
             INSERT INTO ah.mail (session, id, kind, content, consumed_by)
                 SELECT c.id, c.id, kind, content, consumed_by FROM copies c JOIN ah.mail m ON m.session = source;
             INSERT INTO ah.runs (session, folder, model, state, attempt, owner, beat_at, ended_at)
                 SELECT c.id, folder, model, state, attempt, owner, beat_at, ended_at
                 FROM copies c JOIN ah.runs r ON r.session = source"
        ))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            if let Ok(id) = process.id().try_into() {
                let _ = kill(Pid::from_raw(id), Signal::SIGQUIT);
            }
            let _ = process.wait();
        }
    }
}
