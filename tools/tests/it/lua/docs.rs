//! The examples and tables of `docs/lua.md` agree with the program.

use super::*;

const PAGE: &str = include_str!("../../../../docs/lua.md");

/// The fenced blocks of the page, with their languages.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let mut pieces = PAGE.split("```");
    let mut blocks = Vec::new();
    // Text before the first fence, and between two blocks, is skipped.
    while let (Some(_), Some(block)) = (pieces.next(), pieces.next()) {
        blocks.push(block.split_once('\n').unwrap());
    }
    blocks
}

#[test]
fn the_examples_of_the_page_run() {
    let folder = Folder::new();
    let mut tool = None;
    let mut output = None;
    let mut calls = 0;
    for (language, content) in blocks() {
        match language {
            "lua" => {
                let first = content.lines().next().unwrap();
                let path = first.strip_prefix("-- ").unwrap();
                folder.put(path, content);
                tool = files(&folder).file(Path::new(path), &[]).ok();
            }
            "json" => {
                let input = serde_json::from_str(content).unwrap();
                output = Some(run(tool.as_ref().unwrap(), input));
            }
            "text" => {
                assert_eq!(text(&output.take().unwrap()), content.trim_end());
                calls += 1;
            }
            other => panic!("what is a block of {other}?"),
        }
    }
    assert_eq!(calls, 6);
    let found = files(&folder).folder(Path::new(".ah/tools"), &[]);
    assert_eq!(found.warnings, Vec::<String>::new());
    assert_eq!(found.tools.len(), 4);
}

#[test]
fn the_page_names_all_functions_of_the_modules() {
    let body = "local names = {}
        for _, module in ipairs({ 'codec', 'env', 'fs', 'http', 'json', 'spawn', 'sqlite' }) do
          for name in pairs(require(module)) do names[#names + 1] = module .. '.' .. name end
        end
        table.sort(names)
        return table.concat(names, ' ')";
    let missing: Vec<_> = answer(body)
        .split(' ')
        .filter(|name| {
            let mut places = PAGE.match_indices(name);
            let ends = |(at, _): (usize, &str)| {
                !PAGE[at + name.len()..]
                    .starts_with(|next: char| next.is_alphanumeric() || next == '_')
            };
            !places.any(ends)
        })
        .map(str::to_owned)
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
