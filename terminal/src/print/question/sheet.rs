//! A question as a value: what is asked, and the answers to choose from. How it is shown is decided by whoever shows
//! it; what a typed line means is decided here, so that it means the same everywhere.

use ah_conversation::{Hunk, neutralise};
use ah_render::{Line, Markdown, Style, diff, wrap};

/// Longest text of a rule, in characters; the middle of a longer one is left out.
const RULE: usize = 120;
/// What is typed to go back to the question before.
pub const BACK: &str = "<";

/// A question with its answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sheet {
    /// Who asks, and about what: `bash: git push`.
    pub head: String,
    /// What is asked about, whole.
    pub body: Vec<Part>,
    /// Remarks, which are left out first where there is no room.
    pub notes: Vec<String>,
    /// The answers.
    pub answers: Vec<Answer>,
    /// Text before the typed answer.
    pub prompt: String,
    /// Whether words of the user's own are an answer.
    pub takes_words: bool,
    /// Whether several answers may be chosen.
    pub is_multiple: bool,
}

/// A part of what is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A line, wrapped between words.
    Line(Line),
    /// Markdown.
    Markdown(String),
    /// The change of a file whose name has this ending.
    Change(Vec<Hunk>, String),
}

impl Part {
    /// Returns plain text as parts, one for each line.
    pub fn lines(text: &str) -> Vec<Self> {
        let line = |line| Self::Line(Line::of(line, Style::PLAIN));
        text.lines().map(line).collect()
    }

    /// Returns the part as rows of at most `width` columns.
    pub fn rows(&self, width: usize) -> Vec<Line> {
        let none = Line::default();
        match self {
            Self::Line(line) => wrap(line, width, &none, &none),
            Self::Markdown(text) => {
                let mut markdown = Markdown::new(width);
                let mut rows = markdown.feed(text);
                rows.extend(markdown.finish());
                rows
            }
            Self::Change(hunks, ending) => {
                let hunk = |hunk: &Hunk| diff::Hunk {
                    old_start: hunk.old,
                    new_start: hunk.new,
                    lines: hunk.lines.clone(),
                };
                let hunks: Vec<_> = hunks.iter().map(hunk).collect();
                diff::rows(&hunks, ending, width)
            }
        }
    }
}

/// An answer to choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The letter or number that is typed for it.
    pub key: String,
    /// The word that may be typed in its place.
    pub word: String,
    /// What it means: `yes, for this session`.
    pub label: String,
    /// The same in a word or two, where there is no room.
    pub short: String,
    /// What it concerns: the rule that would be saved, the description of an option.
    pub detail: String,
    /// Whether a reason may follow.
    pub takes_reason: bool,
}

impl Answer {
    /// Returns the answer of a letter.
    pub fn of(key: &str, word: &str, label: &str) -> Self {
        Self {
            key: key.to_owned(),
            word: word.to_owned(),
            label: label.to_owned(),
            short: word.to_owned(),
            ..Self::default()
        }
    }

    /// Returns whether this is its key or its word.
    fn is_called(&self, typed: &str) -> bool {
        let typed = typed.to_lowercase();
        let is_it = |name: &str| !name.is_empty() && name.to_lowercase() == typed;
        is_it(&self.key) || is_it(&self.word)
    }

    /// Returns what it means, without what a reason would be for.
    fn in_words(&self) -> &str {
        match self.label.split_once(';') {
            Some((words, _)) if self.takes_reason => words,
            _ => &self.label,
        }
    }

    /// Returns what is typed, with the place of a reason.
    pub fn typed(&self) -> String {
        match self.takes_reason {
            true => format!("{} [reason]", self.key),
            false => self.key.clone(),
        }
    }
}

/// Meaning of a typed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The answers with these indices, and the words after the first.
    Chosen(Vec<usize>, String),
    /// The user's own words.
    Words(String),
}

impl Sheet {
    /// Returns the meaning of a typed line; `None` if it is no answer. An answer stands alone, unless a reason may follow:
    /// a sentence that begins like one grants nothing.
    pub fn read(&self, line: &str) -> Option<Said> {
        let line = line.trim();
        let own = || (self.takes_words && !line.is_empty()).then(|| Said::Words(line.to_owned()));
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // As people write: `no, not there`.
        let word = word.trim_end_matches([',', '.', ';', ':', '!']);
        let of = |text: &str| {
            self.answers
                .iter()
                .position(|answer| answer.is_called(text))
        };
        let named = match (self.takes_words, rest) {
            (true, _) => self.of_label(line),
            (false, "") => of(word),
            (false, _) => of(word).filter(|at| self.answers[*at].takes_reason),
        };
        let reason = match self.takes_words {
            true => String::new(),
            false => rest.trim().to_owned(),
        };
        match (named, self.numbered(line)) {
            (Some(at), _) => Some(Said::Chosen(vec![at], reason)),
            (None, Some(chosen)) => Some(Said::Chosen(chosen, String::new())),
            (None, None) => own(),
        }
    }

    /// Returns the answer that is called so where words are an answer too: a label may be a number, or several words.
    fn of_label(&self, line: &str) -> Option<usize> {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = flat(line).to_lowercase();
        let is_it = |label: &str| !label.is_empty() && flat(label).to_lowercase() == line;
        let mut answers = self.answers.iter();
        answers.position(|answer| is_it(&answer.word) || is_it(&answer.label))
    }

    /// Returns the answers whose numbers a line consists of, if they all exist, and may be chosen together.
    fn numbered(&self, line: &str) -> Option<Vec<usize>> {
        let numbers = numbers(line)?;
        // The way back has no number.
        let is_numbered = |at: &usize| self.answers.get(*at).is_some_and(|it| it.key != BACK);
        let at = |number: usize| number.checked_sub(1).filter(is_numbered);
        let chosen: Vec<_> = numbers.into_iter().map(at).collect::<Option<_>>()?;
        (chosen.len() == 1 || self.is_multiple).then_some(chosen)
    }

    /// Returns the line that means the answers with these indices, whatever their labels are.
    pub fn line_of(&self, chosen: &[usize]) -> String {
        let line = |at: &usize| match self.answers[*at].key.as_str() {
            key if self.takes_words && key != BACK => format!("#{}", at + 1),
            key => key.to_owned(),
        };
        chosen.iter().map(line).collect::<Vec<_>>().join(",")
    }

    /// Returns which answers there are, for a user who has typed something else.
    pub fn complaint(&self, line: &str) -> String {
        let keys: Vec<_> = self.answers.iter().map(|it| it.key.as_str()).collect();
        let keys = match keys.as_slice() {
            [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            keys => keys.concat(),
        };
        let several = if self.is_multiple {
            ", several with commas"
        } else {
            ""
        };
        let own = if self.takes_words {
            ", or your own words"
        } else {
            ""
        };
        match neutralise(line.trim()).as_ref() {
            "" => format!("Type {keys}{several}{own}; or choose with the arrow keys and Enter."),
            line => format!(
                "`{}` is not one of the answers. Please answer {keys}{several}{own}.",
                brief(line, 20)
            ),
        }
    }

    /// Returns what a typed line means, in words.
    pub fn said(&self, line: &str) -> String {
        match self.read(line) {
            Some(Said::Chosen(chosen, rest)) => {
                let labels = chosen.iter().map(|at| self.answers[*at].in_words());
                let labels = labels.collect::<Vec<_>>().join(", ");
                match rest.as_str() {
                    "" => labels,
                    rest => format!("{}: {}", self.answers[chosen[0]].short, neutralise(rest)),
                }
            }
            Some(Said::Words(words)) => neutralise(&words).into_owned(),
            None => neutralise(line.trim()).into_owned(),
        }
    }

    /// Returns the question without its answers, whole, as rows of at most `width` columns.
    pub fn whole(&self, width: usize) -> Vec<Line> {
        let none = Line::default();
        let head = Line::of(&self.head, Style::WARNING);
        let mut rows = wrap(&head, width, &none, &none);
        rows.extend(self.body_rows(width));
        rows.extend(self.note_rows(width));
        rows
    }

    /// Returns what is asked about as rows.
    pub fn body_rows(&self, width: usize) -> Vec<Line> {
        let rows = self.body.iter();
        rows.flat_map(|part| part.rows(width.saturating_sub(2).max(1)))
            .map(|row| row.indented(2))
            .collect()
    }

    /// Returns the remarks as rows.
    pub fn note_rows(&self, width: usize) -> Vec<Line> {
        let none = Line::default();
        let notes = self.notes.iter();
        notes
            .flat_map(|note| wrap(&Line::of(note, Style::DIM), width, &none, &none))
            .collect()
    }

    /// Returns the whole question as text, with a blank line before it.
    pub fn text(&self) -> String {
        const WIDE: usize = 100_000;
        let mut text = String::from("\n");
        for row in self.whole(WIDE) {
            text.push_str(&format!("{}\n", row.text().trim_end()));
        }
        let typed = self.answers.iter().map(|it| it.typed().chars().count());
        let width = typed.max().unwrap_or(0);
        for answer in &self.answers {
            let typed = answer.typed();
            let line = format!("  {typed:width$}  {}", told(answer));
            text.push_str(&format!("{}\n", line.trim_end()));
        }
        text
    }
}

/// Returns label and detail of an answer.
pub fn told(answer: &Answer) -> String {
    let text = match answer.detail.as_str() {
        "" => answer.label.clone(),
        detail => format!("{}: {detail}", answer.label),
    };
    neutralise(&text).replace('\n', " ")
}

/// Returns the numbers of a line that consists of nothing else.
fn numbers(line: &str) -> Option<Vec<usize>> {
    let words = line.split([',', ' ']).filter(|word| !word.is_empty());
    let number = |word: &str| word.strip_prefix('#').unwrap_or(word).parse().ok();
    let numbers: Option<Vec<usize>> = words.map(number).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

/// Returns a rule as one line that is not too long.
pub fn rule(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    match text.lines().nth(1) {
        Some(_) => format!("{} …)", brief(first, RULE)),
        None => brief(first, RULE),
    }
}

/// Returns a text of at most `most` characters: the middle of a longer one is left out.
pub fn brief(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end = most / 3;
    let start: String = text.chars().take(most.saturating_sub(end + 1)).collect();
    let rest: String = text.chars().skip(count - end).collect();
    format!("{start}…{rest}")
}
