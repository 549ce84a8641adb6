//! The command line of `ah plugin`.

use clap::{Args, Subcommand, ValueEnum};

use super::json::Json;

/// Actions on plugins.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum PluginAction {
    /// Add, list, update or remove marketplaces
    #[command(subcommand_required = true)]
    Marketplace {
        /// Action
        #[command(subcommand)]
        action: MarketplaceAction,
    },
    /// Install plugins, and show what they bring
    #[command(visible_alias = "i")]
    Install {
        /// Their names; add `@MARKETPLACE` if several marketplaces have one of that name
        #[arg(value_name = "NAME[@MARKETPLACE]", required = true)]
        plugins: Vec<String>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        consent: Consent,
    },
    /// List the installed plugins
    #[command(visible_alias = "ls")]
    List {
        /// Also list what the marketplaces offer
        #[arg(long)]
        available: bool,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Update plugins from their marketplaces
    Update {
        /// Their names [default: all]
        #[arg(value_name = "NAME")]
        plugins: Vec<String>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        consent: Consent,
    },
    /// Remove plugins
    #[command(visible_aliases = ["rm", "uninstall"])]
    Remove {
        /// Their names
        #[arg(value_name = "NAME", required = true)]
        plugins: Vec<String>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        scope: InScope,
    },
    /// Enable a plugin
    Enable {
        /// Its name
        plugin: String,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        consent: Consent,
    },
    /// Disable a plugin without removing it
    Disable {
        /// Its name
        plugin: String,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        scope: InScope,
    },
}

/// Actions on marketplaces.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum MarketplaceAction {
    /// Add a marketplace
    Add {
        /// A folder (`./NAME`), a git URL, or OWNER/NAME of GitHub; `#REF` names a branch or tag
        #[arg(value_name = "SOURCE")]
        source: String,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        scope: InScope,
    },
    /// List the marketplaces
    #[command(visible_alias = "ls")]
    List(Json),
    /// Update the lists of plugins
    Update {
        /// The marketplace [default: all]
        name: Option<String>,
    },
    /// Remove a marketplace and the plugins from it
    #[command(visible_alias = "rm")]
    Remove {
        /// The marketplace
        name: String,
    },
}

/// The user's agreement to what a plugin runs.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Consent {
    /// Let the plugin's hooks, servers and the shell lines of its commands run, without asking
    #[arg(short = 'y', long)]
    pub yes: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its one field says it")]
    pub scope: InScope,
}

/// The place of a plugin; there is one.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct InScope {
    /// Only `user`: plugins are installed for you, in all folders
    #[arg(
        short = 's',
        long,
        value_enum,
        value_name = "SCOPE",
        default_value = "user"
    )]
    pub scope: PluginScope,
}

/// Places of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PluginScope {
    /// The user's folder
    User,
}
