//! Names of arguments that a vendor refuses, such as `$top` and `uids[]`: the model sees others in their place. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Maximum length of an argument name that every vendor accepts.
const LONGEST: usize = 64;

/// The server's own names of arguments, by those that the model sees; only of arguments that have two.
pub(crate) type OwnNames = BTreeMap<String, String>;

/// Replaces the names of a schema that a vendor would refuse.
pub(crate) fn replace(schema: &mut Map<String, Value>) -> OwnNames {
    let mut own = OwnNames::new();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return own;
    };
    let odd: Vec<_> = properties
        .keys()
        .filter(|name| !is_accepted(name))
        .cloned()
        .collect();
    for name in odd {
        let shown = free(&name, properties);
        if let Some(value) = properties.shift_remove(&name) {
            properties.insert(shown.clone(), value);
        }
        own.insert(shown, name);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required").filter(|_| !own.is_empty()) {
        for name in required {
            let shown = own.iter().find(|(_, own)| name.as_str() == Some(own));
            if let Some((shown, _)) = shown {
                *name = Value::from(shown.as_str());
            }
        }
    }
    own
}

/// Returns the arguments of a call under the server's own names.
pub(crate) fn restore(arguments: &Map<String, Value>, own: &OwnNames) -> Map<String, Value> {
    let arguments = arguments.iter();
    let named =
        arguments.map(|(name, value)| (own.get(name).unwrap_or(name).clone(), value.clone()));
    named.collect()
}

fn is_accepted(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len()) && name.bytes().all(is_plain)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}

/// Returns a name like this one that is accepted and not taken.
fn free(name: &str, taken: &Map<String, Value>) -> String {
    let plain = name.chars().map(|sign| match u8::try_from(sign) {
        Ok(byte) if is_plain(byte) => sign,
        _ => '_',
    });
    // Room for a number.
    let plain: String = plain.take(LONGEST - 4).collect();
    let base = match plain.trim_matches('_') {
        "" => "argument",
        base => base,
    };
    let is_free = |name: &String| !taken.contains_key(name);
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    names.find(is_free).unwrap_or_else(|| base.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_a_vendor_refuses_have_others() {
        for (names, expected) in [
            (&["a", "b.c-D_9"][..], "a b.c-D_9"),
            (&["$top"], "top"),
            (&["uids[]", "uids"], "uids uids_2"),
            (&["$a", "@a", "a"], "a a_2 a_3"),
            (&["", "日"], "argument argument_2"),
            (&["a b:c"], "a_b_c"),
        ] {
            let properties: Map<_, _> = names
                .iter()
                .map(|name| ((*name).to_owned(), json!({})))
                .collect();
            let mut schema = json!({"properties": properties})
                .as_object()
                .unwrap()
                .clone();
            replace(&mut schema);
            let mut shown: Vec<_> = schema["properties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect();
            shown.sort();
            assert_eq!(shown.join(" "), expected, "{names:?}");
        }
        let mut schema = json!({"properties": {"$a": {}, "b": {}}, "required": ["b", "$a"]});
        let schema = schema.as_object_mut().unwrap();
        replace(schema);
        assert_eq!(schema["required"], json!(["b", "a"]));
    }

    proptest! {
        #[test]
        fn a_call_reaches_the_server_under_its_names(names in proptest::collection::btree_set("[a$@ \\[\\]é_]{0,70}", 0..6)) {
            let properties: Map<_, _> = names.iter().enumerate().map(|(at, name)| (name.clone(), json!(at))).collect();
            let mut schema = json!({"properties": properties}).as_object().unwrap().clone();
            let own = replace(&mut schema);
            let shown = schema["properties"].as_object().unwrap();
            prop_assert_eq!(shown.len(), names.len());
            prop_assert!(shown.keys().all(|name| is_accepted(name)), "{:?}", shown);
            prop_assert_eq!(Value::Object(restore(shown, &own)), Value::Object(properties));
        }
    }
}
