//! Tries the attacks of a class: without the sandbox or the rule, and with it.

use std::collections::BTreeSet;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, scenario, uses};
use serde_json::{Value, json};

use super::TIERS;
use super::place::{CANARY, Place};
use super::table::{Apart, Attack, Section};

/// Runs the check of an attack and says its number and status.
const CHECK: &str = "check() { (cd project && timeout -k 1 10 bash -c \". ../prelude.sh\n$2\") < /dev/null > /dev/null 2>&1; echo \"$1 $?\"; }\n";

/// What came of the attempts.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of attacks that succeed where nothing holds.
    pub tried: usize,
    /// Names of those that do not.
    pub left_out: Vec<String>,
    /// Attacks that came through, and those that did not although they are known to.
    pub faults: Vec<String>,
}

impl Outcome {
    pub fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.left_out.extend(other.left_out);
        self.faults.extend(other.faults);
    }

    fn count(&mut self, section: &Section, works: &BTreeSet<usize>) {
        self.tried += works.len();
        let numbered = section.attacks.iter().enumerate();
        let idle = numbered.filter(|(number, _)| !works.contains(number));
        let name = |attack: &Attack| format!("{}: {}", section.title, attack.name);
        self.left_out.extend(idle.map(|(_, attack)| name(attack)));
    }

    fn compare(
        &mut self,
        section: &Section,
        works: &BTreeSet<usize>,
        through: &BTreeSet<usize>,
        how: &str,
        is_root: bool,
    ) {
        for number in works {
            let attack = &section.attacks[*number];
            let is_known = attack.known.iter().any(|tier| tier == how);
            // It depends on the machine, or root may do it anyway.
            let varies =
                |tier: &String| tier.strip_suffix('?') == Some(how) || (is_root && tier == "root");
            if attack.known.iter().any(varies) {
                continue;
            }
            let what = match (through.contains(number), is_known) {
                (true, false) => "does not hold",
                (false, true) => "holds now: take away the mark",
                _ => continue,
            };
            self.faults.push(format!(
                "{how}, {}, {}: {what}: {}",
                section.title, attack.name, attack.call
            ));
        }
    }
}

/// Tries a class against which the sandbox holds.
pub fn confined(place: &Place, section: &Section, outcome: &mut Outcome) {
    let works = bare(place, section);
    outcome.count(section, &works);
    let group: Vec<usize> = works.iter().copied().collect();
    for tier in TIERS.iter().filter(|_| !group.is_empty()) {
        place.restore();
        place.restore_project();
        let succeeded = match section.apart {
            Apart::Nothing => together(place, section, &group, tier),
            Apart::Command | Apart::Project => one_by_one(place, section, &group, tier),
        };
        let afterwards = match section.apart {
            Apart::Nothing | Apart::Command => checks(place, section, &group),
            Apart::Project => succeeded.clone(),
        };
        let through = group
            .iter()
            .filter(|number| match section.attacks[**number].check {
                Some(_) => afterwards.contains(number),
                None => succeeded.contains(number),
            });
        let through = through.copied().collect();
        outcome.compare(section, &works, &through, tier, place.is_of_root());
    }
}

/// Runs attacks that do not disturb each other as one command in the sandbox, and returns those that succeed.
fn together(place: &Place, section: &Section, group: &[usize], tier: &str) -> BTreeSet<usize> {
    let mut script = "export AGENT=$PPID\nattempt() { timeout -k 1 10 bash -c \". ./prelude.sh\n$2\" < /dev/null > /dev/null 2>&1; echo \"$1 $?\"; }\n".to_owned();
    for number in group {
        let call = place.fill(&section.attacks[*number].call, *number, "$AGENT");
        script += &format!("attempt {number} {}\n", quoted(&call));
    }
    let turn = uses("bash", json!({ "command": script, "timeout": 600_000 }));
    let results = run(
        place,
        &in_tier(tier).each_ref().map(String::as_str),
        [turn].into_iter(),
    );
    let lines = results[0]
        .lines()
        .filter(|line| line.split(' ').count() == 2);
    let reported = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    assert_eq!(
        reported.count(),
        group.len(),
        "{}: {}",
        section.title,
        results[0]
    );
    succeeded(&results[0])
}

/// Runs each attack as a command of its own in the sandbox, and returns those that succeed. If each needs a project as it
/// was laid, its check is run and the project restored by a hook, outside of the sandbox.
fn one_by_one(place: &Place, section: &Section, group: &[usize], tier: &str) -> BTreeSet<usize> {
    let turn = |number: &usize| {
        let call = place.fill(&section.attacks[*number].call, *number, "$PPID");
        let line = format!(
            ". ./prelude.sh\n(\n{call}\n) < /dev/null > /dev/null 2>&1 && echo SUCCEEDED; true"
        );
        uses("bash", json!({ "command": line, "timeout": 10_000 }))
    };
    let options = in_tier(tier);
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    let settings = after_each(place, section, group);
    if section.apart == Apart::Project {
        options.extend(["--settings", &settings]);
    }
    let results = run(place, &options, group.iter().map(turn));
    let pairs = group.iter().zip(results);
    let good = pairs.filter(|(number, result)| {
        let is_checked =
            section.apart == Apart::Project && section.attacks[**number].check.is_some();
        result.contains("SUCCEEDED") && !is_checked
    });
    let good = good.map(|(number, _)| *number);
    let checked = match section.apart {
        Apart::Project => {
            let turns = place.bash("wc -l < turns");
            assert_eq!(
                turns.trim(),
                group.len().to_string(),
                "the hook ran each time"
            );
            succeeded(&place.bash("cat outcome"))
        }
        Apart::Nothing | Apart::Command => BTreeSet::new(),
    };
    good.chain(checked).collect()
}

/// Writes a hook that runs the check of each of these attacks in turn, and restores the project. Returns the settings.
fn after_each(place: &Place, section: &Section, group: &[usize]) -> String {
    let mut script = format!(
        "{CHECK}cd {}; n=$(wc -l < turns); echo >> turns\ncase $n in\n",
        place.root().display()
    );
    for (turn, number) in group.iter().enumerate() {
        let check = section.attacks[*number].check.as_deref().unwrap_or("false");
        let filled = quoted(&place.fill(check, *number, &place.victim()));
        script += &format!("{turn}) check {number} {filled} >> outcome ;;\n");
    }
    script += "esac\ncd project; perl ../restore.pl project; cp ../prelude.sh .\n";
    place.bash(": > turns; : > outcome");
    let path = place.write("after.sh", &script);
    let command = format!("bash {}", path.display());
    let hook = json!({"type": "command", "command": command});
    json!({"hooks": {"PostToolUse": [{"hooks": [hook]}]}}).to_string()
}

/// Options of a run in a tier, without questions.
fn in_tier(tier: &str) -> [String; 2] {
    [
        format!("--sandbox={tier}"),
        "--dangerously-skip-permissions".to_owned(),
    ]
}

/// Runs each attack without a sandbox and returns those that succeed.
fn bare(place: &Place, section: &Section) -> BTreeSet<usize> {
    let restore = "(cd project && perl ../restore.pl project outside && cp ../prelude.sh .) > /dev/null 2>&1\n";
    let each_time = if section.is_afresh { restore } else { "" };
    let mut script = format!("{restore}attempt() {{\n{each_time}")
        + "\
        (cd project && timeout -k 1 10 bash -c \". ./prelude.sh\n$2\") < /dev/null > /dev/null 2>&1; s=$?\n\
        if [ -n \"$3\" ]; then (cd project && timeout -k 1 10 bash -c \". ../prelude.sh\n$3\") < /dev/null > /dev/null 2>&1; s=$?; fi\n\
        echo \"$1 $s\"\n}\n";
    for (number, attack) in section.attacks.iter().enumerate() {
        let filled = |text: &str| quoted(&place.fill(text, number, &place.victim()));
        let check = attack.check.as_deref().unwrap_or_default();
        script += &format!(
            "attempt {number} {} {}\n",
            filled(&attack.call),
            filled(check)
        );
    }
    succeeded(&place.bash(&script))
}

/// Runs the checks of these attacks and returns those that succeed.
fn checks(place: &Place, section: &Section, group: &[usize]) -> BTreeSet<usize> {
    let mut script = CHECK.to_owned();
    for number in group {
        if let Some(check) = &section.attacks[*number].check {
            let filled = place.fill(check, *number, &place.victim());
            script += &format!("check {number} {}\n", quoted(&filled));
        }
    }
    succeeded(&place.bash(&script))
}

/// The numbers of lines `number 0`.
fn succeeded(output: &str) -> BTreeSet<usize> {
    let lines = output.lines().filter_map(|line| line.split_once(' '));
    let good = lines.filter(|(_, status)| *status == "0");
    good.filter_map(|(number, _)| number.parse().ok()).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Tries a class against which a rule about permissions holds.
pub fn ruled(place: &Place, section: &Section, outcome: &mut Outcome) {
    let (with, without) = section.options.as_ref().expect("it has options");
    let works = unruled(place, section, without);
    outcome.count(section, &works);
    place.restore();
    let group: Vec<usize> = works.iter().copied().collect();
    let turns = { group.iter() }
        .map(|number| call(place, &section.attacks[*number].call, *number, "$PPID"));
    let options = options(with);
    let results = run(place, &options, turns);
    let mut script = CHECK.to_owned();
    for number in &group {
        script += &format!(
            "check {number} {}\n",
            quoted(&effect(place, &section.attacks[*number], *number))
        );
    }
    let afterwards = succeeded(&place.bash(&script));
    let through = { group.iter().zip(&results) }
        .filter(|(number, result)| result.contains(CANARY) || afterwards.contains(number))
        .map(|(number, _)| *number)
        .collect();
    outcome.compare(section, &works, &through, "rules", place.is_of_root());
}

/// Runs each attack without the rule and returns those that succeed. Each finds the files as they were laid.
fn unruled(place: &Place, section: &Section, options: &str) -> BTreeSet<usize> {
    let numbered = section.attacks.iter().enumerate();
    let turns = numbered.flat_map(|(number, attack)| {
        let effect = effect(place, attack, number);
        let restore = if section.is_afresh { "perl ../restore.pl project outside > /dev/null 2>&1" } else { "true" };
        let then = format!("(. ../prelude.sh\n{effect}\n) < /dev/null > /dev/null 2>&1 && echo SUCCEEDED; {restore}");
        [
            call(place, &attack.call, number, &place.victim()),
            uses("bash", json!({ "command": then, "timeout": 10_000 })),
        ]
    });
    let options = self::options(options);
    let results = run(place, &options, turns);
    let pairs = results.chunks(2).enumerate();
    let works = pairs.filter(|(_, pair)| pair[0].contains(CANARY) || pair[1].contains("SUCCEEDED"));
    works.map(|(number, _)| number).collect()
}

/// The words of options, of which each begins with two hyphens; a value may contain blanks.
fn options(text: &str) -> Vec<&str> {
    let starts = text
        .match_indices("--")
        .filter(|(at, _)| *at == 0 || text[..*at].ends_with(' '));
    let starts: Vec<_> = starts.map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let pieces = starts
        .iter()
        .zip(ends)
        .map(|(start, end)| text[*start..end].trim_end());
    pieces.flat_map(|piece| piece.splitn(2, ' ')).collect()
}

/// The command that tells whether an attack had an effect.
fn effect(place: &Place, attack: &Attack, number: usize) -> String {
    let own = "test -e {project}/hit{n}";
    place.fill(
        attack.check.as_deref().unwrap_or(own),
        number,
        &place.victim(),
    )
}

fn call(place: &Place, text: &str, number: usize, agent: &str) -> Turn {
    let filled = place.fill(text, number, agent);
    let is_tool =
        |name: &str| name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphabetic);
    if let Some((name, input)) = filled.split_once(' ')
        && is_tool(name)
        && input.starts_with('{')
    {
        let input: Value = serde_json::from_str(input).unwrap();
        return uses(name, input);
    }
    uses("bash", json!({ "command": filled, "timeout": 10_000 }))
}

/// Runs these calls in one session and returns their results.
fn run(place: &Place, options: &[&str], turns: impl Iterator<Item = Turn>) -> Vec<String> {
    let turns: Vec<_> = turns.collect();
    let count = turns.len();
    // Each job that ends in the background asks the model once more.
    let ends = std::iter::repeat_with(|| says("Done.")).take(3);
    let played = scenario(turns.into_iter().chain(ends));
    let played = place.write("played.json", &serde_json::to_string(&played).unwrap());
    let database = played.with_file_name("session.db");
    let _ = std::fs::remove_file(&database);
    let model = format!("script:{}", played.display());
    let own = ["-n", "-m", &model, "--db", database.to_str().unwrap()];
    let ended = place
        .ah([options, &own, &["--", "go"]].concat())
        .within(place.world.project())
        .start();
    let ended = match ended.wait_for_end(std::time::Duration::from_secs(300)) {
        Ok(ended) => ended.expect(0),
        Err(running) => panic!("it hangs: {:?}", running.kill()),
    };
    let connection = rusqlite::Connection::open(&database).unwrap();
    // An output that is too large is in a file: what the model saw of it is enough.
    let query = "SELECT COALESCE(CAST(tool_output AS TEXT), content) FROM content_blocks \
                 WHERE block_type = 'tool_result' ORDER BY rowid";
    let mut statement = connection.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    let results: Vec<String> = rows.collect::<Result<_, _>>().unwrap();
    assert_eq!(results.len(), count, "{ended:?}");
    results
}
