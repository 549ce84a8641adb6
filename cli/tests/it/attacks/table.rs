//! The tables of attacks as values.

/// Attacks of one class.
#[derive(Debug)]
pub struct Section {
    /// What is attacked.
    pub title: String,
    /// What holds against it.
    pub rule: String,
    /// Options of a run with the rule, and of one without; none if the sandbox is the rule.
    pub options: Option<(String, String)>,
    /// What attacks cannot share.
    pub apart: Apart,
    /// Whether each attack without the sandbox or the rule must find the files as they were laid.
    pub is_afresh: bool,
    pub attacks: Vec<Attack>,
}

/// What the attacks of a class cannot share in the sandbox, since they disturb each other or what is done after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    /// All are one command.
    Nothing,
    /// Each is a command of its own.
    Command,
    /// Each is a command of its own, in a project as it was laid.
    Project,
}

/// One attack.
#[derive(Debug)]
pub struct Attack {
    pub name: String,
    /// Tiers of the sandbox that are known not to hold.
    pub known: Vec<String>,
    /// Why they do not, by a word for which the page has a sentence.
    pub reason: Option<String>,
    /// A command, or the name of a tool and its input.
    pub call: String,
    /// A command that succeeds afterwards if the attack did; without it, the call's own result decides.
    pub check: Option<String>,
}

/// Reads a table. A class begins with `== title | rule`, followed by its settings in lines that begin with `@`; an
/// attack is a line `name [tier=reason] :: call :: check`. The sign ⏎ stands for a line break.
pub fn parse(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() || line.starts_with("# ") {
            continue;
        }
        if let Some(header) = line.strip_prefix("== ") {
            let (title, rule) = header.split_once(" | ").expect("a class has a rule");
            known.clear();
            sections.push(Section {
                title: title.to_owned(),
                rule: rule.to_owned(),
                options: None,
                apart: Apart::Nothing,
                is_afresh: false,
                attacks: Vec::new(),
            });
            continue;
        }
        let section = sections.last_mut().expect("a class comes first");
        let pair = line.strip_prefix("@ ").map(|setting| {
            setting
                .split_once(": ")
                .map_or((setting, ""), |(name, value)| (name, value))
        });
        match pair {
            Some(("each", "command")) => section.apart = Apart::Command,
            Some(("each", _)) => section.apart = Apart::Project,
            Some(("afresh", _)) => section.is_afresh = true,
            Some(("not", tiers)) => known = words(tiers),
            Some(("with", options)) => {
                section.options = Some((options.to_owned(), String::new()));
            }
            Some(("without", options)) => {
                let both = section.options.as_mut().expect("`with` comes first");
                options.clone_into(&mut both.1);
            }
            Some(other) => panic!("unknown setting: {other:?}"),
            None => section.attacks.push(attack(line, &known)),
        }
    }
    sections
}

fn attack(line: &str, known: &[String]) -> Attack {
    let mut columns = line.splitn(3, " :: ");
    let mut column = || columns.next().map(|column| column.replace('⏎', "\n"));
    let (Some(name), Some(call), check) = (column(), column(), column()) else {
        panic!("an attack has a name and a call: {line}");
    };
    let (name, marks) = match name
        .strip_suffix(']')
        .and_then(|name| name.split_once(" ["))
    {
        Some((name, marks)) => (name.to_owned(), words(marks)),
        None => (name, Vec::new()),
    };
    let pairs = marks.iter().map(|mark| match mark.split_once('=') {
        Some((tier, reason)) => (tier.to_owned(), Some(reason.to_owned())),
        None => (mark.clone(), None),
    });
    let (own, mut reasons): (Vec<_>, Vec<_>) = pairs.unzip();
    Attack {
        name,
        known: known.iter().cloned().chain(own).collect(),
        reason: reasons.pop().flatten(),
        call,
        check,
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
