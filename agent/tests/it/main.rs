//! Whole runs of the engine with the scripted model and a real database in memory.

mod boxes;
mod compaction;
mod endings;
mod mail;
mod resume;
mod tools;
mod world;
