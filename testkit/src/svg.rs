//! Terminal screens as SVG pictures, for the documentation.
//!
//! The same screen gives the same bytes, so that a committed picture can be compared with the program's current output.
//! Every run of text has its own position, so the layout does not depend on a font's width.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

const COLUMN: f32 = 8.4;
const ROW: u32 = 18;
const MARGIN: u32 = 12;
const BACKGROUND: &str = "#16191d";
const FOREGROUND: &str = "#d8dee6";
/// The sixteen colours of a terminal. Nothing may be shown by colour alone.
const COLOURS: [&str; 16] = [
    "#2b3036", "#e06c75", "#98c379", "#e5c07b", "#6cb6ff", "#c678dd", "#56c8d8", "#d8dee6",
    "#7d8590", "#ff8a92", "#b5e890", "#ffd98a", "#8cc8ff", "#dda0f0", "#7fe0ee", "#ffffff",
];

/// Style of a run of text.
#[derive(Clone, PartialEq)]
struct Look {
    front: String,
    back: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
}

/// Consecutive cells with the same style.
struct Run {
    column: usize,
    columns: usize,
    text: String,
    look: Look,
}

/// Returns the screen as an SVG document, without empty rows at the end.
pub fn svg(screen: &Screen) -> String {
    let (height, width) = screen.size();
    let rows: Vec<Vec<Run>> = (0..height.get())
        .map(|row| runs(screen, row, width.get()))
        .collect();
    let used = rows
        .iter()
        .rposition(|row| !row.is_empty())
        .map_or(0, |last| last + 1);
    let (x, y) = (
        position(usize::from(width.get())),
        used as u32 * ROW + MARGIN * 2,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {y}\" font-size=\"14\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g fill=\"{FOREGROUND}\" style=\"white-space: pre\" xml:space=\"preserve\">\n",
        x.ceil() + MARGIN as f32
    );
    for (index, row) in rows.iter().take(used).enumerate() {
        let top = MARGIN + index as u32 * ROW;
        for run in row {
            draw(&mut svg, run, top);
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

fn position(column: usize) -> f32 {
    MARGIN as f32 + column as f32 * COLUMN
}

fn draw(svg: &mut String, run: &Run, top: u32) {
    let Look {
        front,
        back,
        bold,
        dim,
        italic,
        underline,
    } = &run.look;
    let (x, wide) = (position(run.column), run.columns as f32 * COLUMN);
    if let Some(back) = back {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top}\" width=\"{wide:.1}\" height=\"{ROW}\" fill=\"{back}\"/>"
        );
    }
    if run.text.trim().is_empty() && !underline {
        return;
    }
    let mut attributes = String::new();
    for (is_so, attribute) in [
        (front != FOREGROUND, format!(" fill=\"{front}\"")),
        (*bold, " font-weight=\"bold\"".to_owned()),
        (*dim, " opacity=\".62\"".to_owned()),
        (*italic, " font-style=\"italic\"".to_owned()),
        (*underline, " text-decoration=\"underline\"".to_owned()),
    ] {
        if is_so {
            attributes.push_str(&attribute);
        }
    }
    let baseline = top + 13;
    let text = escape(&run.text);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{baseline}\" textLength=\"{wide:.1}\"{attributes}>{text}</text>"
    );
}

/// Returns the runs of a row, without blanks at its end.
fn runs(screen: &Screen, row: u16, width: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..width {
        let Some(cell) = screen.cell(row, column) else {
            continue;
        };
        if cell.is_wide_continuation() {
            if let Some(last) = runs.last_mut() {
                last.columns += 1;
            }
            continue;
        }
        let look = look(cell);
        let text = if cell.has_contents() {
            cell.contents()
        } else {
            " "
        };
        match runs.last_mut() {
            Some(last) if last.look == look => {
                last.text.push_str(text);
                last.columns += 1;
            }
            _ => runs.push(Run {
                column: column.into(),
                columns: 1,
                text: text.to_owned(),
                look,
            }),
        }
    }
    while let Some(last) = runs.last_mut() {
        if last.look.back.is_some() || last.look.underline {
            break;
        }
        let words = last.text.trim_end_matches(' ').len();
        last.columns -= last.text.len() - words;
        last.text.truncate(words);
        if !last.text.is_empty() {
            break;
        }
        runs.pop();
    }
    runs
}

fn look(cell: &Cell) -> Look {
    let mut front = colour(cell.fgcolor());
    let mut back = colour(cell.bgcolor());
    if cell.inverse() {
        (front, back) = (
            back.or(Some(BACKGROUND.to_owned())),
            front.or(Some(FOREGROUND.to_owned())),
        );
    }
    Look {
        front: front.unwrap_or_else(|| FOREGROUND.to_owned()),
        back,
        bold: cell.bold(),
        dim: cell.dim(),
        italic: cell.italic(),
        underline: cell.underline(),
    }
}

fn colour(colour: Color) -> Option<String> {
    match colour {
        Color::Default => None,
        Color::Idx(index @ 0..16) => Some(COLOURS[usize::from(index)].to_owned()),
        // The 6×6×6 colour cube, then the greys.
        Color::Idx(index @ 16..232) => {
            let index = index - 16;
            let level = |n: u8| if n == 0 { 0 } else { 55 + n * 40 };
            Some(format!(
                "#{:02x}{:02x}{:02x}",
                level(index / 36),
                level(index / 6 % 6),
                level(index % 6)
            ))
        }
        Color::Idx(index) => {
            let grey = 8 + (index - 232) * 10;
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_become_runs_of_text() {
        let mut terminal = vt100::Parser::new(3.try_into().unwrap(), 20.try_into().unwrap(), 0);
        terminal.process(
            "a \x1b[1;34m<b>\x1b[0m \x1b[7m日本\x1b[0m\r\n\x1b[2;38;5;196mdim\x1b[0m".as_bytes(),
        );
        insta::assert_snapshot!(svg(terminal.screen()), @r##"
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 192 60" font-size="14" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace">
<rect width="100%" height="100%" rx="8" fill="#16191d"/>
<g fill="#d8dee6" style="white-space: pre" xml:space="preserve">
<text x="12.0" y="25" textLength="16.8">a </text>
<text x="28.8" y="25" textLength="25.2" fill="#6cb6ff" font-weight="bold">&lt;b&gt;</text>
<rect x="62.4" y="12" width="33.6" height="18" fill="#d8dee6"/>
<text x="62.4" y="25" textLength="33.6" fill="#16191d">日本</text>
<text x="12.0" y="43" textLength="25.2" fill="#ff0000" opacity=".62">dim</text>
</g>
</svg>
"##);
    }
}
