//! What may stand between a program and a server: TLS, and a proxy that pools transactions.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{NOBODY, Server};
use crate::wait;

/// Password of the owner where the server asks for one.
const PASSWORD: &str = "secret";

/// A server that is reached over TLS only, by the address `localhost`.
#[derive(Debug)]
pub struct Secured {
    server: Server,
    port: u16,
    authorities: TempDir,
}

impl Secured {
    /// Starts a server; `None` if there is none to start.
    pub fn start() -> Option<Self> {
        let mut server = Server::start()?;
        let set = format!("ALTER ROLE ah_owner PASSWORD '{PASSWORD}'");
        server
            .psql(&server.url("ah_owner", "postgres"), &set)
            .unwrap();
        server.kill();
        let authorities = TempDir::new().unwrap();
        let data = server.home().join("data");
        certify(authorities.path(), &data);
        let access = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(data.join("pg_hba.conf"), access).unwrap();
        let port = free_port();
        server.options = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "ssl=on".to_owned(),
        ];
        server.port = port;
        server.run();
        Some(Self {
            server,
            port,
            authorities,
        })
    }

    /// Makes an empty database; returns its address with a mode of TLS.
    pub fn database(&self, mode: &str) -> String {
        let local = self.server.database();
        let name = local.rsplit('/').next().unwrap();
        let name = name.split('?').next().unwrap();
        let port = self.port;
        format!("postgresql://ah_owner:{PASSWORD}@localhost:{port}/{name}?sslmode={mode}")
    }

    /// Returns the file of the authority that has signed the server's certificate.
    pub fn authority(&self) -> PathBuf {
        self.authorities.path().join("ca.crt")
    }

    /// Makes an authority that has signed nothing; returns its file.
    pub fn other_authority(&self) -> PathBuf {
        authority(self.authorities.path(), "other");
        self.authorities.path().join("other.crt")
    }
}

/// Makes an authority, and a key and certificate of `localhost` that the server of this folder takes.
fn certify(folder: &Path, data: &Path) {
    authority(folder, "ca");
    let request =
        "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr";
    openssl(folder, request);
    let extensions = "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n";
    fs::write(folder.join("extensions"), extensions).unwrap();
    let sign = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions \
                -out server.crt";
    openssl(folder, sign);
    for name in ["server.key", "server.crt"] {
        let file = data.join(name);
        fs::copy(folder.join(name), &file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

fn authority(folder: &Path, name: &str) {
    let make = format!(
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority-{name} -keyout {name}.key -out {name}.crt"
    );
    openssl(folder, &make);
}

/// Runs `openssl`, which PostgreSQL's packages bring along.
fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace());
    let output = command.current_dir(folder).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments}: {errors}");
}

/// A pgbouncer in front of a server; it ends with this value.
#[derive(Debug)]
pub struct Proxy {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Proxy {
    /// Starts a proxy that shares so many connections to a server among its clients, each for one transaction at a time;
    /// `None` if pgbouncer is not installed.
    pub fn start(server: &Server, connections: u32) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .map(Path::new)
            .into_iter()
            .find(|path| path.exists())?;
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (port, home) = (free_port(), server.home());
        let settings = format!(
            "[databases]\n* = host={} user=ah_owner\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {connections}\n",
            home.display()
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        let mut command = super::as_nobody(program);
        command.arg(&file).current_dir(&home);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.stderr(Stdio::null()).spawn().unwrap();
        wait::until("pgbouncer", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(Self {
            process,
            port,
            _folder: folder,
        })
    }

    /// Returns the address by which a database of the server is reached through the proxy.
    pub fn through(&self, url: &str) -> String {
        let name = url.rsplit('/').next().unwrap();
        format!(
            "postgresql://ah_owner@127.0.0.1:{}/{name}?sslmode=disable",
            self.port
        )
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}
