//! The option `--json` of subcommands.

/// For lists: JSON in place of a list for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct Json {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
