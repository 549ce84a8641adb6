//! Jupyter notebooks, as far as their cells go. A notebook is changed as the text that it is: what is not meant stays
//! byte for byte, whoever wrote it and however it is laid out.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::value::RawValue;
use serde_json::{Map, Serializer, Value, json};

/// How many ids are named where one is not there.
const NAMED: usize = 20;

/// A notebook, and where its cells stand in its text.
pub(crate) struct Notebook<'a> {
    text: &'a str,
    /// Inside of the brackets around the cells.
    inner: Range<usize>,
    /// The cells, in their order.
    pub(crate) cells: Vec<Cell>,
    /// The language of its code.
    pub(crate) language: String,
    /// Whether its cells have ids of their own.
    has_ids: bool,
}

/// A cell.
pub(crate) struct Cell {
    span: Range<usize>,
    /// What it is known by: its id, or `cell-0` for the first of those that have none.
    pub(crate) id: String,
    fields: Map<String, Value>,
}

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CellType {
    /// It is run.
    Code,
    /// It is read.
    Markdown,
}

impl CellType {
    /// As it stands in the file.
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
    /// The notebook that a text is; the error says why it is none.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let document: Document<'a> =
            serde_json::from_str(text).map_err(|fault| fault.to_string())?;
        let raw: Vec<&'a RawValue> = serde_json::from_str(document.cells.get())
            .map_err(|fault| format!("its cells are none: {fault}"))?;
        let place = |part: &str| {
            // Borrowed from the text, so it stands in it.
            let start = part.as_ptr() as usize - text.as_ptr() as usize;
            start..start + part.len()
        };
        let all = place(document.cells.get());
        let cell = |(at, raw): (usize, &&RawValue)| {
            let fields: Map<String, Value> = serde_json::from_str(raw.get())
                .map_err(|fault| format!("cell {at} is none: {fault}"))?;
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

    /// Where the cell of this id stands among the cells.
    pub(crate) fn find(&self, id: &str) -> Result<usize, String> {
        // A cell with an id of its own is known by its place too.
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

    /// The text with another source in the cell number `at`, which becomes a `kind` if one is given. What the code of
    /// before put out goes.
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

    /// The text with a new cell behind the cell number `after`, or before all, and the new cell's id.
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

    /// The text without the cell number `at`.
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

    /// The white space before the place of a cell.
    fn gap(&self, start: usize) -> &'a str {
        let before = &self.text[..start];
        &before[before.trim_end().len()..]
    }

    /// A cell, laid out as those around it.
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

    /// An id that no cell has, the same for the same call.
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
    /// What it says.
    pub(crate) fn source(&self) -> String {
        joined(self.fields.get("source"))
    }

    /// `code`, `markdown`, or what else there may be.
    pub(crate) fn kind(&self) -> &str {
        let kind = self.fields.get("cell_type").and_then(Value::as_str);
        kind.unwrap_or("raw")
    }

    /// How often the code of the notebook had been run when this was.
    pub(crate) fn run(&self) -> Option<u64> {
        self.fields.get("execution_count").and_then(Value::as_u64)
    }

    /// What it put out when it was run.
    pub(crate) fn outputs(&self) -> &[Value] {
        let outputs = self.fields.get("outputs").and_then(Value::as_array);
        outputs.map_or(&[], Vec::as_slice)
    }
}

/// A text that may have been written as a list of lines.
pub(crate) fn joined(text: Option<&Value>) -> String {
    match text {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn lines(text: &str, is_list: bool) -> Value {
    match is_list {
        true => text.split_inclusive('\n').collect(),
        false => text.into(),
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
