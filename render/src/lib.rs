//! What people see, as values: text comes in, styled lines come out.
//!
//! It is a crate of its own because highlighting and comparing weigh much, and because it is pure: no terminal, clock or
//! file is touched here, so every screen can be tested by what it says. Whoever draws decides where the lines go: the
//! program that is run once writes them down, the one that is talked to keeps some of them moving.
//!
//! - [`Line`] is one row of [`Span`]s, each with a [`Style`]. It never holds anything that a terminal would obey, and
//!   [`Line::paint`] gives it as text, with colours or without. Its `Debug` form is readable, for tests.
//! - [`wrap`] breaks a line into rows of a width; [`Line::cut`] shortens one.
//! - [`Markdown`] is fed an answer piece by piece: [`Markdown::feed`] gives the rows that are final, to be written once,
//!   and [`Markdown::tail`] those that may still change, to be drawn anew at each frame.
//! - [`tool::running`] and [`tool::ended`] show a call, [`tool::thinking`] what a model thought; changes of files
//!   and lists of tasks are found by the shape of a result's details, never by a tool's name.
//! - [`html`] has the same for a page that is looked at in a browser.
//! - [`neutralise`] is for those who write text without styles.
//!
//! No row is wider than the width that was asked for. No meaning is in a colour alone: changes have signs, failures a
//! cross, headings their marks. Colours are the terminal's own sixteen, and of those neither red nor green, which many
//! cannot tell apart.

pub mod diff;
mod highlight;
pub mod html;
mod markdown;

mod styled;
pub mod tool;
mod wrap;

pub use ah_conversation::neutralise;
pub use highlight::Highlighter;
pub use markdown::Markdown;
pub use styled::{Ink, Line, Palette, Span, Style};
pub use wrap::{wrap, wrap_hard};
