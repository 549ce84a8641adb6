//! Keeps the conversation tree.
