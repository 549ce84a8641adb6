//! Commands that a project states in its instructions for agents, or in a script.

/// Returns the commands of the first block of code below a heading with one of `words`, which are in lower case.
pub fn below(text: &str, words: &[&str]) -> Vec<String> {
    let is_about = |line: &str| {
        let title = line.to_ascii_lowercase();
        line.starts_with('#') && words.iter().any(|word| title.contains(word))
    };
    let mut lines = text.lines().skip_while(|line| !is_about(line)).skip(1);
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    let Some(fence) = lines
        .by_ref()
        .find(|line| is_fence(line) || line.starts_with('#'))
    else {
        return Vec::new();
    };
    let language = fence.trim_start().trim_start_matches('`').trim();
    if !is_fence(fence) || !matches!(language, "" | "sh" | "bash" | "shell" | "console") {
        return Vec::new();
    }
    let block = lines.take_while(|line| !is_fence(line)).map(str::trim);
    let block = block.map(|line| line.trim_start_matches("$ "));
    script(block)
}

/// Whether a line of a script is a command.
pub fn is_command(line: &&str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// Returns the commands of a script: its lines, or all of it if they depend on each other.
pub fn script<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all = joined(lines.filter(is_command));
    let is_dependent = |line: &String| {
        let first = line.split([' ', ';', '=']).next().unwrap_or_default();
        let words = [
            "cd", "pushd", "export", "set", "source", ".", "if", "for", "while", "case", "eval",
        ];
        let is_assignment = line.contains('=') && !line.contains(' ');
        is_assignment || words.contains(&first) || line.ends_with('{') || line.contains("<<")
    };
    if all.len() > 1 && all.iter().any(is_dependent) {
        vec![format!("set -e\n{}", all.join("\n"))]
    } else {
        all
    }
}

/// Joins lines that end with a backslash with the next.
fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all = Vec::new();
    let mut open = String::new();
    for line in lines {
        match line.strip_suffix('\\') {
            Some(part) => open.push_str(part),
            None => all.push(std::mem::take(&mut open) + line),
        }
    }
    all.extend((!open.is_empty()).then_some(open));
    all
}
