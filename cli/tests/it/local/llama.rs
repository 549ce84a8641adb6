//! llama.cpp's server as a child process, which ends with the test.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running server; killed when dropped.
pub struct Llama {
    child: Child,
    url: String,
}

impl Llama {
    /// Starts a server with this context window, and a chat template with tools or that of the model, which has none.
    pub fn start(python: &OsStr, window: u32, has_tools: bool) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/local");
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llama-server.log");
        let mut command = Command::new(python);
        command
            .arg(folder.join("server.py"))
            .arg(window.to_string());
        if has_tools {
            command.arg(folder.join("template.jinja"));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log).unwrap())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(
            url.starts_with("http://127.0.0.1:"),
            "the server has not started: {url}"
        );
        Self { child, url }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it reads or writes for somebody.
    pub fn is_busy(&self) -> bool {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET /slots HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("is_processing"), "{answer}");
        answer.contains("\"is_processing\":true")
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
