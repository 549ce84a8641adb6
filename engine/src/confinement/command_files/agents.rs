//! Which agent wrote a file last, and whether another one that overwrites it can know of that.
//!
//! Subagents work in the same project at the same time. What one of them wrote is known to an agent that was told: by
//! the end of a subagent that it, or the one it works for, had started. Else it is a conflict.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// An agent: the id of a subagent; `None` for the main agent.
pub(super) type Agent = Option<String>;

/// Agents at work on a project and the files that they wrote. Points in time are counted.
#[derive(Default)]
pub(super) struct Agents {
    now: u64,
    lives: HashMap<String, Life>,
    /// When each agent was last told of what its subagents did.
    told: HashMap<Agent, u64>,
    last: HashMap<PathBuf, Writing>,
}

struct Life {
    parent: Agent,
    /// When the parent had last been told, at the beginning.
    parent_told: u64,
    began: u64,
    ended: Option<u64>,
}

struct Writing {
    by: Agent,
    at: u64,
    time: Instant,
}

impl Agents {
    /// Notes that a subagent begins, or goes on after its end.
    pub fn begin(&mut self, id: &str, parent: Agent) {
        let life = Life {
            parent_told: self.told(&parent),
            parent,
            began: self.tick(),
            ended: None,
        };
        self.lives.insert(id.to_owned(), life);
    }

    /// Notes that a subagent has ended.
    pub fn end(&mut self, id: &str) {
        let now = self.tick();
        if let Some(life) = self.lives.get_mut(id) {
            life.ended = Some(now);
        }
    }

    /// Notes that an agent is told now of what its subagents did.
    pub fn tell(&mut self, agent: &Agent) {
        let now = self.tick();
        self.told.insert(agent.clone(), now);
    }

    fn told(&self, agent: &Agent) -> u64 {
        self.told.get(agent).copied().unwrap_or(0)
    }

    /// Returns whether `by` was the last to write a file.
    pub fn is_last(&self, path: &Path, by: &Agent) -> bool {
        self.last.get(path).is_none_or(|last| last.by == *by)
    }

    /// Notes that an agent writes a file.
    pub fn write(&mut self, path: &Path, by: &Agent) {
        if self.lives.is_empty() {
            return;
        }
        let now = Writing {
            by: by.clone(),
            at: self.tick(),
            time: Instant::now(),
        };
        self.last.insert(path.to_owned(), now);
    }

    /// Returns the agent that was the last to write a file, and when, if another one does not know of that.
    pub fn unknown(&self, path: &Path, by: &Agent) -> Option<(Agent, Instant)> {
        let last = self.last.get(path)?;
        let is_known = last.by == *by || self.knows(by, last);
        (!is_known).then(|| (last.by.clone(), last.time))
    }

    fn knows(&self, reader: &Agent, writing: &Writing) -> bool {
        let ended = self.life(&writing.by).and_then(|life| life.ended);
        // From the reader to the main agent: each was told of its subagents until it started the next one in the chain.
        let (mut agent, mut told, mut began) = (reader.clone(), self.told(reader), u64::MAX);
        for _ in 0..=self.lives.len() {
            if writing.by == agent {
                return writing.at < began;
            }
            if self.works_for(&writing.by, &agent) {
                return ended.is_some_and(|ended| ended < told);
            }
            let Some(life) = self.life(&agent) else {
                break;
            };
            (told, began) = (life.parent_told, life.began);
            agent = life.parent.clone();
        }
        false
    }

    /// Returns whether an agent was started by another one, or by one that was.
    fn works_for(&self, agent: &Agent, other: &Agent) -> bool {
        let parent = |agent: &Agent| Some(self.life(agent)?.parent.clone());
        let above = std::iter::successors(parent(agent), |agent| parent(agent));
        above
            .take(self.lives.len() + 1)
            .any(|agent| agent == *other)
    }

    fn life(&self, agent: &Agent) -> Option<&Life> {
        self.lives.get(agent.as_ref()?)
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens: an agent begins (`+`), ends (`-`), is told of what others did (`t`), or writes the file (`w`). `m` is
    /// the main agent; `a`, `b` work for it, and `c` for `a`.
    fn play(story: &str) -> String {
        let mut agents = Agents::default();
        let named = |name: &str| (name != "m").then(|| name.to_owned());
        let mut conflicts = Vec::new();
        for step in story.split(' ') {
            let (kind, name) = step.split_at(1);
            let parent = (name == "c").then(|| "a".to_owned());
            match kind {
                "+" => agents.begin(name, parent),
                "-" => agents.end(name),
                "t" => agents.tell(&named(name)),
                _ => {
                    let (file, agent) = (Path::new("/p/f"), named(name));
                    let other = agents.unknown(file, &agent).map(|(other, _)| other);
                    agents.write(file, &agent);
                    let other = other.map(|other| other.unwrap_or_else(|| "m".to_owned()));
                    conflicts.extend(other.map(|other| format!("{name} over {other}")));
                }
            }
        }
        conflicts.join(", ")
    }

    #[test]
    fn what_nobody_was_told_of_is_a_conflict() {
        for (story, expected) in [
            ("tm wm wm", ""),
            ("tm wm +a wa wa -a tm wm", ""),
            ("+a wa -a tm +b wb -b tm wm", ""),
            ("+a wa -a +b wb", "b over a"),
            ("+a wm wa", "a over m"),
            ("+a wa wm", "m over a"),
            ("+a wa tm wm", "m over a"),
            ("+a +b wa wb", "b over a"),
            ("+a +b wa -a wb", "b over a"),
            ("+a +b wa -a tm wb", "b over a"),
            ("+a wa +b wb", "b over a"),
            ("+a +b wa wb wa", "b over a, a over b"),
            ("+a wa +c wc -c ta wa", ""),
            ("+a +c wc wa", "a over c"),
            ("+a +c wc -c wa", "a over c"),
            ("+a +c wa wc", "c over a"),
            ("+a +c wc -c ta -a tm wm", ""),
            ("+a +c wc wm", "m over c"),
            ("+b wb -b tm +a +c wc", ""),
            ("+b +a wb -b +c wc", "c over b"),
            ("+a wa -a tm +b wb wm", "m over b"),
        ] {
            assert_eq!(play(story), expected, "{story}");
        }
    }
}
