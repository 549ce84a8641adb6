//! Options of `ah serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

/// Where a server is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Place {
    /// Port [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Address of this machine at which others reach it too; needs a certificate [default: 127.0.0.1]
    #[arg(long, value_name = "IP", requires = "cert")]
    pub address: Option<IpAddr>,
    /// TLS certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key: a PEM file
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name by which clients know this machine
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
}
