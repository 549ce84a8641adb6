//! Stored conversations without the fields that vary between runs and vendors, so that two can be compared.

use ah_testkit::server::Server;
use serde_json::Value;

use crate::support::binary::World;

/// The messages of the session in `world`, without fields that vary.
pub fn stored(world: &World, server: &Server) -> Vec<Value> {
    let ended = world.ah(["export", "--format", "jsonl"]).run().expect(0);
    let text = without_place(&ended.stdout, world, server);
    let lines = text.lines();
    let mut messages: Vec<Value> = lines.map(|it| serde_json::from_str(it).unwrap()).collect();
    for message in &mut messages {
        for name in ["id", "parent", "created_at"] {
            forget(message, name);
        }
        // What a server gives for itself is its own affair.
        for name in ["model", "provider", "latency_ms", "opaque"] {
            forget(&mut message["response"], name);
        }
        if let Some(summary) = message.pointer_mut("/origin/summary") {
            forget(summary, "kept_from");
        }
        for block in message["content"].as_array_mut().unwrap() {
            forget(block, "duration_ms");
        }
    }
    messages
}

/// `text` without the paths of `world` and the port of `server`, which is in the ids of calls.
pub fn without_place(text: &str, world: &World, server: &Server) -> String {
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    text.replace(&format!("_{port}x"), "_")
        .replace(world.project().to_str().unwrap(), "<project>")
}

fn forget(value: &mut Value, name: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(name);
    }
}
