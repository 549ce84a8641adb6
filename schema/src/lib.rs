//! JSON Schema: validation of values, and of schemas themselves.
//!
//! Schemas come from models' tools, MCP servers and hosts, so a schema never makes this program open a file or a
//! connection: a `$ref` that leads out of it is an error. Keywords that the validator cannot check exactly are not
//! checked, so that no valid value is refused. Reporting the errors is left to the callers.

mod draft;
mod fault;
mod unchecked;

use std::sync::LazyLock;

use boon::{CompileError, Compiler, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

use draft::DRAFT_2020_12;

pub use fault::Fault;

/// The address under which a schema is compiled. Nothing is fetched from it.
const OWN: &str = "schema:///own";
/// The same for a schema that is not held against its draft: the validator leaves that out on this host. For its own check
/// it compiles all drafts at once, which takes as long as a turn and 0.7 MB.
const CHECKED: &str = "https://json-schema.org/own/schema";

/// A compiled schema, of the draft that its `$schema` names; of 2020-12 without one.
pub struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

/// Error of a schema that cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema does not fit its draft.
    #[error("{0}")]
    Invalid(Fault),
    /// A reference, pattern or draft in it cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl Schema {
    /// Compiles `schema`.
    ///
    /// # Errors
    ///
    /// If it is no schema of its draft, or refers to something outside itself.
    pub fn new(schema: &Value) -> Result<Self, Error> {
        let kept = unchecked::without(schema);
        let address = match draft::of(&kept) {
            Some(draft) => {
                let refused = |error: Box<_>| Error::refused(&error, schema);
                draft.check(&kept).map_err(refused)?;
                CHECKED
            }
            None => OWN,
        };
        Self::compiled(address, kept, schema)
    }

    /// Compiles `schema`, which is taken for one of its draft: to compile the draft takes as long as a turn. What is none of
    /// its keywords says nothing about values.
    ///
    /// # Errors
    ///
    /// If it refers to something outside itself, or its draft is not known.
    pub fn assumed(schema: &Value) -> Result<Self, Error> {
        Self::compiled(CHECKED, unchecked::without(schema), schema)
    }

    fn compiled(address: &str, kept: Value, schema: &Value) -> Result<Self, Error> {
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(Nowhere));
        let mut schemas = Schemas::new();
        let failed = |error| Error::of(&error, schema);
        compiler.add_resource(address, kept).map_err(failed)?;
        let index = compiler.compile(address, &mut schemas).map_err(failed)?;
        Ok(Self { schemas, index })
    }

    /// Returns whether `value` fits.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.schemas.validate(value, self.index).is_ok()
    }

    /// Returns all faults of `value`; none if it fits.
    pub fn faults(&self, value: &Value) -> Vec<Fault> {
        match self.schemas.validate(value, self.index) {
            Ok(()) => Vec::new(),
            Err(error) => fault::all(&error, value),
        }
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

/// Checks `schema` against the meta-schema of draft 2020-12, whatever its `$schema` says.
///
/// # Errors
///
/// The first fault, if it does not fit.
pub fn check(schema: &Value) -> Result<(), Fault> {
    static META: LazyLock<Schema> = LazyLock::new(|| {
        let mut schemas = Schemas::new();
        let index = Compiler::new()
            .compile(DRAFT_2020_12, &mut schemas)
            .expect("the library brings the meta-schema along");
        Schema { schemas, index }
    });
    META.faults(schema).into_iter().next().map_or(Ok(()), Err)
}

impl Error {
    fn of(error: &CompileError, schema: &Value) -> Self {
        match error {
            CompileError::ValidationError { src, .. } => Self::refused(src, schema),
            error => {
                let text = format!("{error:#}").replace(OWN, "the schema");
                Self::Unusable(text.replace(CHECKED, "the schema"))
            }
        }
    }

    fn refused(error: &ValidationError<'_, '_>, schema: &Value) -> Self {
        let fault = fault::all(error, schema).into_iter().next();
        fault.map_or_else(|| Self::Unusable(error.to_string()), Self::Invalid)
    }
}

/// Loads nothing.
struct Nowhere;

impl UrlLoader for Nowhere {
    fn load(&self, _: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err("references to other documents are not followed".into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn drafts_are_told_apart() {
        let draft_07 = "http://json-schema.org/draft-07/schema#";
        let tuple = |draft: &str| json!({"$schema": draft, "items": [{"type": "string"}]});
        assert!(!Schema::new(&tuple(draft_07)).unwrap().is_valid(&json!([1])));
        assert!(matches!(
            Schema::new(&tuple(DRAFT_2020_12)),
            Err(Error::Invalid(_))
        ));
        let prefix = json!({"prefixItems": [{"type": "string"}]});
        assert!(!Schema::new(&prefix).unwrap().is_valid(&json!([1])));
        // The drafts have different names for definitions; both are found.
        for (word, draft) in [("definitions", draft_07), ("$defs", DRAFT_2020_12)] {
            let schema = json!({
                "$schema": draft,
                "properties": {"a": {"$ref": format!("#/{word}/a")}},
                word: {"a": {"type": "integer"}},
            });
            let schema = Schema::new(&schema).unwrap();
            assert!(schema.is_valid(&json!({"a": 1})));
            assert!(!schema.is_valid(&json!({"a": "1"})));
        }
    }

    #[test]
    fn nothing_outside_is_opened() {
        let folder = std::env::temp_dir();
        for place in [
            format!("file://{}/schema.json", folder.display()),
            "https://example.org/schema.json".to_owned(),
            "other.json".to_owned(),
        ] {
            let error = Schema::new(&json!({"$ref": place})).unwrap_err();
            assert!(matches!(error, Error::Unusable(_)), "{place}: {error}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused_wherever_it_is_used() {
        let bad = json!({"type": "thing"});
        for schema in [
            bad.clone(),
            json!({"$defs": {"a": {"$id": "https://example.org/a", "items": bad}}}),
            json!({"$ref": "#/own/a", "own": {"a": bad}}),
        ] {
            let error = Schema::new(&schema).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{schema}: {error}");
        }
        // No draft to hold it against.
        let foreign = json!({"$schema": "https://example.org/schema"});
        assert!(matches!(Schema::new(&foreign), Err(Error::Unusable(_))));
    }

    #[test]
    fn what_is_no_schema_may_be_assumed_to_be_one() {
        for odd in [
            json!({"type": "thing"}),
            json!({"type": 1, "required": "a", "properties": [], "pattern": {}}),
            json!({"properties": {"a": 1}, "items": "x", "allOf": 5, "$defs": true}),
            json!({"minimum": "1", "enum": 1, "$id": 1, "$anchor": [], "not": null}),
            json!([]),
            json!("x"),
        ] {
            if let Ok(schema) = Schema::assumed(&odd) {
                schema.is_valid(&json!({"a": [1]}));
            }
        }
        let foreign = json!({"$schema": "https://example.org/schema"});
        assert!(matches!(Schema::assumed(&foreign), Err(Error::Unusable(_))));
        let schema = Schema::assumed(&json!({"properties": {"a": {"type": "integer"}}})).unwrap();
        assert!(schema.is_valid(&json!({"a": 1})) && !schema.is_valid(&json!({"a": "1"})));
    }

    #[test]
    fn a_schema_without_end_ends() {
        let schema = json!({"properties": {"next": {"$ref": "#"}}, "type": "object"});
        let schema = Schema::new(&schema).unwrap();
        assert!(schema.is_valid(&json!({"next": {"next": {}}})));
        assert!(!schema.is_valid(&json!({"next": {"next": 1}})));
        let circle = Schema::new(&json!({"$ref": "#"})).unwrap();
        assert!(!circle.is_valid(&json!(1)));
    }

    #[test]
    fn a_schema_is_checked_as_a_value() {
        assert_eq!(check(&json!({"type": "object"})), Ok(()));
        let fault = check(&json!({"properties": {"a": {"type": "strin"}}})).unwrap_err();
        assert_eq!(fault.place(), "/properties/a/type");
        assert_eq!(
            fault.to_string(),
            "\"strin\" is not valid under any of the schemas listed in the 'anyOf' keyword"
        );
    }
}
