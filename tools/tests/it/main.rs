//! The tools, run as a session runs them.
