//! Cells of Jupyter notebooks. A notebook is changed as text, so that everything but the changed cell stays byte for byte as
//! it is, whatever program wrote it and in whatever layout.

use std::ops::Range;

use ah_conversation::json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::value::RawValue;
use serde_json::{Map, Serializer, Value, json};

/// Limit for the ids that are named where one is not found.
const NAMED: usize = 20;

/// A parsed notebook with the positions of its cells in its text.
pub(crate) struct Notebook<'a> {
    text: &'a str,
    /// Bytes between the brackets around the cells.
    inner: Range<usize>,
    /// The cells, in their order.
    pub(crate) cells: Vec<Cell>,
    /// Language of its code.
    pub(crate) language: String,
    /// Whether its version of the format has ids for cells.
    has_ids: bool,
}

/// A cell of a notebook.
pub(crate) struct Cell {
    span: Range<usize>,
    /// Its id in the file; without one, `cell-N`, where N is its 0-based index.
    pub(crate) id: String,
    fields: Map<String, Value>,
}

/// Type of a cell that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CellType {
    Code,
    Markdown,
}

impl CellType {
    /// Returns the word for it in the file.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
        }
    }
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    cells: &'a RawValue,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    nbformat: u64,
    #[serde(default)]
    nbformat_minor: u64,
}

impl<'a> Notebook<'a> {
    /// Parses the text of a notebook; the error says why it is not valid.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let whole = json::whole(text);
        let document: Document = whole.read().map_err(|error| error.to_string())?;
        let raw: Vec<&RawValue> = json::part(document.cells)
            .map_err(|error| format!("its cells are invalid: {error}"))?;
        let place = |part: &str| {
            // It is borrowed from the whole text, so it lies in it, and in the given one at the same place.
            let start = part.as_ptr() as usize - whole.as_str().as_ptr() as usize;
            start..start + part.len()
        };
        let all = place(document.cells.get());
        let cell = |(at, raw): (usize, &&RawValue)| {
            let fields: Map<String, Value> =
                json::part(raw).map_err(|error| format!("cell {at} is invalid: {error}"))?;
            let id = fields.get("id").and_then(Value::as_str);
            Ok(Cell {
                id: id.map_or_else(|| format!("cell-{at}"), str::to_owned),
                span: place(raw.get()),
                fields,
            })
        };
        let cells: Result<Vec<_>, String> = raw.iter().enumerate().map(cell).collect();
        let named = |pointer: &str| document.metadata.pointer(pointer).and_then(Value::as_str);
        let language = named("/language_info/name").or_else(|| named("/kernelspec/language"));
        Ok(Self {
            text,
            inner: all.start + 1..all.end - 1,
            cells: cells?,
            language: language.unwrap_or("python").to_owned(),
            has_ids: (document.nbformat, document.nbformat_minor) >= (4, 5),
        })
    }

    /// Returns the index of the cell with this id.
    pub(crate) fn find(&self, id: &str) -> Result<usize, String> {
        // A cell with an id in the file is found by `cell-N` too.
        let by_place = id
            .strip_prefix("cell-")
            .and_then(|at| at.parse::<usize>().ok());
        let by_id = self.cells.iter().position(|cell| cell.id == id);
        let found = by_id.or(by_place.filter(|at| *at < self.cells.len()));
        found.ok_or_else(|| {
            if self.cells.is_empty() {
                return format!("there is no cell `{id}`; the notebook has none");
            }
            let ids: Vec<_> = self.cells.iter().map(|cell| cell.id.as_str()).collect();
            let others = if ids.len() > NAMED { ", …" } else { "" };
            let named = ids[..ids.len().min(NAMED)].join(", ");
            format!("there is no cell `{id}`; the cells are {named}{others}")
        })
    }

    /// Returns the text with another source in the cell at index `at`, and another type if one is given. The outputs of
    /// the former code are removed.
    pub(crate) fn replaced(&self, at: usize, source: &str, kind: Option<CellType>) -> String {
        let cell = &self.cells[at];
        let mut fields = cell.fields.clone();
        if let Some(kind) = kind {
            fields.insert("cell_type".into(), json!(kind));
        }
        let is_code = fields.get("cell_type") == Some(&json!(CellType::Code));
        let is_list = cell.fields.get("source").is_none_or(Value::is_array);
        fields.insert("source".into(), lines(source, is_list));
        if is_code {
            fields.insert("execution_count".into(), Value::Null);
            fields.insert("outputs".into(), json!([]));
        } else {
            fields.shift_remove("execution_count");
            fields.shift_remove("outputs");
        }
        self.spliced(cell.span.clone(), &self.written(&fields, cell.span.start))
    }

    /// Returns the text with a new cell behind the one at index `after`, or at the start, and the new cell's id.
    pub(crate) fn inserted(
        &self,
        after: Option<usize>,
        kind: CellType,
        source: &str,
        seed: &str,
    ) -> (String, String) {
        let mut fields = Map::new();
        fields.insert("cell_type".into(), json!(kind));
        let at = after.map_or(0, |after| after + 1);
        let mut id = format!("cell-{at}");
        if self.has_ids {
            id = self.fresh_id(seed);
            fields.insert("id".into(), json!(id));
        }
        if kind == CellType::Code {
            fields.insert("execution_count".into(), Value::Null);
        }
        fields.insert("metadata".into(), json!({}));
        if kind == CellType::Code {
            fields.insert("outputs".into(), json!([]));
        }
        fields.insert("source".into(), lines(source, true));
        let text = match (after.map(|after| &self.cells[after]), self.cells.first()) {
            (Some(cell), _) => {
                let gap = self.gap(cell.span.start);
                let written = self.written(&fields, cell.span.start);
                self.spliced(cell.span.end..cell.span.end, &format!(",{gap}{written}"))
            }
            (None, Some(cell)) => {
                let gap = self.gap(cell.span.start);
                let written = self.written(&fields, cell.span.start);
                self.spliced(
                    cell.span.start..cell.span.start,
                    &format!("{written},{gap}"),
                )
            }
            (None, None) => {
                self.spliced(self.inner.clone(), &self.written(&fields, self.inner.start))
            }
        };
        (text, id)
    }

    /// Returns the text without the cell at index `at`.
    pub(crate) fn deleted(&self, at: usize) -> String {
        let span = match (self.cells.get(at + 1), at.checked_sub(1)) {
            (Some(next), _) => self.cells[at].span.start..next.span.start,
            (None, Some(before)) => self.cells[before].span.end..self.cells[at].span.end,
            (None, None) => self.inner.clone(),
        };
        self.spliced(span, "")
    }

    fn spliced(&self, span: Range<usize>, part: &str) -> String {
        [&self.text[..span.start], part, &self.text[span.end..]].concat()
    }

    /// Returns the white space before the position of a cell.
    fn gap(&self, start: usize) -> &'a str {
        let before = &self.text[..start];
        &before[before.trim_end().len()..]
    }

    /// Returns the JSON of a cell in the layout of the cells around it.
    fn written(&self, fields: &Map<String, Value>, start: usize) -> String {
        let gap = self.gap(start);
        let Some((_, indent)) = gap.rsplit_once('\n') else {
            return Value::from(fields.clone()).to_string();
        };
        // A cell stands two levels deep.
        let step = &indent[..indent.len() / 2];
        let pretty = layout(fields, PrettyFormatter::with_indent(step.as_bytes()));
        pretty.replace('\n', &format!("\n{indent}"))
    }

    /// Returns an id that no cell has, the same for the same seed.
    fn fresh_id(&self, seed: &str) -> String {
        let usable: String = seed.chars().filter(char::is_ascii_alphanumeric).collect();
        let end = usable.len().saturating_sub(12);
        let mut id = usable[end..].to_owned();
        while id.is_empty() || self.cells.iter().any(|cell| cell.id == id) {
            id.push('0');
        }
        id
    }
}

impl Cell {
    /// Returns its source.
    pub(crate) fn source(&self) -> String {
        joined(self.fields.get("source"))
    }

    /// Returns its type: `code`, `markdown`, `raw` or another.
    pub(crate) fn kind(&self) -> &str {
        let kind = self.fields.get("cell_type").and_then(Value::as_str);
        kind.unwrap_or("raw")
    }

    /// Returns its execution count.
    pub(crate) fn run(&self) -> Option<u64> {
        self.fields.get("execution_count").and_then(Value::as_u64)
    }

    /// Returns the outputs of its last execution.
    pub(crate) fn outputs(&self) -> &[Value] {
        let outputs = self.fields.get("outputs").and_then(Value::as_array);
        outputs.map_or(&[], Vec::as_slice)
    }
}

/// Returns a text that may be written as a list of lines.
pub(crate) fn joined(text: Option<&Value>) -> String {
    match text {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn lines(text: &str, is_list: bool) -> Value {
    if is_list {
        text.split_inclusive('\n').collect()
    } else {
        text.into()
    }
}

fn layout(fields: &Map<String, Value>, formatter: impl Formatter) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
    fields
        .serialize(&mut serializer)
        .expect("a value can be written to memory");
    String::from_utf8(bytes).expect("JSON is text")
}
