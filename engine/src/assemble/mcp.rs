//! Connection options of a session's MCP servers.

use ah_config::Config;
use ah_config::server_answers::OpenServer;
use ah_conversation::neutralise;
use ah_mcp::{Confined, Granted};
use ah_sandbox::Egress;

use crate::confinement::SandboxStatus;

/// Returns the connection options and timeouts of MCP servers.
pub fn mcp_options(config: &Config, sandbox_status: &SandboxStatus) -> ah_mcp::Options {
    let environment = &config.environment;
    ah_mcp::Options {
        environment: environment.clone(),
        http: ah_http::Options::from_variables(|name| environment.get(name)),
        credentials: config.server_credentials(),
        outputs: None,
        host: None,
        // Without a network, few servers do anything. Outside, their calls are asked about.
        confined: sandbox_status
            .confined()
            .filter(|confined| !confined.is_weak())
            .map(|confined| Confined {
                sandbox: confined.sandbox.clone(),
                homes: config.server_homes(),
                environment: confined.variables.clone(),
                free: { config.sandbox.unconfined_servers.iter() }
                    .map(|name| name.value.clone())
                    .collect(),
            }),
        start_timeout: config.server_patience(),
        call_timeout: config.call_timeout(),
        granted: Granted::All,
        denied: config.deny.iter().map(|rule| rule.value.clone()).collect(),
        asked: None,
        reserved: config.run.host.permission_tool.clone(),
        interface: config.interface,
    }
}

/// Returns a warning for each of the `open` servers: it starts without the hosts that it needs. `asks` is the command at
/// which the user is asked, with `{name}` for the server's name.
pub fn without_hosts(
    open: Vec<OpenServer>,
    asks: &str,
    sandbox_status: &SandboxStatus,
) -> Vec<String> {
    let confined = sandbox_status.confined();
    let Some(confined) = confined.filter(|it| it.sandbox.confinement().tier.has_namespaces())
    else {
        return Vec::new();
    };
    let allowlist = confined.sandbox.proxy().allowlist();
    let warning = |open: OpenServer| {
        let needs = &open.server.needs;
        let tunnels = needs.registries.iter().chain(&needs.tunnels);
        let tunnels = tunnels.map(|to| (to, Egress::Tunnel));
        let options = tunnels
            .chain(needs.http.iter().map(|to| (to, Egress::Http)))
            .filter(|(to, egress)| !allowlist.permits(to, *egress))
            .map(|(to, egress)| format!("{} {to}", egress.option()));
        let options: Vec<_> = options.collect();
        (!options.is_empty()).then(|| {
            let name = neutralise(&open.name).replace('\n', " ");
            let asks = asks.replace("{name}", &name);
            format!(
                "the MCP server `{name}` of the project may not connect to its hosts: `{asks}` on a terminal asks \
                 and remembers the answer; or use {}",
                options.join(" ")
            )
        })
    };
    open.into_iter().filter_map(warning).collect()
}
