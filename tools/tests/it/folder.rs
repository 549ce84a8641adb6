//! A temporary folder with files, and calls of tools in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Content, Context, Output, ResultBlock, Tool, ToolUse};
use ah_testkit::wait::eventually;
use ah_tools::Workspace;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// A temporary folder, removed when dropped.
pub struct Folder {
    dir: TempDir,
}

impl Folder {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    /// Returns a folder with these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self::new();
        for (name, content) in files {
            folder.put(name, content);
        }
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Creates a pipe to which nothing is ever written.
    pub fn put_pipe(&self, name: &str) {
        let made = Command::new("mkfifo").arg(self.path(name)).status();
        assert!(made.unwrap().success());
    }

    pub fn get(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Returns the names in the folder, with hidden ones, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn workspace(&self) -> Arc<Workspace> {
        Arc::new(Workspace::new(self.dir.path(), None, &[]))
    }
}

/// Runs one call of the tool to its end.
pub fn run(tool: &dyn Tool, input: Value) -> Output {
    runtime().block_on(call(tool, input))
}

/// Returns the text of an output, after `error: ` if it is one; images as their media type in brackets.
pub fn text(output: &Output) -> String {
    let text = match &output.content {
        Content::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Content::Spool(spool) => panic!("spooled to {}", spool.path.display()),
        Content::Blocks(blocks) => {
            let shown = blocks.iter().map(|block| match block {
                ResultBlock::Text { text } => text.clone(),
                ResultBlock::Image(image) => format!("[{}]", image.media_type),
                ResultBlock::Audio(audio) => format!("<{}>", audio.media_type),
            });
            shown.collect::<Vec<_>>().join("\n")
        }
    };
    if output.is_error {
        format!("error: {text}")
    } else {
        text
    }
}

/// Starts a call of the tool and drops it while it runs; returns when its work has ended.
pub fn run_and_drop(tool: &dyn Tool, input: Value) {
    let runtime = runtime();
    let soon = Duration::from_millis(20);
    let ended = runtime.block_on(async { tokio::time::timeout(soon, call(tool, input)).await });
    assert!(ended.is_err(), "it should have taken longer");
    // Waits for threads that are still working.
    drop(runtime);
}

/// Starts a call of the tool and drops it once `is_time` is true.
pub fn run_until(tool: &dyn Tool, input: Value, is_time: impl Fn() -> bool) {
    runtime().block_on(async {
        let looking = async {
            eventually("the time to drop it", || is_time().then_some(())).await;
        };
        tokio::select! {
            output = call(tool, input) => panic!("it has ended: {}", text(&output)),
            () = looking => {}
        }
    });
}

/// Runs one call of the tool.
pub async fn call(tool: &dyn Tool, input: Value) -> Output {
    let call = ToolUse {
        id: "call".into(),
        name: tool.spec().name.clone(),
        input: input.into(),
    };
    let context = Context::new(Path::new("/nonexistent/spool").to_owned());
    tool.run(&call, &context).await
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}
