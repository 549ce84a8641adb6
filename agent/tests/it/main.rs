//! Whole runs of the engine with the scripted model and a real database in memory.

#![expect(clippy::unwrap_used, reason = "tests may fail loudly")]

mod check;
mod checkpoint;
mod compaction;
mod conformance;
mod cost;
mod endings;
mod given_back;
mod hooks;
mod mail;
mod permission;
mod prefix;
mod resume;
mod sessions;
mod small_windows;
mod structured;
mod subagents;
mod tools;
mod world;
