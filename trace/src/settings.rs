//! Whether and where to send traces: the variables of the OpenTelemetry specification.

use std::time::Duration;

use ah_conversation::Environment;
use percent_encoding::percent_decode_str;

/// Path of traces below the address of a collector.
const PATH: &str = "/v1/traces";
/// Time limit of a request, unless a variable sets one.
const TIMEOUT: Duration = Duration::from_secs(10);
const SERVICE: &str = "ah";
/// Attribute of the program's version.
const VERSION: &str = "service.version";

/// Destination and form of traces.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TraceSettings {
    /// Address that traces are posted to.
    pub endpoint: String,
    /// Additional headers of the requests.
    pub headers: Vec<(String, String)>,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Attributes of this program, `service.name` first.
    pub resource: Vec<(String, String)>,
    /// Whether spans contain prompts, answers, arguments and results.
    pub has_content: bool,
}

impl TraceSettings {
    /// Returns the settings that the variables make, `None` if no traces are wanted.
    ///
    /// # Errors
    ///
    /// A warning for the user, if traces are wanted in a form that is not supported.
    pub fn of(environment: &Environment) -> Result<Option<Self>, String> {
        let get = |name: &str| environment.get(name);
        let traces = |name: &str| {
            let own = environment.get(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
            own.or_else(|| environment.get(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let is_off = get("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"))
            || get("OTEL_TRACES_EXPORTER").is_some_and(|it| it != "otlp");
        let own = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").map(str::to_owned);
        let common = get("OTEL_EXPORTER_OTLP_ENDPOINT")
            .map(|base| format!("{}{PATH}", base.trim_end_matches('/')));
        let Some(endpoint) = own.or(common).filter(|_| !is_off) else {
            return Ok(None);
        };
        if traces("PROTOCOL") == Some("grpc") {
            return Err(
                "no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`, and ah sends `http/json`"
                    .to_owned(),
            );
        }
        let timeout = traces("TIMEOUT").and_then(|text| text.trim().parse().ok());
        let mut resource = pairs(get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
        let named = { resource.iter() }.position(|(name, _)| name == "service.name");
        let named = named.map(|at| resource.remove(at).1);
        let service = get("OTEL_SERVICE_NAME").map(str::to_owned).or(named);
        let service = service.unwrap_or_else(|| SERVICE.to_owned());
        resource.insert(0, ("service.name".to_owned(), service));
        if resource.iter().all(|(name, _)| name != VERSION) {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            resource.insert(1, (VERSION.to_owned(), version));
        }
        let content = get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        Ok(Some(Self {
            endpoint,
            headers: pairs(traces("HEADERS").unwrap_or_default()),
            timeout: timeout.map_or(TIMEOUT, Duration::from_millis),
            resource,
            has_content: content.is_some_and(|it| {
                ["true", "span_only", "span_and_event"].contains(&&*it.to_ascii_lowercase())
            }),
        }))
    }
}

/// Reads `a=1,b=2`, with percent-encoded values.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| {
        let value = percent_decode_str(value.trim()).decode_utf8_lossy();
        (name.trim().to_owned(), value.into_owned())
    });
    pairs.filter(|(name, _)| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, String> {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        TraceSettings::of(&Environment::new(variables, "/".into()))
    }

    #[test]
    fn traces_need_an_address_and_can_be_turned_off() {
        let common = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x");
        for (variables, expected) in [
            (vec![], None),
            (vec![("OTEL_SERVICE_NAME", "s")], None),
            (vec![common], Some("http://c:4318/v1/traces")),
            (vec![common, own], Some("http://t/x")),
            (vec![common, ("OTEL_SDK_DISABLED", "TRUE")], None),
            (vec![common, ("OTEL_TRACES_EXPORTER", "none")], None),
        ] {
            let settings = of(&variables).unwrap();
            let endpoint = settings.map(|settings| settings.endpoint);
            assert_eq!(endpoint.as_deref(), expected, "{variables:?}");
        }
        let error = of(&[common, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err();
        assert!(error.contains("`http/json`"), "{error}");
    }

    #[test]
    fn headers_resource_and_limits_are_read() {
        let settings = of(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Basic%20a%3D, x = 1",
            ),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team=a,service.name=s"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        ]);
        let settings = settings.unwrap().unwrap();
        let shown = |pairs: &[(String, String)]| {
            let pairs = pairs.iter().map(|(name, value)| format!("{name}: {value}"));
            pairs.collect::<Vec<_>>()
        };
        assert_eq!(
            shown(&settings.headers),
            ["authorization: Basic a=", "x: 1"]
        );
        let version = format!("service.version: {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            shown(&settings.resource),
            ["service.name: s", &version, "team: a"]
        );
        let versioned = of(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.version=9"),
        ]);
        assert_eq!(
            shown(&versioned.unwrap().unwrap().resource),
            ["service.name: ah", "service.version: 9"]
        );
        assert_eq!(settings.timeout, Duration::from_millis(500));
        assert!(settings.has_content);
    }
}
