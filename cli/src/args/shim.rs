//! The options of `ah shim` as typed.

use std::path::PathBuf;

/// Options of `ah shim`.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Shimming {
    /// The virtual environment with the Python SDK
    #[arg(long, value_name = "VENV", conflicts_with = "node")]
    pub python: Option<PathBuf>,
    /// The folder with `node_modules` in which the TypeScript SDK is
    #[arg(long, value_name = "DIR")]
    pub node: Option<PathBuf>,
    /// Put the original back
    #[arg(long)]
    pub remove: bool,
}
