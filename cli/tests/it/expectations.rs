//! What people expect of an agent at a terminal, from what ten such programs have in common, and the tests that show it.
//! `docs/expectations.md` is made of this table.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// How much an expectation matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Must,
    Should,
}
use Level::{Must, Should};

/// An expectation, and the tests that show that it is met; without any, the reason why it is not.
struct Row(Level, &'static str, &'static [&'static str], &'static str);

const SECTIONS: &[(&str, &[Row])] = &[
    ("Conversation", CONVERSATION),
    ("Sessions", SESSIONS),
    ("Control and safety", CONTROL),
    ("Extending", EXTENDING),
    ("Scripts", SCRIPTS),
    ("Knowing what goes on", KNOWING),
    ("Installation", INSTALLATION),
];

const CONVERSATION: &[Row] = &[
    Row(Must, "answers are drawn while they come, and the input line is never blocked", &["how_it_shows::an_answer_that_comes_and_a_line_that_is_typed"], ""),
    Row(Must, "Markdown is laid out as it comes: headings, lists, code, tables", &["how_it_shows::an_answer_that_comes_and_a_line_that_is_typed", "screens::an_answer_and_its_tools"], ""),
    Row(Must, "the terminal's own scrollback, written once, without flicker", &["repl::the_scrollback_is_written_once", "how_it_shows::another_size_in_the_middle_of_an_answer"], ""),
    Row(Must, "typing while the agent works steers it, or is queued; Esc gives queued text back", &["repl::words_typed_while_the_agent_works_reach_it_or_come_back"], ""),
    Row(Must, "Esc interrupts and keeps what there is; Ctrl-C twice leaves", &["repl::an_interrupt_keeps_what_was_said_and_a_second_one_leaves", "repl::live::what_an_interrupted_command_has_written_is_kept_and_told"], ""),
    Row(Must, "several lines, search in the history, the editor of one's choice", &["repl::lines_typed_before_are_found_and_edited_elsewhere"], ""),
    Row(Must, "`@path` with completion: files, folders, ranges of lines", &["repl::mentions::files_are_completed_and_their_lines_are_sent"], ""),
    Row(Must, "`!command` runs a line and shares its output, `!!` keeps it to oneself", &["repl::commands_of_the_users_own_are_shared_or_not"], ""),
    Row(Must, "pictures by path, by `@`, from the clipboard", &["repl::pictures::pictures_are_shown_to_the_model_and_folded_in_the_line", "repl::pictures::a_prompt_on_the_command_line_shows_pictures_as_well"], ""),
    Row(Must, "time, tokens and what is running, while the agent works", &["expectations::activity_shows_time_tokens_and_what_runs"], ""),
    Row(Must, "long output is folded, and a key shows it whole", &["repl::a_long_output_is_shown_whole_on_request", "repl::live::the_end_of_a_running_output_is_seen_and_all_of_it_on_request"], ""),
    Row(Must, "edits as a coloured difference with the changed words marked", &["expectations::an_edit_is_a_difference_in_red_and_green"], ""),
    Row(Must, "`NO_COLOR`, `CLICOLOR`, a dumb terminal or none: plain", &["how_it_shows::no_colour_leaves_the_layout", "repl::a_dumb_terminal_gets_lines", "output::colours_are_for_terminals_or_for_who_insists"], ""),
    Row(Should, "a long paste is folded", &["repl::a_paste_of_five_megabytes_is_folded_and_said_whole"], ""),
    Row(Should, "keys of vi", &["repl::settings::lines_are_edited_as_in_vi_where_that_is_wanted"], ""),
    Row(Should, "thinking is shown apart", &["expectations::thinking_is_shown_apart"], ""),
    Row(Should, "light and dark: the terminal's own colours", &["expectations::colours_are_those_of_the_terminal"], ""),
    Row(Should, "lines only, for screen readers", &["how_it_shows::lines_on_a_dumb_terminal"], ""),
    Row(Should, "a status line by a command of one's own", &["repl::settings::the_line_at_the_bottom_is_a_command_of_the_users"], ""),
];
