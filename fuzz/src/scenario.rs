//! Scenarios of the scripted model.

use ah_provider::script::format::Scenario;

/// A scenario is unchanged after it is written and parsed again.
pub fn run(bytes: &[u8]) {
    let Ok(scenario) = Scenario::parse(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    let text = serde_json::to_string(&scenario).expect("serializing a scenario");
    let again = Scenario::parse(&text);
    assert_eq!(again.as_ref(), Ok(&scenario), "{text}");
}
