//! The LiteLLM proxy as a child process, which always ends with the test.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ah_testkit::server::Server;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The key of the proxy's clients. The proxy refuses to start with some of the keys in its documentation.
pub const KEY: &str = "sk-of-the-tests-of-ah";
/// The proxy's key for the vendor.
const UPSTREAM_KEY: &str = "upstream";
/// The prefix of models for which the proxy has prices of its own, in dollars per token.
const PRICED: &str = "priced/";
/// The price of an input token of such a model.
pub const INPUT_PRICE: f64 = 0.001;
/// The price of an output token of such a model.
pub const OUTPUT_PRICE: f64 = 0.002;
/// Time limit for its start, which takes ten seconds on an idle machine.
const LONGEST_START: Duration = Duration::from_secs(180);
/// Environment variables that keep it from fetching prices, news and the like from the network.
const SWITCHES: [&str; 8] = [
    "DISABLE_ADMIN_UI",
    "DO_NOT_TRACK",
    "HF_HUB_OFFLINE",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS",
    "LITELLM_LOCAL_BLOG_POSTS",
    "LITELLM_LOCAL_MODEL_COST_MAP",
    "LITELLM_LOCAL_POLICY_TEMPLATES",
    "TRANSFORMERS_OFFLINE",
];
/// An address where nothing listens: requests to other machines are sent there and fail.
const NOWHERE: &str = "http://127.0.0.1:9";

/// A running proxy; killed when dropped.
pub struct Proxy {
    child: Child,
    port: u16,
    log: PathBuf,
    /// Its home and its settings.
    _folder: TempDir,
}

impl Proxy {
    /// Starts a proxy with the Python at `python` and these models, each as in its settings.
    pub fn start(python: &OsStr, models: impl IntoIterator<Item = Value>) -> Self {
        let folder = TempDir::with_prefix("ah-litellm-").unwrap();
        let config = folder.path().join("config.yaml");
        fs::write(&config, settings(models).to_string()).unwrap();
        let port = free_port();
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("litellm-proxy.log");
        let output = File::create(&log).unwrap();
        let mut command = Command::new(python);
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/litellm/proxy.py"))
            .arg("--config")
            .arg(&config)
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--num_workers", "1", "--telemetry", "False"])
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder.path())
            .env("LITELLM_LOG", "ERROR")
            .env("LITELLM_MASTER_KEY", KEY)
            .envs(SWITCHES.map(|name| (name, "True")))
            .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, NOWHERE)))
            .env("NO_PROXY", "127.0.0.1,localhost")
            .stdin(Stdio::piped())
            .stderr(output.try_clone().unwrap())
            .stdout(output);
        let mut proxy = Self {
            child: command.spawn().unwrap(),
            port,
            log,
            _folder: folder,
        };
        proxy.wait_until_ready();
        proxy
    }

    /// The proxy's base URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The path of its log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Polls until it answers: it has no other sign of being ready.
    fn wait_until_ready(&mut self) {
        let started = Instant::now();
        while !self.is_ready() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {}", self.log.display());
            let waited = started.elapsed();
            assert!(waited < LONGEST_START, "it hangs: {}", self.log.display());
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else {
            return false;
        };
        let asked = stream.write_all(b"GET /health/liveliness HTTP/1.0\r\n\r\n");
        let mut answer = String::new();
        let answered = asked.and_then(|()| stream.read_to_string(&mut answer));
        answered.is_ok() && answer.contains(" 200 OK")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Fails if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The model `name` of a server that plays the vendor.
pub fn of_vendor(name: &str, server: &Server) -> Value {
    let upstream = name.rsplit('/').next().unwrap_or(name);
    let mut parameters = json!({
        "model": format!("anthropic/{upstream}"),
        "api_base": server.url(),
        "api_key": UPSTREAM_KEY,
        "max_retries": 0,
    });
    if name.starts_with(PRICED) {
        parameters["input_cost_per_token"] = INPUT_PRICE.into();
        parameters["output_cost_per_token"] = OUTPUT_PRICE.into();
    }
    json!({"model_name": name, "litellm_params": parameters})
}

/// Its settings, as JSON, which is also YAML. Retries are off, so that each failure is passed on.
fn settings(models: impl IntoIterator<Item = Value>) -> Value {
    json!({
        "model_list": models.into_iter().collect::<Vec<_>>(),
        "litellm_settings": {
            "telemetry": false,
            "num_retries": 0,
            "request_timeout": 30,
            "drop_params": true,
            "include_cost_in_streaming_usage": true,
        },
        "router_settings": {"num_retries": 0, "disable_cooldowns": true},
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
    })
}

/// A free port. If another program takes it first, the proxy ends with an error.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
