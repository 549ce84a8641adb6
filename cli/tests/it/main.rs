//! The program as its users have it: the binary itself, as a child process, in folders of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod bad_input;
mod binary;
mod cases;
mod damage;
mod demo;
mod docs;
mod embed;
mod extensions;
mod faults;
mod hooks;
mod kill;
mod litellm;
mod locks;
mod manners;
mod mcp;
mod options;
mod output;
mod permissions;
mod random;
mod run;
mod sandbox;
mod secrets;
mod sessions;
mod settings;
mod shown;
mod signals;
mod stored;
mod streams;
mod talk;
mod tools;
mod tree;
mod trust;
mod wire;
mod writes;
