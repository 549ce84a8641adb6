//! Renders text to styled lines: Markdown, code, diffs, tool calls.
//!
//! It is a crate of its own because highlighting and diffs have large dependencies, and because it is pure: it uses no
//! terminal, clock or file, so every screen can be tested as a value. Printing and redrawing the lines is left to the
//! callers.
//!
//! - [`Line`] is one row of [`Span`]s, each with a [`Style`]. It never holds control characters, and [`Line::paint`]
//!   returns it as text, with colours or without. Its `Debug` form is readable, for tests.
//! - [`wrap`] breaks a line into rows of a width; [`Line::cut`] shortens one.
//! - [`Markdown`] renders an answer in pieces: [`Markdown::feed`] returns the rows that are final, to be printed once, and
//!   [`Markdown::tail`] those that may still change, to be redrawn in each frame.
//! - [`tool::running`] and [`tool::ended`] render a tool call, [`tool::thinking`] the thinking of a model. Changes of files
//!   and task lists are recognised by the shape of a result's details, never by the name of the tool.
//! - [`ascii`] translates signs for terminals without Unicode.
//!
//! No row is wider than the requested width. No meaning is in a colour alone: changes have signs, failures a cross,
//! headings their marks, so that people who cannot tell red from green miss nothing. Colours are the sixteen of the terminal.

mod ascii;
pub mod diff;
#[cfg_attr(not(feature = "grammars"), path = "no_grammars.rs")]
mod highlight;
mod markdown;
mod styled;
pub mod tool;
mod wrap;

pub use ascii::ascii;
pub use highlight::Highlighter;
pub use markdown::Markdown;
pub use styled::{Ink, Line, Palette, Span, Style};
pub use wrap::{wrap, wrap_hard};
