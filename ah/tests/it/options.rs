//! Documentation of the options.

/// Names of the public fields of `Options`, from its source.
fn fields() -> Vec<&'static str> {
    let source = include_str!("../../src/options.rs");
    let (_, fields) = source.split_once("pub struct Options {").unwrap();
    let (fields, _) = fields.split_once("\n}").unwrap();
    let lines = fields.lines();
    let names = lines.filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
    names.map(|(name, _)| name).collect()
}

#[test]
fn every_option_is_in_the_table_of_the_documentation() {
    let page = include_str!("../../../docs/library.md");
    let fields = fields();
    assert!(fields.contains(&"model"), "{fields:?}");
    for name in fields {
        let row = format!("\n| `{name}` | `");
        assert!(page.contains(&row), "docs/library.md has no row `{name}`");
    }
}
