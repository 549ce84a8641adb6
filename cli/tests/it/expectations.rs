//! What people expect of an agent at a terminal, from what ten such programs have in common, and the tests that show it.
//! `docs/expectations.md` is made of this table.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use ah_conversation::Usage;
use ah_testkit::script::{says, thinks, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::{ASKS_UNCONFINED, World};
use crate::support::pseudo_terminal::Seat;

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
    Row(
        Must,
        "answers are drawn while they come, and the input line is never blocked",
        &["how_it_shows::an_answer_that_comes_and_a_line_that_is_typed"],
        "",
    ),
    Row(
        Must,
        "Markdown is laid out as it comes: headings, lists, code, tables",
        &[
            "how_it_shows::an_answer_that_comes_and_a_line_that_is_typed",
            "screens::an_answer_and_its_tools",
        ],
        "",
    ),
    Row(
        Must,
        "the terminal's own scrollback, written once, without flicker",
        &[
            "repl::the_scrollback_is_written_once",
            "repl::scrollback::nothing_is_lost_or_repeated_at_any_size",
            "how_it_shows::another_size_in_the_middle_of_an_answer",
        ],
        "",
    ),
    Row(
        Must,
        "typing while the agent works steers it, or is queued; Esc gives queued text back",
        &["repl::words_typed_while_the_agent_works_reach_it_or_come_back"],
        "",
    ),
    Row(
        Must,
        "Esc interrupts and keeps what there is; Ctrl-C twice leaves",
        &[
            "repl::an_interrupt_keeps_what_was_said_and_a_second_one_leaves",
            "repl::live::what_an_interrupted_command_has_written_is_kept_and_told",
        ],
        "",
    ),
    Row(
        Must,
        "several lines, search in the history, the editor of one's choice",
        &["repl::lines_typed_before_are_found_and_edited_elsewhere"],
        "",
    ),
    Row(
        Must,
        "`@path` with completion: files, folders, ranges of lines",
        &["repl::mentions::files_are_completed_and_their_lines_are_sent"],
        "",
    ),
    Row(
        Must,
        "`!command` runs a line and shares its output, `!!` keeps it to oneself",
        &["repl::commands_of_the_users_own_are_shared_or_not"],
        "",
    ),
    Row(
        Must,
        "pictures by path, by `@`, from the clipboard",
        &[
            "repl::pictures::pictures_are_shown_to_the_model_and_folded_in_the_line",
            "repl::pictures::a_prompt_on_the_command_line_shows_pictures_as_well",
        ],
        "",
    ),
    Row(
        Must,
        "time, tokens and what is running, while the agent works",
        &["expectations::activity_shows_time_tokens_and_what_runs"],
        "",
    ),
    Row(
        Must,
        "long output is folded, and a key shows it whole",
        &[
            "repl::a_long_output_is_shown_whole_on_request",
            "repl::live::the_end_of_a_running_output_is_seen_and_all_of_it_on_request",
        ],
        "",
    ),
    Row(
        Must,
        "the whole transcript to be scrolled, searched, folded and copied: outputs, thinking, subagents",
        &[
            "repl::viewer::everything_can_be_looked_at_and_the_scrollback_stays_as_it_was",
            "repl::viewer::the_transcript_of_a_subagent_is_one_key_away",
        ],
        "",
    ),
    Row(
        Must,
        "neighbouring reads are one line, a subagent one line and its report, retries one line that counts",
        &[
            "screens::a_repair",
            "repl::live::the_wait_before_a_retry_is_counted_down_and_can_be_skipped",
        ],
        "",
    ),
    Row(
        Should,
        "the terminal's title and progress say what it is about and whether it works",
        &["repl::rules::the_title_says_what_it_is_about_and_whether_it_works"],
        "",
    ),
    Row(
        Should,
        "permissions, hooks, working directories and the plan mode by commands, keys by `?`",
        &["repl::rules::rules_are_seen_changed_and_removed_in_place"],
        "",
    ),
    Row(
        Should,
        "models by price, those that can be used first; a near miss of a name is told",
        &["repl::rules::the_list_of_models_has_prices_and_a_near_miss_is_told"],
        "",
    ),
    Row(
        Should,
        "the present conversation goes to the background by a key",
        &[
            "repl::to_background::a_run_goes_to_the_background_by_a_key_and_is_watched_there",
            "repl::to_background::a_question_is_asked_there_and_the_mode_goes_along",
            "repl::to_background::what_is_queued_goes_along",
            "repl::to_background::a_model_that_a_command_names_goes_along",
        ],
        "",
    ),
    Row(
        Should,
        "a session that nobody has named has a title: from a small model if one is set, else its first words",
        &[
            "repl::rules::a_small_model_titles_the_session_for_its_lists_and_the_terminal",
            "repl::rules::the_title_says_what_it_is_about_and_whether_it_works",
        ],
        "",
    ),
    Row(
        Should,
        "what one has said, what is asked and the task list are told apart at a glance",
        &["repl::glance::speech_questions_and_tasks_are_told_apart"],
        "",
    ),
    Row(
        Should,
        "a model that was just chosen counts at once, and a copy of a session is one line",
        &["repl::glance::a_model_that_was_chosen_counts_at_once"],
        "",
    ),
    Row(
        Should,
        "what is queued behind a command of one's own comes back when that is stopped",
        &["repl::glance::what_is_queued_behind_a_command_comes_back"],
        "",
    ),
    Row(
        Should,
        "leaving says what it stops; a line typed ahead is sent",
        &[
            "repl::glance::what_is_stopped_by_leaving_is_said",
            "repl::glance::a_line_that_is_typed_before_anything_is_drawn_is_sent",
        ],
        "",
    ),
    Row(
        Should,
        "`/copy` reaches the clipboard from within tmux",
        &["repl::glance::in_tmux_its_clipboard_is_used"],
        "",
    ),
    Row(
        Should,
        "code of an answer can be copied from the screen",
        &[],
        "a line that is longer than the terminal is cut at its edge; `/copy` and the viewer copy it whole",
    ),
    Row(
        Should,
        "a question about an edit has line numbers",
        &["repl::readable::the_question_about_an_edit_has_the_numbers_of_the_file"],
        "",
    ),
    Row(
        Should,
        "tools, skills and subagents are listed for people; what git ignores comes last",
        &[
            "repl::readable::tools_skills_and_subagents_are_a_row_each",
            "repl::readable::files_that_git_ignores_come_last",
        ],
        "",
    ),
    Row(
        Should,
        "a smaller window leaves no copies of a question",
        &[],
        "none in tmux either, but upper rows that a terminal itself moves into its scrollback stay there; nothing is ever erased from it",
    ),
    Row(
        Should,
        "a side question that does not enter the transcript",
        &[
            "repl::earlier::a_side_question_stays_out_of_the_conversation",
            "repl::earlier::a_side_question_is_answered_while_the_agent_works",
        ],
        "",
    ),
    Row(
        Should,
        "a command of one's own is shown by its name when its session is opened again",
        &["repl::past::a_command_is_shown_by_its_name_when_its_session_is_opened_again"],
        "",
    ),
    Row(
        Should,
        "several questions at once with a counter and a way back",
        &["questions::several_questions_have_a_way_back"],
        "",
    ),
    Row(
        Must,
        "an earlier prompt is edited and said again (Esc Esc), and all branches are seen as a tree",
        &[
            "repl::earlier::a_prompt_is_edited_and_the_tree_shows_where_one_is",
            "repl::glance::a_model_that_was_chosen_counts_at_once",
        ],
        "",
    ),
    Row(
        Must,
        "a way in by arrow keys: vendors by name, a key that is tried at once, another one in place",
        &[
            "repl::login::without_a_key_a_key_is_pasted_and_the_conversation_begins",
            "repl::login::a_wrong_answer_leads_back_to_the_menu",
            "repl::login::another_key_is_given_in_place",
        ],
        "",
    ),
    Row(
        Must,
        "edits as a coloured difference with the changed words marked",
        &["expectations::an_edit_is_a_difference_in_red_and_green"],
        "",
    ),
    Row(
        Must,
        "`NO_COLOR`, `CLICOLOR`, a dumb terminal or none: plain",
        &[
            "how_it_shows::no_colour_leaves_the_layout",
            "repl::a_dumb_terminal_gets_lines",
            "output::colours_are_for_terminals_or_for_who_insists",
        ],
        "",
    ),
    Row(
        Should,
        "a long paste is folded",
        &["repl::a_paste_of_five_megabytes_is_folded_and_said_whole"],
        "",
    ),
    Row(
        Should,
        "keys of vi",
        &["repl::settings::lines_are_edited_as_in_vi_where_that_is_wanted"],
        "",
    ),
    Row(
        Should,
        "thinking is shown apart",
        &["expectations::thinking_is_shown_apart"],
        "",
    ),
    Row(
        Should,
        "light and dark: the terminal's own colours",
        &["expectations::colours_are_those_of_the_terminal"],
        "",
    ),
    Row(
        Should,
        "lines only, for screen readers",
        &["how_it_shows::lines_on_a_dumb_terminal"],
        "",
    ),
    Row(
        Should,
        "a status line by a command of one's own",
        &["repl::settings::the_line_at_the_bottom_is_a_command_of_the_users"],
        "",
    ),
];

const SESSIONS: &[Row] = &[
    Row(
        Must,
        "every step is kept, and a kill loses nothing",
        &[
            "kill::a_kill_before_any_commit_loses_nothing",
            "kill::a_kill_after_any_commit_loses_nothing",
        ],
        "",
    ),
    Row(
        Must,
        "`-c` goes on; `-r` chooses, with search, title, age, branch, tokens, first words",
        &[
            "repl::sessions::a_session_is_chosen_from_a_list",
            "repl::sessions::the_list_shows_the_branch_that_a_session_was_on",
            "repl::past::a_session_that_is_opened_again_shows_what_was_said",
        ],
        "",
    ),
    Row(
        Must,
        "sessions are named, listed, removed",
        &[
            "sessions::sessions_are_listed_named_and_removed",
            "repl::commands_tell_of_the_session_and_change_it",
        ],
        "",
    ),
    Row(
        Must,
        "a tree: any earlier message can be gone back to",
        &[
            "tree::a_session_can_be_looked_at_from_every_side",
            "tree::a_session_can_be_changed_and_goes_on_from_there",
        ],
        "",
    ),
    Row(
        Must,
        "a fork into a session of its own",
        &[
            "sessions::a_fork_in_the_session_keeps_both_branches_and_a_forked_session_leaves_the_first_alone",
        ],
        "",
    ),
    Row(
        Must,
        "export as Markdown and as lines of JSON",
        &["tree::an_export_as_lines_is_the_messages"],
        "",
    ),
    Row(
        Should,
        "files are given back, after a preview, and that can be undone",
        &[
            "repl::files::files_are_given_back_once_that_is_agreed_to",
            "undo::what_tools_changed_is_taken_back_and_brought_forth",
        ],
        "",
    ),
    Row(
        Should,
        "a page in the browser",
        &[
            "serve::browse::the_page_is_served_to_those_who_know_its_address",
            "serve::browse::any_branch_is_read_and_gone_on_from",
        ],
        "",
    ),
    Row(
        Should,
        "several programs on one session",
        &[
            "repl::sessions::what_others_write_while_nothing_is_on_is_answered",
            "run::steering_and_follow_ups_from_another_process_reach_the_running_model",
        ],
        "",
    ),
    Row(
        Should,
        "old sessions are cleared away on request",
        &["sessions::what_is_empty_old_or_left_behind_is_cleared_away"],
        "",
    ),
];

const CONTROL: &[Row] = &[
    Row(
        Must,
        "questions: once, for the session, always with its rule, no with a reason",
        &[
            "how_it_shows::always_means_always",
            "repl::a_question_does_not_eat_what_is_typed",
        ],
        "",
    ),
    Row(
        Must,
        "rules to allow, ask and deny; deny wins; compound commands are understood",
        &[
            "permissions::a_denied_command_does_not_run_in_any_mode",
            "permissions::the_example_of_the_page_does_what_the_page_says",
        ],
        "",
    ),
    Row(
        Must,
        "modes, changed by Shift+Tab",
        &["expectations::shift_tab_changes_the_mode"],
        "",
    ),
    Row(
        Should,
        "a plan is kept as a file",
        &[],
        "it is kept in the transcript, and `/export` writes it",
    ),
    Row(
        Must,
        "a plan is shown and agreed to",
        &[
            "questions::a_person_at_a_terminal_chooses_and_approves",
            "repl::glance::a_plan_is_shown_once",
        ],
        "",
    ),
    Row(
        Must,
        "commands run in a sandbox by default",
        &[
            "default_sandbox::commands_are_confined_and_need_no_question_without_a_word_of_it",
            "sandbox::the_project_is_written_and_the_home_is_not_seen",
        ],
        "",
    ),
    Row(
        Must,
        "hosts are allowed one by one, and asked about",
        &[
            "sandbox::only_allowed_hosts_are_reached_and_a_refusal_says_how",
            "ordinary_jobs::what_is_allowed_is_fetched_through_the_proxy",
        ],
        "",
    ),
    Row(
        Must,
        "nothing of a folder counts before it is trusted",
        &[
            "trust::on_a_terminal_the_user_is_asked_whether_they_trust_the_folder",
            "trust::an_untrusted_project_neither_runs_nor_redirects",
        ],
        "",
    ),
    Row(
        Must,
        "hooks",
        &[
            "hooks::exit_code_2_blocks",
            "hooks::the_examples_of_the_page_work",
        ],
        "",
    ),
    Row(
        Must,
        "limits of tokens, money, turns and time",
        &[
            "run::each_limit_ends_the_run_with_3_and_says_which",
            "run::money_is_a_limit_where_the_price_is_known",
        ],
        "",
    ),
    Row(
        Must,
        "secrets stay out of commands, logs and exports",
        &[
            "secrets::no_command_gets_a_secret",
            "secrets::what_is_written_down_or_shown_names_secrets_and_does_not_tell_them",
        ],
        "",
    ),
];

const EXTENDING: &[Row] = &[
    Row(
        Must,
        "`AGENTS.md` and `CLAUDE.md`",
        &["extensions::the_prompt_is_printed_with_the_source_of_every_part"],
        "",
    ),
    Row(
        Must,
        "skills of the common format",
        &["extensions::skills_are_listed_called_and_taken_up"],
        "",
    ),
    Row(
        Must,
        "commands from Markdown files",
        &["commands::commands_are_filled_in_where_they_are_called"],
        "",
    ),
    Row(
        Must,
        "servers of tools (MCP) on standard streams and over HTTP",
        &[
            "mcp::real::every_tool_of_server_everything_answers",
            "mcp::real::every_tool_answers_over_http",
        ],
        "",
    ),
    Row(
        Must,
        "subagents from Markdown files",
        &[
            "agents::the_model_asks_for_a_subagent_and_stops_it",
            "agents::definitions_come_from_all_layers",
        ],
        "",
    ),
    Row(
        Must,
        "tools of one's own without a build",
        &["extensions::the_tools_and_commands_of_the_page_work"],
        "",
    ),
    Row(
        Must,
        "commands in the background: listed, looked at, stopped, ended with the run",
        &[
            "tools::a_job_ends_with_its_run",
            "repl::past::tasks_in_the_background_are_listed_seen_and_stopped",
        ],
        "",
    ),
    Row(
        Must,
        "web pages are fetched",
        &["web::a_page_is_read_where_the_user_has_named_its_host"],
        "",
    ),
    Row(
        Should,
        "editors (ACP)",
        &[
            "acp::a_prompt_is_answered_in_pieces",
            "acp::an_edit_is_asked_about_and_shown_as_a_diff",
            "acp::a_session_is_listed_and_loaded_by_another_process",
        ],
        "",
    ),
    Row(
        Should,
        "a list of todos",
        &["tools::a_list_of_todos_is_that_of_its_branch"],
        "",
    ),
    Row(
        Should,
        "questions of the model's, with choices",
        &["questions::a_person_at_a_terminal_chooses_and_approves"],
        "",
    ),
    Row(
        Should,
        "a worktree of git for a task",
        &[
            "worktrees::a_conversation_can_be_in_a_new_worktree",
            "worktrees::a_worktree_with_changes_is_kept_and_removed_on_request",
        ],
        "",
    ),
];

const SCRIPTS: &[Row] = &[
    Row(
        Must,
        "`-p`: the answer alone on standard output",
        &[
            "run::the_answer_is_on_stdout_and_all_else_on_stderr",
            "run::the_prompt_comes_from_the_arguments_or_the_input",
        ],
        "",
    ),
    Row(
        Must,
        "text, JSON and lines of JSON; exit codes that stay",
        &[
            "output::a_result_has_the_fields_of_the_sdk",
            "interfaces::a_program_gets_1_for_every_failure",
            "run::each_limit_ends_the_run_with_3_and_says_which",
        ],
        "",
    ),
    Row(
        Must,
        "the protocol of the Claude Agent SDKs",
        &[
            "stream_json::r2_a_prompt_is_told_in_the_messages_of_the_sdk",
            "stream_json::r3_control_requests_are_answered_while_a_run_goes_on",
        ],
        "",
    ),
    Row(
        Must,
        "issues become pull requests",
        &["work::an_issue_becomes_a_branch_and_a_pull_request"],
        "",
    ),
    Row(
        Should,
        "output that keeps to a JSON schema",
        &["sdk::commands::what_is_missing_and_what_was_denied_is_told"],
        "",
    ),
    Row(
        Should,
        "a server with HTTP and events",
        &[
            "serve::a_session_is_begun_followed_and_continued",
            "serve::clients_come_and_go_and_the_run_goes_on",
        ],
        "",
    ),
    Row(
        Should,
        "OpenTelemetry",
        &[
            "traces::a_run_is_a_trace_of_its_requests_calls_and_subagents",
            "traces::a_collector_that_fails_is_not_noticed",
        ],
        "",
    ),
];

const KNOWING: &[Row] = &[
    Row(
        Must,
        "tokens, cost, what fills the context",
        &[
            "repl::commands_tell_of_the_session_and_change_it",
            "first_request::what_each_part_of_a_request_takes_is_listed",
        ],
        "",
    ),
    Row(
        Must,
        "compaction, by itself and on request, with the history kept",
        &[
            "run::a_conversation_that_fills_the_window_is_summed_up",
            "definitions::a_subagent_keeps_its_words_when_the_conversation_is_summed_up",
        ],
        "",
    ),
    Row(
        Must,
        "another model in the middle, another one when the first is overloaded",
        &[
            "repl::a_model_chosen_in_the_conversation_is_the_sessions_own",
            "streams::a_server_that_stays_overloaded_ends_the_run_and_not_the_session",
        ],
        "",
    ),
    Row(
        Must,
        "a retry with its cause and a countdown",
        &["repl::live::the_wait_before_a_retry_is_counted_down_and_can_be_skipped"],
        "",
    ),
    Row(
        Must,
        "who is away is told that it is done, or waits",
        &["repl::settings::who_is_away_is_told_that_the_agent_waits_or_has_finished"],
        "",
    ),
    Row(
        Must,
        "`doctor`",
        &[
            "settings::the_doctor_lists_what_is_wrong_and_goes_on",
            "models::the_doctor_says_what_the_model_is_and_who_said_so",
        ],
        "",
    ),
    Row(
        Must,
        "which file has set what",
        &["settings::of_many_places_the_first_counts"],
        "",
    ),
    Row(
        Must,
        "logs",
        &[
            "options::the_log_is_shown_and_followed",
            "options::the_log_goes_where_it_is_asked_to",
        ],
        "",
    ),
    Row(
        Must,
        "completions and manual pages",
        &[
            "options::shells_understand_their_completions",
            "options::the_manual_has_a_page_for_each_subcommand",
        ],
        "",
    ),
    Row(
        Should,
        "a notice of a newer version",
        &["models::a_newer_version_is_asked_for_on_request_only"],
        "",
    ),
];

const INSTALLATION: &[Row] = &[
    Row(
        Must,
        "one file without a runtime",
        &["expectations::one_file_is_enough"],
        "`cargo xtask test packages` installs it from its archive, from npm's package and from PyPI's",
    ),
    Row(
        Must,
        "an instant start, and no network before the first prompt",
        &["expectations::nothing_is_sent_before_the_first_prompt"],
        "`cargo xtask bench` measures it",
    ),
    Row(
        Must,
        "proxies and certificates of one's own",
        &[
            "options::a_certificate_file_that_is_none_is_told",
            "wire::the_server_may_be_another_one_and_stand_behind_a_proxy",
        ],
        "",
    ),
    Row(
        Should,
        "macOS with its own sandbox",
        &[],
        "built, and tried by nobody yet",
    ),
    Row(Should, "Windows", &[], "by WSL"),
];

#[test]
fn activity_shows_time_tokens_and_what_runs() {
    let world = World::new();
    let waits = "until [ -e go ]; do sleep 0.02; done";
    let mut turn = uses("bash", json!({ "command": waits }));
    turn.usage = Some(Usage {
        input_tokens: 1_200,
        ..Usage::default()
    });
    let server = Server::new([turn, says("Done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("wait");
    seat.sees("bash until [ -e go ]");
    seat.sees("· 1.2k tokens · Esc interrupts");
    // The time goes on.
    seat.sees(" 1s · ");
    world.write("go", "");
    seat.sees("Done.");
    leave(seat);
}

#[test]
fn an_edit_is_a_difference_in_red_and_green() {
    let world = World::new();
    world.write("a.txt", "one two three\nsecond\n");
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "2"});
    let turns = [
        uses("read", json!({"path": "a.txt"})),
        uses("edit", edit),
        says("Done."),
    ];
    let server = Server::new(turns);
    let mut seat = Seat::take(world.asking(&server, ASKS_UNCONFINED));
    seat.says("change it");
    // In the question and in the result.
    for next in ["Allow?", "Done."] {
        seat.sees("- one two three");
        seat.sees("+ one 2 three");
        for (mark, colour) in [('-', "31"), ('+', "32")] {
            seat.wait_until("its colour", |bytes, _| {
                let text = String::from_utf8_lossy(bytes);
                let of_mark =
                    |line: &str| line.contains(&format!("\x1b[{colour}m")) && line.contains(mark);
                text.lines().any(of_mark)
            });
        }
        seat.sees(next);
        if next == "Allow?" {
            seat.says("y");
        }
    }
    leave(seat);
}

#[test]
fn thinking_is_shown_apart() {
    let world = World::new();
    let server = Server::new([thinks("Let me weigh it.", "It is heavy.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("how heavy?");
    seat.sees("Let me weigh it.");
    seat.sees("It is heavy.");
    let bytes = String::from_utf8_lossy(&seat.bytes()).into_owned();
    let before = |text: &str| bytes.split_once(text).unwrap().0.to_owned();
    assert!(
        before("Let me weigh it.")
            .rsplit('\n')
            .next()
            .unwrap()
            .contains("\x1b[2")
    );
    leave(seat);
}

#[test]
fn colours_are_those_of_the_terminal() {
    let world = World::new();
    let turns = [
        uses("bash", json!({"command": "echo one; exit 3"})),
        says("# Head\n\n`code` and **bold**\n\n```rust\nfn main() {}\n```\n"),
    ];
    let server = Server::new(turns);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("colours");
    seat.sees("fn main()");
    seat.sees_no_more("Esc interrupts");
    let bytes = String::from_utf8_lossy(&seat.bytes()).into_owned();
    assert!(bytes.contains("\x1b[3"), "there are colours");
    // The theme of the terminal decides what its sixteen colours are.
    for fixed in ["38;5;", "38;2;", "48;5;", "48;2;"] {
        assert!(!bytes.contains(fixed), "{fixed}");
    }
    leave(seat);
}

#[test]
fn shift_tab_changes_the_mode() {
    let world = World::new();
    let server = Server::new([says("Hello.")]);
    let mut seat = Seat::take(world.asking(&server, ASKS_UNCONFINED));
    seat.sees("ask before each action");
    for mode in ["accept edits", "plan", "ask before each action"] {
        seat.types("\x1b[Z");
        seat.sees(mode);
    }
    leave(seat);
}

#[test]
fn nothing_is_sent_before_the_first_prompt() {
    let world = World::new();
    let server = Server::new([says("Hello.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.sees("? lists commands and keys");
    seat.says("/status");
    seat.sees("claude-sonnet");
    seat.sees_no_more("Esc interrupts");
    assert_eq!(server.requests().len(), 0);
    seat.says("Hi");
    seat.sees("Hello.");
    leave(seat);
}

#[test]
fn one_file_is_enough() {
    let world = World::new();
    let alone = world.home().join("anywhere");
    fs::copy(env!("CARGO_BIN_EXE_ah"), &alone).unwrap();
    let ended = world
        .program(&alone, ["demo"])
        .env("PATH", "/usr/bin:/bin")
        .run()
        .expect(0);
    assert!(
        ended.stdout.contains("Both checks pass now."),
        "{}",
        ended.stdout
    );
}

#[track_caller]
fn leave(mut seat: Seat) {
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// Every test that is named is there, and the page is what the table says.
#[test]
fn the_page_is_made_of_the_table() {
    let tests = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output()
        .unwrap();
    let tests = String::from_utf8(tests.stdout).unwrap();
    let tests: Vec<_> = { tests.lines() }
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    for (_, rows) in SECTIONS {
        for Row(_, expected, shown_by, why) in *rows {
            assert!(!shown_by.is_empty() || !why.is_empty(), "{expected}");
            for test in *shown_by {
                assert!(
                    tests.contains(test),
                    "{expected}: there is no test `{test}`"
                );
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/expectations.md");
    if std::env::var_os("AH_WRITE_DOCS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == page(),
        "docs/expectations.md is not what the table says; `AH_WRITE_DOCS=1` makes it again"
    );
}

fn page() -> String {
    let met = |level: Level| {
        let rows = SECTIONS.iter().flat_map(|(_, rows)| *rows);
        let (mut all, mut met) = (0, 0);
        for Row(_, _, shown_by, _) in rows.filter(|row| row.0 == level) {
            all += 1;
            met += usize::from(!shown_by.is_empty());
        }
        format!("{met} of {all}")
    };
    let mut page = format!(
        "# What people expect\n\nWhat ten agents for the terminal have in common, row by row, with the tests that show it (below \
         `cli/tests/it`; most are at a pseudo-terminal). Of what people take for granted, {} are met; of what many ask for, {}.\n",
        met(Must),
        met(Should)
    );
    for (section, rows) in SECTIONS {
        let _ = write!(
            page,
            "\n## {section}\n\n| expected | how much | shown by |\n| --- | --- | --- |\n"
        );
        for Row(level, expected, shown_by, why) in *rows {
            let level = match level {
                Must => "taken for granted",
                Should => "asked for",
            };
            let tests: Vec<_> = shown_by.iter().map(|test| format!("`{test}`")).collect();
            let mut shown = tests.join(", ");
            if !why.is_empty() {
                let gap = if shown.is_empty() { "" } else { "; " };
                let _ = write!(shown, "{gap}{why}");
            }
            let _ = writeln!(page, "| {expected} | {level} | {shown} |");
        }
    }
    page
}
