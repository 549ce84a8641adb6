//! The part of the documentation that is made of the tables.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::TIERS;
use super::table::Section;

const BEGIN: &str = "<!-- made of the tables of attacks -->\n";
const END: &str = "<!-- end -->\n";
/// Why a tier does not hold some attacks.
const REASONS: [(&str, &str); 7] = [
    (
        "names",
        "`landlock` governs what is in files, not whether they are there, nor their attributes:",
    ),
    (
        "modes",
        "Landlock has no right for modes and times, and a filter cannot see which file a call names; the file must be yours:",
    ),
    (
        "proc",
        "In `landlock`, commands see all processes of the machine and need `/proc` for themselves, and a rule for it holds for all of \
         it; the environment, memory, files and folders of others stay closed:",
    ),
    (
        "shared",
        "In `landlock`, `/dev/shm` is the machine's, since programs keep their semaphores there:",
    ),
    (
        "threads",
        "The calls name a thread by its number, and the filter of `landlock` cannot tell the own ones from others:",
    ),
    (
        "late",
        "A process may give up what lets the kernel kill it before yours when memory runs out; the limit of memory holds all the same:",
    ),
    (
        "limits",
        "A setting of the machine that only a process namespace replaces; the limit of processes holds all the same:",
    ),
];

/// Compares the documentation with the tables.
pub fn check(confined: &[Section], ruled: &[Section]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sandbox.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the beginning is marked");
    let (_, after) = rest.split_once(END).expect("the end is marked");
    let made = format!("{before}{BEGIN}{}{END}{after}", page(confined, ruled));
    if std::env::var_os("AH_WRITE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
        return;
    }
    assert!(
        text == made,
        "docs/sandbox.md is not what the tables say; `AH_WRITE_DOCS=1 cargo test -p ah-cli --test it documents_say` \
         makes it again"
    );
}

fn page(confined: &[Section], ruled: &[Section]) -> String {
    let mut page = "\n| attacks on | number | held by |".to_owned();
    for tier in TIERS {
        let _ = write!(page, " `{tier}` |");
    }
    page += "\n| --- | --- | --- |";
    page += &" --- |".repeat(TIERS.len());
    for section in confined {
        let all = section.attacks.len();
        let _ = write!(page, "\n| {} | {all} | {} |", section.title, section.rule);
        for tier in TIERS {
            let open = missed(section, tier).len();
            let held = match open {
                0 => "all".to_owned(),
                _ if open == all => "none".to_owned(),
                _ => format!("{} of {all}", all - open),
            };
            let _ = write!(page, " {held} |");
        }
    }
    page += "\n\nWhat is not held, and why:\n";
    for (word, sentence) in REASONS {
        let of_word = confined.iter().filter_map(|section| {
            let attacks = section.attacks.iter();
            let named = attacks.filter(|attack| attack.reason.as_deref() == Some(word));
            let names: Vec<_> = named.map(|attack| attack.name.as_str()).collect();
            (!names.is_empty()).then(|| format!("{} ({})", section.title, names.join(", ")))
        });
        let of_word: Vec<_> = of_word.collect();
        assert!(!of_word.is_empty(), "no attack has the reason `{word}`");
        let _ = write!(page, "\n- {sentence} {}.", of_word.join("; "));
    }
    for attack in confined.iter().flat_map(|section| &section.attacks) {
        let is_known = attack
            .reason
            .as_ref()
            .is_some_and(|word| REASONS.iter().any(|(known, _)| known == word));
        let is_marked = TIERS
            .iter()
            .any(|tier| attack.known.iter().any(|known| known == tier));
        assert!(
            !is_marked || is_known,
            "`{}` is not held, for no reason",
            attack.name
        );
    }
    let mut open = ruled.iter().flat_map(|section| missed(section, "rules"));
    assert_eq!(open.next(), None, "the page says that all are held");
    let count: usize = ruled.iter().map(|section| section.attacks.len()).sum();
    let titles: Vec<_> = ruled.iter().map(|section| section.title.as_str()).collect();
    let _ = write!(
        page,
        "\n\nAnother {count} attacks are on the [permission rules](permissions.md), without a sandbox: {}. All are held.\n\n",
        titles.join("; ")
    );
    page
}

fn missed<'a>(section: &'a Section, tier: &str) -> Vec<&'a str> {
    let known = |names: &[String]| { names.iter() }.any(|name| name.trim_end_matches('?') == tier);
    let open = section.attacks.iter().filter(|attack| known(&attack.known));
    open.map(|attack| attack.name.as_str()).collect()
}
