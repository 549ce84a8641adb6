//! Scenarios of the scripted model.

use ah_provider::script::format::Scenario;

/// What is read as a scenario is the same when it is written and read again.
pub fn run(bytes: &[u8]) {
    let Ok(scenario) = Scenario::parse(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    let text = serde_json::to_string(&scenario).expect("a scenario can be written");
    let again = Scenario::parse(&text);
    assert_eq!(again.as_ref(), Ok(&scenario), "{text}");
}
