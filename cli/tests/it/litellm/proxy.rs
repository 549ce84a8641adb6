//! The LiteLLM proxy as a child process, which ends with the test whatever becomes of that.

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

/// The key that lets one use it. It refuses to start with some that stand in its documentation.
pub const KEY: &str = "sk-of-the-tests-of-ah";
/// What it believes to be the key of the vendor.
const UPSTREAM_KEY: &str = "upstream";
/// How the names of models begin that have prices of the proxy's own, in dollars per token.
const PRICED: &str = "priced/";
/// What such a model costs for what it reads.
pub const INPUT_PRICE: f64 = 0.001;
/// What it costs for what it writes.
pub const OUTPUT_PRICE: f64 = 0.002;
/// It takes ten seconds on a machine that does nothing else.
const LONGEST_START: Duration = Duration::from_secs(180);
/// Keeps it from asking the network for prices, news and the like, each by a switch of its own.
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
/// An address where nobody listens: who asks for more than this machine has it asked in vain.
const NOWHERE: &str = "http://127.0.0.1:9";

/// A proxy that runs until it is dropped.
pub struct Proxy {
    child: Child,
    port: u16,
    log: PathBuf,
    /// Its home, and what it was told.
    _folder: TempDir,
}

impl Proxy {
    /// Starts a proxy of the Python at `python`, which has the model of each name at its server.
    pub fn start<'a>(python: &OsStr, models: impl Iterator<Item = &'a (String, Server)>) -> Self {
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

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where it writes what it has to say.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Asks again and again, as it has no other way to say that it is ready.
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
        // One that has ended by itself cannot be ended, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its settings: JSON, which is YAML too. It tries nothing again, so that failures come through one by one.
fn settings<'a>(models: impl Iterator<Item = &'a (String, Server)>) -> Value {
    let models = models.map(|(name, server)| {
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
    });
    json!({
        "model_list": models.collect::<Vec<_>>(),
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

/// A port that nobody listens at. Another program may take it before the proxy does; then the proxy ends, and says so.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
