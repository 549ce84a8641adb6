//! The part of the documentation that is made of the tables.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::TIERS;
use super::table::Section;

const BEGIN: &str = "<!-- made of the tables of attacks -->\n";
const END: &str = "<!-- end -->\n";

/// Compares the documentation with the tables.
pub fn check(confined: &[Section], ruled: &[Section]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sandbox.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the beginning is marked");
    let (_, after) = rest.split_once(END).expect("the end is marked");
    let made = format!("{before}{BEGIN}{}{END}{after}", page(confined, ruled));
    if std::env::var_os("AH_WRITE_ATTACKS").is_some() {
        fs::write(&path, &made).unwrap();
        return;
    }
    assert!(
        text == made,
        "docs/sandbox.md is not what the tables say; `AH_WRITE_ATTACKS=1 cargo test -p ah-cli --test it documents_say` \
         makes it anew"
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
    for tier in TIERS {
        let partly = confined.iter().filter_map(|section| {
            let names = missed(section, tier);
            let is_partly = !names.is_empty() && names.len() < section.attacks.len();
            is_partly.then(|| format!("{} ({})", section.title, names.join(", ")))
        });
        let partly: Vec<_> = partly.collect();
        if !partly.is_empty() {
            let _ = write!(
                page,
                "\n\n`{tier}` does not hold, of the rows that it holds in part: {}.",
                partly.join("; ")
            );
        }
    }
    let count: usize = ruled.iter().map(|section| section.attacks.len()).sum();
    let open: Vec<_> = { ruled.iter() }
        .flat_map(|section| missed(section, "rules"))
        .collect();
    let titles: Vec<_> = ruled.iter().map(|section| section.title.as_str()).collect();
    let _ = write!(
        page,
        "\n\nAnother {count} attacks are on the [permission rules](permissions.md), without a sandbox: {}. All are held, but \
         for {}: rules match programs and do not look into what these run.\n\n",
        titles.join("; "),
        open.join(", ")
    );
    page
}

fn missed<'a>(section: &'a Section, tier: &str) -> Vec<&'a str> {
    let known = |names: &[String]| { names.iter() }.any(|name| name.trim_end_matches('?') == tier);
    let open = section.attacks.iter().filter(|attack| known(&attack.known));
    open.map(|attack| attack.name.as_str()).collect()
}
