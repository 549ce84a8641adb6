//! Web access of a session's tools, and the model that reads pages for them.

use std::sync::Arc;

use ah_conversation::{PermissionMode, Provider};
use ah_sandbox::Allowlist;
use ah_tools::{BRAVE, Search, Web};

use crate::model::{asking, connect};
use ah_config::{Config, Error};

use crate::confinement::Confined;

/// The setting that disables the reader or the search.
const NONE: &str = "none";
/// Variable with the key for Brave's search.
const BRAVE_KEY: &str = "BRAVE_SEARCH_API_KEY";

/// Returns the web access of a session with `provider`.
///
/// # Errors
///
/// If the reader that the settings name cannot be asked.
pub fn of(
    provider: &Arc<dyn Provider>,
    confined: Option<&Confined>,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<Web, Error> {
    let environment = &config.environment;
    let hosts = config.web.private_hosts.iter();
    Ok(Web {
        http: ah_http::Options::from_variables(|name| environment.get(name)),
        private_hosts: hosts.map(|host| host.value.clone()).collect(),
        reach: reach(confined, config.permission_mode.value),
        reader: reader(provider, config, warnings)?,
        search: search(provider, config, warnings)?,
    })
}

/// Returns the hosts that a confined run may reach without a question: those of its commands. Otherwise the permissions
/// decide.
fn reach(confined: Option<&Confined>, mode: PermissionMode) -> Option<Allowlist> {
    let is_unasked = mode == PermissionMode::BypassPermissions;
    let confined = confined.filter(|_| is_unasked)?;
    Some(confined.sandbox.proxy().allowlist().clone())
}

/// Returns the model that reads pages: the configured one, else the vendor's small one, else the session's own. A
/// scenario, or a run that is recorded as one, has no turns for it.
fn reader(
    provider: &Arc<dyn Provider>,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<dyn Provider>>, Error> {
    if let Some(name) = &config.web.reader {
        return match name.value.as_str() {
            NONE => Ok(None),
            name => connect(config, name, warnings).map(Some),
        };
    }
    let own = provider.model();
    if own.provider == "script" || config.run.record.is_some() {
        return Ok(None);
    }
    let small = asking(config, &[], |options| {
        Ok(ah_provider::small(&own.provider, options))
    })?;
    let small = small.and_then(|name| connect(config, &name, warnings).ok());
    Ok(Some(small.unwrap_or_else(|| provider.clone())))
}

/// Returns the search: the configured one, else the model's server if it can, else Brave if a key is set.
fn search(
    provider: &Arc<dyn Provider>,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<Option<Search>, Error> {
    // Results of a server's search would be missing in a recording.
    let can = config.run.record.is_none() && provider.extras().search.is_some();
    let of_model = || can.then(|| Search::Model(provider.clone()));
    let key = config.environment.get(BRAVE_KEY).map(str::to_owned);
    let brave = || {
        key.map(|key| Search::Brave {
            address: BRAVE.to_owned(),
            key,
        })
    };
    let Some(named) = &config.web.search else {
        let server = &provider.model().provider;
        let is_known = asking(config, &[], |options| {
            Ok(ah_provider::searches(server, options))
        })?;
        return Ok(is_known.then(of_model).flatten().or_else(brave));
    };
    let (found, hint) = match named.value.as_str() {
        NONE => return Ok(None),
        "model" => (
            of_model(),
            "this model's server has no web search".to_owned(),
        ),
        "brave" => (brave(), format!("set {BRAVE_KEY}")),
        address if address.starts_with("http://") || address.starts_with("https://") => {
            (Some(Search::Searxng(address.to_owned())), String::new())
        }
        _ => (
            None,
            "use `model`, `brave`, `none`, or a URL such as https://searx.example/search"
                .to_owned(),
        ),
    };
    if found.is_none() {
        let name = &named.value;
        warnings.push(format!(
            "there is no web search: `web.search` is `{name}`; {hint}"
        ));
    }
    Ok(found)
}
