//! The drafts of JSON Schema. Each is compiled when the first schema of it comes.

use std::sync::OnceLock;

use boon::{Compiler, SchemaIndex, Schemas, ValidationError};
use serde_json::Value;

pub(crate) const DRAFT_2020_12: &str = "https://json-schema.org/draft/2020-12/schema";
/// Addresses of the meta-schemas, the newest first.
const DRAFTS: [&str; 5] = [
    DRAFT_2020_12,
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft-06/schema",
    "https://json-schema.org/draft-04/schema",
];
/// Address of the newest.
const NEWEST: &str = "https://json-schema.org/schema";

/// The meta-schema of a draft.
pub(crate) struct Draft {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Draft {
    /// Holds a schema against it.
    pub(crate) fn check<'a>(
        &'a self,
        schema: &'a Value,
    ) -> Result<(), Box<ValidationError<'a, 'a>>> {
        self.schemas.validate(schema, self.index).map_err(Box::new)
    }
}

/// Returns the draft of a schema: the one that it names, or the newest; `None` if it names something else.
pub(crate) fn of(schema: &Value) -> Option<&'static Draft> {
    static COMPILED: [OnceLock<Draft>; DRAFTS.len()] = [const { OnceLock::new() }; DRAFTS.len()];
    let named = schema.get("$schema").and_then(Value::as_str);
    let at = match named.map(plain) {
        None => 0,
        Some(name) if name == plain(NEWEST) => 0,
        Some(name) => DRAFTS.iter().position(|draft| plain(draft) == name)?,
    };
    Some(COMPILED[at].get_or_init(|| compiled(DRAFTS[at])))
}

/// Returns an address without what makes no difference.
fn plain(address: &str) -> &str {
    let address = address.strip_suffix('#').unwrap_or(address);
    let address = address.strip_prefix("http://").unwrap_or(address);
    address.strip_prefix("https://").unwrap_or(address)
}

fn compiled(draft: &str) -> Draft {
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.enable_format_assertions();
    let index = compiler
        .compile(draft, &mut schemas)
        .expect("the library brings the meta-schemas along");
    Draft { schemas, index }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_draft_refuses_what_is_none_of_its_schemas() {
        for draft in DRAFTS.into_iter().chain([NEWEST]) {
            for name in [draft.to_owned(), draft.replace("https", "http") + "#"] {
                let good = json!({"$schema": name, "type": "object"});
                assert!(of(&good).unwrap().check(&good).is_ok(), "{name}");
                let bad = json!({"$schema": name, "type": "thing"});
                assert!(of(&bad).unwrap().check(&bad).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn a_schema_without_a_draft_is_of_the_newest() {
        let newest = of(&json!({"$schema": DRAFT_2020_12})).unwrap();
        for schema in [json!({}), json!(true), json!({"$schema": 1})] {
            assert!(std::ptr::eq(of(&schema).unwrap(), newest));
        }
        assert!(of(&json!({"$schema": "https://example.org/schema"})).is_none());
    }
}
