//! The files built into the executable.

use std::borrow::Cow;

use ah_agent::prompt::{CONDUCT, SYSTEM};
use ah_conversation::{Embedded, EmbeddedFile};

/// The built-in files, with their paths below the folder for them.
const BUILT_IN: [(&str, &str); 21] = [
    ("system.md", SYSTEM),
    ("claude.md", CONDUCT),
    ("agents/explore.md", include_str!("sys/agents/explore.md")),
    (
        "agents/general-purpose.md",
        include_str!("sys/agents/general-purpose.md"),
    ),
    ("agents/plan.md", include_str!("sys/agents/plan.md")),
    ("commands/commit.md", include_str!("sys/commands/commit.md")),
    ("commands/init.md", include_str!("sys/commands/init.md")),
    ("commands/review.md", include_str!("sys/commands/review.md")),
    (
        "output-styles/concise.md",
        include_str!("sys/output-styles/concise.md"),
    ),
    (
        "output-styles/explanatory.md",
        include_str!("sys/output-styles/explanatory.md"),
    ),
    (
        "output-styles/learning.md",
        include_str!("sys/output-styles/learning.md"),
    ),
    (
        "output-styles/proactive.md",
        include_str!("sys/output-styles/proactive.md"),
    ),
    (
        "skills/ah-skills.md",
        include_str!("sys/skills/ah-skills.md"),
    ),
    ("skills/check.md", include_str!("sys/skills/check.md")),
    ("skills/do.md", include_str!("sys/skills/do.md")),
    ("skills/fix.md", include_str!("sys/skills/fix.md")),
    ("skills/improve.md", include_str!("sys/skills/improve.md")),
    ("skills/merge.md", include_str!("sys/skills/merge.md")),
    ("skills/plan.md", include_str!("sys/skills/plan.md")),
    ("skills/pr.md", include_str!("sys/skills/pr.md")),
    ("skills/ah-tools.md", include_str!("sys/skills/ah-tools.md")),
];

/// Returns the built-in files.
pub fn built_in() -> Embedded {
    let mut embedded = Embedded::default();
    for (path, text) in BUILT_IN {
        let file = EmbeddedFile {
            content: Cow::Borrowed(text.as_bytes()),
            is_executable: false,
        };
        let path = format!("{}/{path}", Embedded::BUILT_IN);
        embedded
            .insert(&path, file)
            .expect("each has a place of its own");
    }
    embedded
}
