//! Connection options of a session's MCP servers.

use ah_config::Config;
use ah_mcp::Confined;

use crate::confinement::SandboxStatus;

/// Returns the connection options and timeouts of MCP servers.
pub fn mcp_options(config: &Config, sandbox_status: &SandboxStatus) -> ah_mcp::Options {
    let environment = &config.environment;
    ah_mcp::Options {
        environment: environment.clone(),
        http: ah_http::Options::from_variables(|name| environment.get(name)),
        host: None,
        confined: sandbox_status.confined().map(|confined| Confined {
            sandbox: confined.sandbox.clone(),
            environment: confined.variables.clone(),
            free: { config.sandbox.unconfined_servers.iter() }
                .map(|name| name.value.clone())
                .collect(),
        }),
        start_timeout: config.server_patience(),
        call_timeout: config.call_timeout(),
        denied: config.deny.iter().map(|rule| rule.value.clone()).collect(),
        interface: config.interface,
    }
}
