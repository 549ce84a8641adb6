//! A session as one HTML file: the page of `ah serve` with the session in it. It needs no server, no network and no other
//! file, and is for reading only.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What comes before the session.
pub(super) const DATA: &str = "<script type=\"application/json\" id=\"session\">";

const PAGE: &str = include_str!("../../../serve/src/page/index.html");
const STYLE: &str = include_str!("../../../serve/src/page/page.css");
const STYLE_LINK: &str = "<link rel=\"stylesheet\" href=\"page.css\">";
const SCRIPT_LINK: &str = "<script type=\"module\" src=\"main.js\"></script>";
/// The modules, each behind those that it imports.
const MODULES: &[(&str, &str)] = &[
    ("dom.js", include_str!("../../../serve/src/page/dom.js")),
    (
        "highlight.js",
        include_str!("../../../serve/src/page/highlight.js"),
    ),
    (
        "markdown.js",
        include_str!("../../../serve/src/page/markdown.js"),
    ),
    (
        "server.js",
        include_str!("../../../serve/src/page/server.js"),
    ),
    ("tree.js", include_str!("../../../serve/src/page/tree.js")),
    ("plots.js", include_str!("../../../serve/src/page/plots.js")),
    (
        "message.js",
        include_str!("../../../serve/src/page/message.js"),
    ),
    (
        "pictures.js",
        include_str!("../../../serve/src/page/pictures.js"),
    ),
    (
        "dialog.js",
        include_str!("../../../serve/src/page/dialog.js"),
    ),
    (
        "composer.js",
        include_str!("../../../serve/src/page/composer.js"),
    ),
    (
        "session.js",
        include_str!("../../../serve/src/page/session.js"),
    ),
    ("main.js", include_str!("../../../serve/src/page/main.js")),
];

/// Returns the file. The name and the messages, those of all branches, must have been redacted. It opens at the branch that
/// ends with the message `current`.
pub(super) fn page(name: Option<&str>, messages: &[Value], current: Option<&str>) -> String {
    let script = script();
    let held = json!({
        "name": name,
        "messages": messages,
        "current": current,
        "writer": format!("ah {}", env!("CARGO_PKG_VERSION")),
    });
    // Without this character no text in it ends the element.
    let held = held.to_string().replace('<', "\\u003c");
    let policy = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{}'; style-src '{}'; \
         img-src data:; base-uri 'none'; form-action 'none'\">\n<style>{STYLE}</style>",
        hash(&script),
        hash(STYLE),
    );
    PAGE.replace(STYLE_LINK, &policy)
        .replace(
            SCRIPT_LINK,
            &format!("<script type=\"module\">{script}</script>"),
        )
        .replace("</body>", &format!("{DATA}{held}</script>\n</body>"))
}

/// Returns all modules as one script: each becomes a function that gives its exports.
fn script() -> String {
    let mut script = "const modules = {};\n".to_owned();
    for (name, source) in MODULES {
        let mut exports = Vec::new();
        script.push_str(&format!("modules['{name}'] = (() => {{\n"));
        for line in source.lines() {
            let (exported, line) = match line.strip_prefix("export ") {
                Some(line) => (true, line),
                None => (false, line),
            };
            if exported {
                exports.extend(declared(line));
            }
            script.push_str(&import(line).unwrap_or_else(|| line.to_owned()));
            script.push('\n');
        }
        script.push_str(&format!("return {{ {} }};\n}})();\n", exports.join(", ")));
    }
    script
}

/// Returns what stands for an import.
fn import(line: &str) -> Option<String> {
    let (names, from) = line.strip_prefix("import ")?.split_once(" from './")?;
    let name = from.strip_suffix("';")?;
    Some(format!("const {names} = modules['{name}'];"))
}

/// Returns the name that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_keyword = |word: &&str| ["const", "class", "function", "async", ""].contains(word);
    words.find(|word| !is_keyword(word))
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_taken_apart_where_it_should_be() {
        for place in [STYLE_LINK, SCRIPT_LINK, "</body>"] {
            assert_eq!(PAGE.matches(place).count(), 1, "{place}");
        }
        let script = script();
        assert!(!script.contains("</script") && !script.contains("<!--"));
        assert!(!STYLE.contains("</style") && !STYLE.contains("url("));
        assert!(
            !script
                .lines()
                .any(|line| line.starts_with("import ") || line.starts_with("export "))
        );
        assert!(script.contains("const { by, el, plain, show, time } = modules['dom.js'];"));
        assert!(script.contains("return { Composer };"));
    }

    #[test]
    fn every_module_of_the_page_is_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../serve/src/page");
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(".js")).collect();
        let mut known: Vec<_> = MODULES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(names, known);
        for (at, (_, source)) in MODULES.iter().enumerate() {
            let earlier = &MODULES[..at];
            for line in source.lines().filter_map(import) {
                assert!(
                    earlier
                        .iter()
                        .any(|(name, _)| line.contains(&format!("'{name}'"))),
                    "{line}"
                );
            }
        }
    }
}
