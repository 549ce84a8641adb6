//! The tools, called as a session calls them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ask;
mod bash;
mod builtin;
mod edit;
mod embedded;
mod executable;
mod folder;
mod glob;
mod grep;
mod jobs;
mod lua;
mod notebook;
mod oracle;
mod read;
mod read_pdf;
mod read_picture;
mod schema;
mod sdk;
mod stored;
mod web;
mod withheld;
mod write;
