//! Finds the server of a model by the part of the model's name before the `/`: a server that the settings define, or one
//! that has a row in `presets`. The protocol follows from the settings, the address and the row, in this
//! order.

use std::borrow::Cow;
use std::sync::Arc;

use ah_conversation::{ErrorClass, Model, Provider, ProviderError, Request};

use crate::abilities::{Abilities, LearnedTemplate, USUAL_OUTPUT};
use crate::anthropic::{self, Anthropic};
use crate::auth::{Credentials, Key, Secret};
use crate::catalog::{Catalog, ModelEntry};
use crate::exchange::SettingNames;
use crate::failure::with_causes;
use crate::generation::Generation;
use crate::held::ConversationState;
use crate::interactions::{self, Interactions};
use crate::keep_warm::KeepWarm;
use crate::listing::WindowSource;
use crate::named_server::{Api, NamedServer};
use crate::near::{is_loopback, is_near};
use crate::openai::{self, Additions, AnswerField, Chat, Quirks, ThinkingField, ToolCallIds};
use crate::options::Options;
use crate::presets::{self, Kind, List, Preset};
use crate::responses::{self, Responses};
use crate::retry::Retrying;
use crate::server::Server;
use crate::signing;
use crate::ways::{Way, Ways};
use crate::window::Windowed;

/// Variable that names the small model of the Messages API.
const SMALL_MODEL: &str = "ANTHROPIC_SMALL_FAST_MODEL";
/// Variable that names the model behind the alias `haiku`.
const HAIKU_MODEL: &str = "ANTHROPIC_DEFAULT_HAIKU_MODEL";
/// Variable that names the profile of AWS.
const PROFILE: &str = "AWS_PROFILE";
/// Beta for a context window of a million tokens, for Sonnet models.
pub(crate) const WIDE_WINDOW: &str = "context-1m-2025-08-07";

/// A server and the options to reach it.
pub(crate) struct Route<'a> {
    name: &'a str,
    settings: Cow<'a, NamedServer>,
    /// The row of the server's name.
    preset: Option<&'static Preset>,
    options: &'a Options<'a>,
}

/// What a row or the settings say of the requests to a server.
struct Dialect {
    api: Api,
    quirks: Quirks,
    list: List,
    /// Whether the other of chat completions and the Responses API is tried if the server refuses the first.
    has_two_ways: bool,
}

impl<'a> Route<'a> {
    /// Returns the server of this name, if there is one.
    pub(crate) fn to(name: &'a str, options: &'a Options<'a>) -> Option<Self> {
        let (settings, preset) = (options.servers.get(name), Preset::named(name));
        (settings.is_some() || preset.is_some()).then(|| Self {
            name,
            settings: settings.map_or_else(Cow::default, Cow::Borrowed),
            preset,
            options,
        })
    }

    /// Returns a provider for the model that the server calls `name`.
    pub(crate) fn connect(&self, name: &str) -> Result<Arc<dyn Provider>, ProviderError> {
        let Options {
            retry,
            seed,
            cache_ttl: ttl,
            ..
        } = *self.options;
        let keep_warm = KeepWarm {
            ttl,
            times: self.options.keep_warm,
        };
        let mut model = self.options.catalog.model(self.name, name);
        model.context_window = window(&model, self.options.betas);
        let entry = self.options.catalog.entry(self.name, name);
        if let Some(wanted) = self.options.max_output {
            model.max_output = entry.at_most(wanted);
        }
        let most = entry.output_limit();
        let mut abilities = entry.abilities.clone();
        if most < USUAL_OUTPUT {
            // Thinking is added to the output, up to this limit.
            abilities.max_output = Some(most.max(model.max_output));
        }
        let (server, beta) = self.server()?;
        let betas: Vec<_> = beta
            .map(str::to_owned)
            .into_iter()
            .chain(self.options.betas.iter().cloned())
            .collect();
        let Dialect {
            api,
            quirks,
            has_two_ways,
            ..
        } = self.dialect();
        let api = entry.api.filter(|_| has_two_ways).unwrap_or(api);
        let additions = Additions {
            body: self.settings.extra_body.clone(),
            headers: self.settings.headers.clone(),
            betas: betas.clone(),
        };
        if api == Api::Anthropic {
            let encoder = anthropic::Encoder::new(model, abilities)
                .with_quirks(&quirks)
                .with_fields(additions.body)
                .cached_for(ttl)
                .summarizing(self.options.server_compaction)
                .holding(self.holds(Generation::of(name).holds))
                .fast(self.options.fast_mode);
            let messages = Anthropic::new(server, &betas, encoder, keep_warm)?;
            let messages = Retrying::new(messages, retry, seed);
            return Ok(self.learning(messages, name, entry, LearnedTemplate::default()));
        }
        let template = LearnedTemplate::default();
        let way = |api| -> Result<Way, ProviderError> {
            let dialect = (additions.clone(), quirks.clone());
            let model = (model.clone(), abilities.clone());
            let model = self.asked_by(api, server.clone(), model, dialect, &template)?;
            Ok(Way { api, model })
        };
        let other = match api {
            Api::OpenAi => Api::OpenAiResponses,
            Api::OpenAiResponses | Api::Anthropic | Api::Interactions => Api::OpenAi,
        };
        let second = has_two_ways.then(|| way(other)).transpose()?;
        let keep = self.options.keep_fact.cloned();
        let model = Ways::new(&server.base_url, way(api)?, second, keep);
        let model = Retrying::new(model, retry, seed);
        Ok(self.learning(model, name, entry, template))
    }

    /// Returns a model of `server` that is asked by another protocol than the Messages API.
    fn asked_by(
        &self,
        api: Api,
        server: Server,
        (model, abilities): (Model, Abilities),
        (additions, quirks): (Additions, Quirks),
        template: &LearnedTemplate,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let ttl = self.options.cache_ttl;
        Ok(match api {
            Api::OpenAi | Api::Anthropic => {
                let encoder = openai::Encoder::new(model, abilities, additions, quirks)
                    .with_template(template.clone());
                Arc::new(Chat::new(server, encoder.cached_for(ttl))?)
            }
            Api::OpenAiResponses => {
                let encoder = responses::Encoder::new(model, abilities, additions, quirks)
                    .holding(self.holds(true));
                Arc::new(Responses::new(server, encoder.cached_for(ttl))?)
            }
            Api::Interactions => {
                let encoder = interactions::Encoder::new(model, abilities, additions, quirks)
                    .holding(self.holds(true));
                Arc::new(Interactions::new(server, encoder)?)
            }
        })
    }

    /// Returns whether the server is on the user's machine or in the user's network.
    pub(crate) fn is_near(&self) -> bool {
        self.address().is_ok_and(|(address, _)| is_near(&address))
    }

    /// Returns `model` as one whose window is learned, unless it is a vendor's own: the window of a program on the user's
    /// machine, which is an option of it, and of a model that no catalogue knows.
    fn learning(
        &self,
        model: impl Provider + 'static,
        name: &str,
        entry: ModelEntry,
        template: LearnedTemplate,
    ) -> Arc<dyn Provider> {
        let is_near = self.is_near();
        let keep = self
            .options
            .keep_fact
            .filter(|_| is_near || !self.is_of_vendor());
        let Some(keep) = keep else {
            return Arc::new(model);
        };
        // Of a vendor's model at an address nearby, a gateway knows no more.
        let is_asked = is_near && !name.contains("claude") || entry.is_assumed();
        let source = is_asked
            .then(|| self.server().ok())
            .flatten()
            .map(|server| WindowSource::new(server, self.list(), name));
        let wanted = self.options.max_output;
        let model = Windowed::new(
            Arc::new(model),
            source,
            entry,
            wanted,
            (keep.clone(), template),
        );
        Arc::new(model)
    }

    /// Returns the name of the setting that holds the key, if there is a key.
    pub(crate) fn credentials(&self) -> Result<Option<String>, ProviderError> {
        let (base_url, _) = self.address()?;
        let (key, credentials, _) = self.key(&base_url)?;
        Ok(key.map(|_| credentials))
    }

    /// Returns the names of the settings in `request` that are not sent to the model `name`.
    pub(crate) fn left_out(&self, name: &str, request: &Request) -> Vec<&'static str> {
        let abilities = self.options.catalog.entry(self.name, name).abilities;
        let Dialect { api, quirks, .. } = self.dialect();
        let field = match api {
            Api::Anthropic => ThinkingField::Thinking,
            Api::OpenAi | Api::OpenAiResponses | Api::Interactions => quirks.thinking,
        };
        let mut settings = abilities.effective(request, field);
        if api == Api::OpenAiResponses {
            settings.stop = &[];
        }
        settings.left_out(request)
    }

    /// Returns whether requests go to the vendor itself.
    pub(crate) fn is_of_vendor(&self) -> bool {
        let address = self.address();
        address.is_ok_and(|(address, _)| self.preset.is_some_and(|preset| preset.is_at(&address)))
    }

    /// Returns whether the server is asked to hold conversations; `is_known` says whether it does with the model.
    fn holds(&self, is_known: bool) -> bool {
        match self.options.conversation_state {
            ConversationState::Auto => {
                let has = self.preset.is_some_and(|preset| preset.holds);
                has && is_known && self.is_of_vendor()
            }
            ConversationState::On => true,
            ConversationState::Off => false,
        }
    }

    /// Returns whether the server can search the web.
    pub(crate) fn searches(&self) -> bool {
        let is_able = self.preset.is_some_and(|preset| preset.searches);
        is_able && self.is_of_vendor() && self.api() == Api::Anthropic
    }

    /// Returns the small model: the one that a variable names, or else the vendor's.
    pub(crate) fn small(&self) -> Option<String> {
        let is_vendor = self.is_of_vendor();
        match self.name {
            "anthropic" => match self.variable(SMALL_MODEL) {
                Some(name) => Some(name.to_owned()),
                None => {
                    (is_vendor || self.variable(HAIKU_MODEL).is_some()).then(|| "haiku".to_owned())
                }
            },
            server @ ("openai" | "openai-responses") if is_vendor => {
                let small = self.options.catalog.newest_mini()?;
                Some(format!("{server}/{small}"))
            }
            _ => None,
        }
    }

    /// Returns whether the server is set up: it is in the settings, or its address or a key is set.
    pub(crate) fn is_configured(&self) -> bool {
        let has_address = self
            .preset
            .is_none_or(|preset| self.variable(&preset.address_variable).is_some());
        let is_in_settings = self.options.servers.contains_key(self.name);
        is_in_settings || has_address || matches!(self.credentials(), Ok(Some(_)))
    }

    /// Returns whether a name that begins with the server's is surely meant for it. With a gateway for all models, the name of a
    /// vendor without a key is rather the beginning of a name there.
    pub(crate) fn is_meant(&self) -> bool {
        let is_own =
            |preset: &Preset| preset.for_any_model || preset.only_way || preset.kind == Kind::Local;
        self.preset.is_none_or(is_own) || self.is_configured()
    }

    /// Returns whether answers may say what they cost.
    pub(crate) fn may_report_cost(&self) -> bool {
        let is_gateway = self
            .preset
            .is_some_and(|preset| preset.kind == Kind::Gateway);
        self.api() != Api::Anthropic && (is_gateway || !self.is_of_vendor())
    }

    /// Returns whether a server on this machine runs the model `name`. Gateways and servers of the Messages API only forward
    /// to it, and models of vendors, which have a price or are in the built-in catalogue, are behind a gateway of another name.
    pub(crate) fn runs_here(&self, name: &str) -> bool {
        let is_here = self
            .address()
            .is_ok_and(|(address, _)| is_loopback(&address));
        let forwards = || {
            self.preset
                .is_some_and(|preset| preset.kind == Kind::Gateway)
                || self.api() == Api::Anthropic
                || Catalog::built_in().knows(self.name, name)
                || self.options.catalog.entry(self.name, name).price.is_some()
        };
        let is_local = || self.preset.is_some_and(|preset| preset.kind == Kind::Local);
        is_here && (is_local() || !forwards())
    }

    /// Returns the name of the server.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the name of the variable or setting that holds the address.
    pub(crate) fn address_setting(&self) -> String {
        match (&self.settings.base_url, self.preset) {
            (None, Some(preset)) => preset.address_variable.clone(),
            _ => format!("providers.{}.baseUrl", self.name),
        }
    }

    /// Returns the protocol of the server.
    pub(crate) fn api(&self) -> Api {
        self.dialect().api
    }

    /// Returns the form of the server's list of models.
    pub(crate) fn list(&self) -> List {
        self.dialect().list
    }

    /// What holds for requests: the settings, then what the path of the address says, then the row of the name, or of the
    /// address where that says more. A server that only has the name of OpenAI is a compatible one, for instance.
    fn dialect(&self) -> Dialect {
        let address = self
            .address()
            .map_or_else(|_| Cow::default(), |(address, _)| address);
        let row = match self.preset {
            Some(own) if own.compatible.is_none() || own.is_at(&address) => Some(own),
            _ => Preset::at(&address),
        };
        let said = self.settings.api.or_else(|| Api::of_path(&address));
        let compatible = || self.preset.and_then(|own| own.compatible);
        let api = said
            .or_else(|| row.map(|row| row.api))
            .or_else(compatible)
            .unwrap_or_default();
        // Only its own host limits the ids of calls: behind others, Gemini's signatures are in them.
        let of_name = || Quirks {
            tool_call_ids: ToolCallIds::Any,
            ..self
                .preset
                .map(|own| own.quirks.clone())
                .unwrap_or_default()
        };
        let is_remote = row.is_some_and(|row| row.kind != Kind::Local);
        let quirks = || row.map_or_else(of_name, |row| row.quirks.clone());
        let is_messages = api == Api::Anthropic;
        let mut quirks = self.settings.quirks.clone().unwrap_or_else(quirks);
        if quirks.answer_form == AnswerField::Usual && is_remote {
            quirks.answer_form = AnswerField::ToolChoice;
        }
        let list = row
            .filter(|row| (row.api == Api::Anthropic) == is_messages)
            .and_then(|row| row.list);
        Dialect {
            api,
            quirks,
            list: list.unwrap_or(match (is_messages, row) {
                (true, _) => List::Messages,
                (false, Some(_)) => List::Models,
                (false, None) => List::Litellm,
            }),
            has_two_ways: matches!(api, Api::OpenAi | Api::OpenAiResponses)
                && said.is_none()
                && self.preset.is_none_or(|own| !own.only_way),
        }
    }

    /// The server, and the beta that its key requires.
    pub(crate) fn server(&self) -> Result<(Server, Option<&'static str>), ProviderError> {
        let (base_url, address) = self.address()?;
        let (key, credentials, beta) = self.key(&base_url)?;
        let client =
            ah_http::client(self.options.http, &base_url).map_err(|error| ProviderError {
                hint: match error {
                    ah_http::Error::Address { .. } => {
                        Some(format!("set {address} to the address of the server"))
                    }
                    _ => error.hint().map(str::to_owned),
                },
                ..ProviderError::new(ErrorClass::InvalidRequest, with_causes(&error))
            })?;
        let server = Server {
            client,
            http: self.options.http.clone(),
            base_url: base_url.into_owned(),
            key,
            headers: self.settings.headers.clone(),
            setting_names: SettingNames {
                address,
                credentials,
            },
            timeouts: self.options.timeouts,
            keep_fact: self.options.keep_fact.cloned(),
            notes: self.options.notes.cloned(),
        };
        Ok((server, beta))
    }

    /// The address, and the name of the setting that holds it.
    fn address(&self) -> Result<(Cow<'_, str>, String), ProviderError> {
        let setting = self.address_setting();
        if let Some(address) = &self.settings.base_url {
            return Ok((address.trim().into(), setting));
        }
        let address = match self.preset {
            Some(preset) => preset.address(|name| self.variable(name)),
            None => Err(format!("{setting} to the address of the server")),
        };
        let address = address.map_err(|wanted| self.no_address(&format!("set {wanted}")))?;
        Ok((address, setting))
    }

    fn no_address(&self, hint: &str) -> ProviderError {
        let message = format!("no address for `{}/` models", self.name);
        ProviderError {
            hint: Some(hint.to_owned()),
            ..ProviderError::new(ErrorClass::InvalidRequest, message)
        }
    }

    /// The key, the name of its setting, and the beta that it requires. A missing key is an error only at a vendor's
    /// server, since other servers often need none.
    fn key(
        &self,
        base_url: &str,
    ) -> Result<(Option<Key>, String, Option<&'static str>), ProviderError> {
        let own = self.settings.key_header.as_ref();
        let header = own.or_else(|| self.preset?.key_header.as_ref()).cloned();
        let key = |secret| Key {
            secret,
            header: header.clone(),
        };
        let of_variable = |name: &str| Some(key(Secret::Known(self.variable(name)?.to_owned())));
        let (variable, command) = (&self.settings.key_env, &self.settings.key_command);
        let named = variable
            .as_deref()
            .and_then(|name| Some((of_variable(name)?, name)));
        if let Some((key, name)) = named {
            return Ok((Some(key), name.to_owned(), None));
        }
        if let Some(command) = command {
            let setting = format!("providers.{}.keyCommand", self.name);
            let source = (self.options.key_source)(command, &setting);
            return Ok((Some(key(Secret::Source(source))), setting, None));
        }
        if let Some(name) = variable {
            return Err(self.no_key(format!("set {name}")));
        }
        let Some(preset) = self.preset else {
            let setting = format!("providers.{}.keyEnv", self.name);
            return Ok((None, setting, None));
        };
        if preset.name == "anthropic" {
            return match Credentials::find(self.options.environment) {
                Some(found) => {
                    let (name, beta) = (found.variable().to_owned(), found.beta());
                    Ok((Some(found.into_key()), name, beta))
                }
                None if self.settings.base_url.is_some() => {
                    Ok((None, format!("providers.{}.keyEnv", self.name), None))
                }
                None => Err(self.no_key(Credentials::wanted())),
            };
        }
        let found = preset
            .keys
            .iter()
            .find_map(|name| Some((of_variable(name)?, name)));
        if let (None, Some((secret, name))) = (&found, self.signature(preset)) {
            return Ok((Some(key(secret)), name.to_owned(), None));
        }
        let is_needed = || preset.kind != Kind::Local && preset.is_at(base_url);
        match found {
            Some((key, name)) => Ok((Some(key), name.clone(), None)),
            None if is_needed() => {
                let of_aws = signing::IS_THERE && preset.signed;
                let profile = of_aws.then(|| PROFILE.to_owned());
                let names: Vec<_> = preset.keys.iter().cloned().chain(profile).collect();
                Err(self.no_key(format!("set {}", names.join(" or "))))
            }
            None => Ok((None, preset.keys.join(" or "), None)),
        }
    }

    /// The credentials of AWS for a server that takes signed requests, and the variable that says them: themselves, or the profile
    /// whose credentials AWS' own program finds.
    fn signature(&self, preset: &Preset) -> Option<(Secret, &'static str)> {
        if !preset.signed || !signing::IS_THERE {
            return None;
        }
        if let Some(credentials) = signing::of_variables(|name| self.variable(name)) {
            return Some((Secret::Known(credentials), "AWS_ACCESS_KEY_ID"));
        }
        self.variable(PROFILE)?;
        let source = (self.options.key_source)("aws configure export-credentials", PROFILE);
        Some((Secret::Source(source), PROFILE))
    }

    fn no_key(&self, wanted: String) -> ProviderError {
        let whose = match (self.name, self.preset) {
            ("anthropic", _) => "the Messages API".to_owned(),
            (_, Some(preset)) => preset.title.clone(),
            (name, None) => format!("`{name}/` models"),
        };
        let elsewhere = self.elsewhere();
        let hint = if elsewhere.is_empty() {
            wanted
        } else {
            format!(
                "{wanted}; or use a server that is configured: {}",
                elsewhere.join(", ")
            )
        };
        ProviderError {
            hint: Some(hint),
            ..ProviderError::new(
                ErrorClass::Authentication,
                format!("no API key for {whose}"),
            )
        }
    }

    /// Command-line options for models of servers that are configured.
    fn elsewhere(&self) -> Vec<String> {
        let has_key =
            |preset: &Preset| preset.keys.iter().any(|name| self.variable(name).is_some());
        let known = presets::servers().filter(|preset| {
            let has_address = self.variable(&preset.address_variable).is_some();
            let is_reached =
                || preset.address(|name| self.variable(name)).is_ok() && has_key(preset);
            preset.name != "anthropic" && (has_address || is_reached())
        });
        let known = known.map(|preset| preset.name.as_str());
        let named = self.options.servers.keys().map(String::as_str);
        let mut names: Vec<_> = known
            .chain(named)
            .filter(|name| *name != self.name)
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        let option = |name| format!("`--model {name}/NAME`");
        names.into_iter().map(option).collect()
    }

    fn variable(&self, name: &str) -> Option<&'a str> {
        variable(self.options, name)
    }
}

/// Returns the server that is configured for models whose names say none: the one of `ANTHROPIC_BASE_URL` unless that is
/// the vendor's, else of `LITELLM_BASE_URL`, else of `OPENAI_BASE_URL`, else the only one of the settings.
pub(crate) fn configured<'a>(options: &'a Options<'a>) -> Option<&'a str> {
    let is_set = |preset: &&Preset| {
        let is_set = preset.for_any_model && variable(options, &preset.address_variable).is_some();
        is_set && Route::to(&preset.name, options).is_some_and(|route| !route.is_of_vendor())
    };
    let mut named = options.servers.keys();
    let only = match (named.next(), named.next()) {
        (Some(name), None) => Some(name.as_str()),
        _ => None,
    };
    let known = presets::servers().find(is_set);
    known.map(|preset| preset.name.as_str()).or(only)
}

fn variable<'a>(options: &'a Options<'a>, name: &str) -> Option<&'a str> {
    let value = options.environment.get(name)?.trim();
    (!value.is_empty()).then_some(value)
}

/// The context window of `model` with `betas`.
fn window(model: &Model, betas: &[String]) -> u64 {
    let is_wide = model.name.contains("sonnet") && betas.iter().any(|beta| beta == WIDE_WINDOW);
    model
        .context_window
        .max(if is_wide { 1_000_000 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beta_widens_the_window_of_sonnet_models_alone() {
        let catalog = crate::catalog::Catalog::built_in();
        let wide = [WIDE_WINDOW.to_owned()];
        for (name, betas, expected) in [
            ("claude-sonnet-4-5-20250929", &wide[..], 1_000_000),
            ("claude-sonnet-4-5-20250929", &[], 200_000),
            ("claude-haiku-4-5-20251001", &wide[..], 200_000),
        ] {
            let model = catalog.model("anthropic", name);
            assert_eq!(window(&model, betas), expected, "{name} {betas:?}");
        }
    }
}
