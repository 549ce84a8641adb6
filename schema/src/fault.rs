//! An error in a value, and its text.

use std::fmt;

use boon::{ErrorKind, ValidationError};
use serde_json::Value;

/// Maximum number of values of an `enum` in a text.
const NAMED_VALUES: usize = 3;

/// A part of a value that does not fit the schema. Its `Display` names that part by its JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    place: String,
    /// The JSON of the part.
    value: String,
    text: Text,
}

/// The text of the error, around the name of the part.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    Whole(String),
    After(String),
    Around(&'static str, &'static str),
}

impl Fault {
    /// Returns the JSON Pointer of the part; empty for the value itself.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the text with `name` in the place of the part's JSON.
    pub fn told_of(&self, name: &str) -> String {
        match &self.text {
            Text::Whole(text) => text.clone(),
            Text::After(text) => format!("{name} {text}"),
            Text::Around(before, after) => format!("{before}{name}{after}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told_of(&self.value))
    }
}

/// Returns all faults of `value`, in the order in which they were found.
pub(crate) fn all(error: &ValidationError<'_, '_>, value: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    collect(error, value, &mut faults);
    faults
}

fn collect(error: &ValidationError<'_, '_>, value: &Value, faults: &mut Vec<Fault>) {
    use ErrorKind as Kind;
    let is_frame = matches!(
        error.kind,
        Kind::Group | Kind::Schema { .. } | Kind::Reference { .. } | Kind::AllOf
    );
    if is_frame {
        for cause in &error.causes {
            collect(cause, value, faults);
        }
        return;
    }
    let place = error.instance_location.to_string();
    let part = value.pointer(&place).unwrap_or(value).to_string();
    let fault = |text| Fault {
        place: place.clone(),
        value: part.clone(),
        text,
    };
    match &error.kind {
        // One for each name, so that a reader can count them.
        Kind::Required { want } => faults.extend(want.iter().map(|name| {
            let name = Value::from(*name);
            fault(Text::Whole(format!("{name} is a required property")))
        })),
        kind => faults.push(fault(text(kind))),
    }
}

fn text(kind: &ErrorKind<'_, '_>) -> Text {
    use ErrorKind as Kind;
    let text = match kind {
        Kind::FalseSchema => return Text::Around("False schema does not allow ", ""),
        Kind::Contains => return Text::Around("None of ", " are valid under the given schema"),
        Kind::PropertyName { prop } => {
            return Text::Whole(format!("'{prop}' is not a valid property name"));
        }
        Kind::AdditionalProperties { got } => {
            let names: Vec<_> = got.iter().map(|name| format!("'{name}'")).collect();
            return Text::Whole(format!(
                "Additional properties are not allowed ({} {} unexpected)",
                names.join(", "),
                if got.len() == 1 { "was" } else { "were" }
            ));
        }
        Kind::AdditionalItems { got } => {
            let items = count(*got, "item");
            return Text::Whole(format!("Additional items are not allowed ({items})"));
        }
        Kind::Const { want } => return Text::Whole(format!("{want} was expected")),
        Kind::Dependency { missing, .. } | Kind::DependentRequired { missing, .. } => {
            let names: Vec<_> = missing.iter().map(|name| format!("\"{name}\"")).collect();
            return Text::Whole(format!("{} is a required property", names.join(", ")));
        }
        Kind::Type { want, .. } => {
            let types: Vec<_> = want.iter().map(|name| format!("\"{name}\"")).collect();
            let word = if types.len() == 1 { "type" } else { "types" };
            format!("is not of {word} {}", types.join(", "))
        }
        Kind::Enum { want } => format!("is not one of {}", alternatives(want)),
        Kind::Not => "is not allowed".to_owned(),
        Kind::AnyOf => under_none("anyOf"),
        Kind::OneOf(None) => under_none("oneOf"),
        Kind::OneOf(Some(_)) => {
            "is valid under more than one of the schemas listed in the 'oneOf' keyword".to_owned()
        }
        Kind::Format { want, .. } => format!("is not a \"{want}\""),
        Kind::Pattern { want, .. } => format!("does not match \"{want}\""),
        Kind::UniqueItems { .. } => "has non-unique elements".to_owned(),
        other => return of_size(other),
    };
    Text::After(text)
}

/// Returns the text for a fault of a number or a length.
fn of_size(kind: &ErrorKind<'_, '_>) -> Text {
    use ErrorKind as Kind;
    Text::After(match kind {
        Kind::Minimum { want, .. } => format!("is less than the minimum of {want}"),
        Kind::Maximum { want, .. } => format!("is greater than the maximum of {want}"),
        Kind::ExclusiveMinimum { want, .. } => {
            format!("is less than or equal to the minimum of {want}")
        }
        Kind::ExclusiveMaximum { want, .. } => {
            format!("is greater than or equal to the maximum of {want}")
        }
        Kind::MultipleOf { want, .. } => format!("is not a multiple of {want}"),
        Kind::MinLength { want, .. } => format!("is shorter than {}", count(*want, "character")),
        Kind::MaxLength { want, .. } => format!("is longer than {}", count(*want, "character")),
        Kind::MinItems { want, .. } => format!("has less than {}", count(*want, "item")),
        Kind::MaxItems { want, .. } => format!("has more than {}", count(*want, "item")),
        Kind::MinContains { want, .. } => {
            format!("has less than {} of the wanted kind", count(*want, "item"))
        }
        Kind::MaxContains { want, .. } => {
            format!("has more than {} of the wanted kind", count(*want, "item"))
        }
        Kind::MinProperties { want, .. } if *want == 1 => "has less than 1 property".to_owned(),
        Kind::MinProperties { want, .. } => format!("has less than {want} properties"),
        Kind::MaxProperties { want, .. } if *want == 1 => "has more than 1 property".to_owned(),
        Kind::MaxProperties { want, .. } => format!("has more than {want} properties"),
        other => return Text::Whole(other.to_string()),
    })
}

fn under_none(keyword: &str) -> String {
    format!("is not valid under any of the schemas listed in the '{keyword}' keyword")
}

/// Returns the allowed values, or the first few of many.
fn alternatives(values: &[Value]) -> String {
    let told: Vec<_> = values.iter().map(Value::to_string).collect();
    match told.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if told.len() <= NAMED_VALUES => {
            format!("{} or {last}", first.join(", "))
        }
        many => {
            let named = NAMED_VALUES - 1;
            let left = many.len() - named;
            format!("{} or {left} other candidates", many[..named].join(", "))
        }
    }
}

fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Schema;

    #[test]
    fn each_fault_has_its_place_and_its_words() {
        for (schema, value, expected) in [
            (
                json!({"type": "string"}),
                json!(1),
                "the value is not of type \"string\"",
            ),
            (
                json!({"type": ["string", "null"]}),
                json!(1),
                "the value is not of types \"null\", \"string\"",
            ),
            (
                json!({"enum": ["a", 1]}),
                json!("b"),
                "the value is not one of \"a\" or 1",
            ),
            (
                json!({"enum": [1, 2, 3, 4, 5]}),
                json!(6),
                "the value is not one of 1, 2 or 3 other candidates",
            ),
            (
                json!({"required": ["a", "b"]}),
                json!({}),
                "\"a\" is a required property; \"b\" is a required property",
            ),
            (
                json!({"additionalProperties": false}),
                json!({"a": 1}),
                "Additional properties are not allowed ('a' was unexpected)",
            ),
            (
                json!({"allOf": [{"minimum": 3}, {"multipleOf": 2}]}),
                json!(1),
                "the value is less than the minimum of 3; the value is not a multiple of 2",
            ),
            (
                json!({"properties": {"a": {"items": {"maxLength": 1}}}}),
                json!({"a": ["x", "xy"]}),
                "/a/1: the value is longer than 1 character",
            ),
            (
                json!({"anyOf": [{"type": "null"}, {"minItems": 2}]}),
                json!([1]),
                "the value is not valid under any of the schemas listed in the 'anyOf' keyword",
            ),
            (
                json!({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"const": 1}}}),
                json!([2]),
                "/0: 1 was expected",
            ),
            (
                json!({"propertyNames": {"maxLength": 1}}),
                json!({"ab": 1}),
                "'ab' is not a valid property name",
            ),
            (
                json!({"contains": {"const": 1}}),
                json!([2]),
                "None of the value are valid under the given schema",
            ),
        ] {
            let faults = Schema::new(&schema).unwrap().faults(&value);
            let told = faults.iter().map(|fault| match fault.place() {
                "" => fault.told_of("the value"),
                place => format!("{place}: {}", fault.told_of("the value")),
            });
            assert_eq!(told.collect::<Vec<_>>().join("; "), expected, "{schema}");
        }
    }
}
