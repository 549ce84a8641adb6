//! Who is trusted with what, with the tests that show it, and what is known not to hold, with the reason. `SECURITY.md` has the
//! tables that are made of these.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::attacks::tables;
use crate::docs::tests;

const BEGIN: &str = "<!-- made of the tests -->\n";
const END: &str = "<!-- end -->\n";

/// Somebody, what they are trusted with, what they are not, and the tests of this program that show the latter.
struct Role(
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

const ROLES: &[Role] = &[
    Role(
        "you",
        "everything: settings, command line, answers at the terminal",
        "",
        &[],
    ),
    Role(
        "the administrator, root, and other programs with your rights",
        "everything; `ah` does not protect from them. Keys are kept from debuggers and from `/proc`, so that a confined or a merely \
         permitted program does not read them",
        "",
        &[
            "secrets::no_call_finds_the_key_in_another_process",
            "secrets::the_agent_leaves_no_core_file",
        ],
    ),
    Role(
        "the model",
        "the conversation, and calls that rules, the mode or you allow",
        "your files outside the project, keys, the network, protected files, any loosening of its own limits",
        &[
            "attacks::the_rules_hold_attacks_of_an_ordinary_user",
            "attacks::the_rules_hold_attacks_of_root",
            "permissions::a_denied_command_does_not_run_in_any_mode",
            "denied::generated::nothing_of_a_denied_file_is_stored",
            "hostile_text::a_question_writes_out_what_nothing_shows",
            "terminals::what_runs_unasked_neither_writes_to_a_terminal_nor_reads_from_it",
        ],
    ),
    Role(
        "a command or script that the model runs",
        "in the sandbox: the project, temporary folders, allowed hosts. Outside it: everything, hence the question",
        "in the sandbox: all else; protected files of the project",
        &[
            "attacks::the_sandbox_holds_attacks_of_an_ordinary_user",
            "attacks::the_sandbox_holds_attacks_of_root",
            "repositories::git_runs_nothing_later_that_a_command_has_left",
            "undo_commands::any_commands_are_undone_and_redone",
        ],
    ),
    Role(
        "a project's file that the model reads, a web page, a tool's output",
        "being read, as data",
        "commands, permissions. It may mislead the model, which is limited as above",
        &[
            "hostile_text::what_a_project_says_is_shown_with_its_characters_written_out",
            "web::a_project_cannot_name_hosts_of_its_own",
        ],
    ),
    Role(
        "an untrusted repository",
        "its texts, and settings that make a run safer",
        "running code, permissions, redirecting requests, sessions of its own ([trust](docs/trust.md)), answers from a \
         file that its sessions name as their model, calls that its sessions have left open, tasks of its own, undoing anything [unasked](docs/undo.md#sessions-of-others)",
        &[
            "trust::an_untrusted_project_neither_runs_nor_redirects",
            "trust::sessions_are_not_written_through_a_link_of_an_untrusted_folder",
            "forged::no_door_obeys_what_the_user_has_not_recorded",
            "forged::no_command_obeys_the_session_of_a_stranger",
            "forged::the_session_of_a_stranger_is_listed_as_such",
            "forged::the_model_of_a_session_is_no_file",
            "forged::what_others_have_left_to_be_run_is_not_run",
            "forged::what_others_have_queued_is_not_said",
            "forged::what_others_have_written_to_a_queue_of_the_user_is_not_said",
            "forged::a_queue_that_came_with_a_folder_is_not_run",
            "trust::no_repository_of_an_untrusted_project_runs_programs",
            "trust::no_filter_for_worktrees_alone_runs_in_an_untrusted_project",
            "definitions::a_memory_is_no_other_folder_of_the_user",
            "agents::an_untrusted_definition_widens_nothing",
            "plugins::a_plugin_in_a_project_that_is_not_trusted_runs_nothing",
        ],
    ),
    Role(
        "a trusted repository",
        "its tools, hooks, settings and servers run, as you allowed. Whoever can write to it can do the same",
        "hosts for its MCP servers without a question; settings that loosen the sandbox",
        &[
            "mcp::installed::a_project_s_server_is_asked_about_once_and_again_when_it_changes",
            "default_sandbox::a_project_cannot_open_the_sandbox_even_if_it_is_trusted",
            "tiers::a_project_cannot_choose_a_tier",
        ],
    ),
    Role(
        "a plugin",
        "what you agreed to, in files that have not changed since",
        "programs, calls and files that were not in the list before your yes",
        &[
            "marketplaces::all_that_a_plugin_may_do_is_shown_whole_and_waits_for_a_yes",
            "marketplaces::a_yes_is_to_the_files_that_were_shown",
            "marketplaces::a_plugin_names_files_of_the_project_and_its_own",
            "marketplaces::hostile_marketplaces_reach_nothing_else",
        ],
    ),
    Role(
        "an MCP server in the sandbox",
        "the project, its home, its hosts",
        "all else. Its descriptions and results are data; its annotations allow nothing",
        &["confined::servers_are_confined_unless_the_user_lets_them_out"],
    ),
    Role(
        "an MCP server over HTTP, or in `unconfinedServers`",
        "what you started it for: it is a program of yours, or of its operator",
        "calls without a question or a rule",
        &["mcp::outside::calls_outside_the_sandbox_need_a_rule_in_every_manner"],
    ),
    Role(
        "a host program (Agent SDKs, library)",
        "its session: prompts, tools, permissions, trust in the folder that it chose",
        "`bypassPermissions`, unless allowed at the start; undoing what you have not recorded",
        &[
            "sdk::hooks::a_host_that_is_gone_allows_nothing",
            "forged::no_door_obeys_what_the_user_has_not_recorded",
        ],
    ),
    Role(
        "a page in the browser, other programs of this machine, a network around it",
        "nothing without the token of `ah serve`",
        "sessions, answers, files",
        &[
            "serve::browse::without_the_token_nothing_answers",
            "serve::socket::who_may_not_drive_is_refused_and_what_is_no_message_ends_it",
            "serve::tls::another_address_needs_a_certificate_that_can_be_used",
        ],
    ),
    Role(
        "the author of an issue or a comment on the hub",
        "text as data for the agents of `ah work`, once a member has given the issue its label",
        "the network, tokens, what is pushed",
        &[
            "work::hostile::no_agent_finds_a_token_or_a_way_out",
            "work::hostile::agents_reach_the_hosts_of_work_and_no_others",
            "work::hostile::what_agents_obey_is_not_changed_by_agents",
            "work::hostile::what_runs_with_the_rights_of_the_repository_is_not_pushed",
        ],
    ),
    Role(
        "members of the hub's repository",
        "starting work, reviewing, merging",
        "your machine: their texts are data too",
        &[
            "work::hostile::a_review_reaches_no_other_branch_and_repeats_no_token",
            "work::hostile::what_agents_obey_is_not_changed_by_agents",
        ],
    ),
    Role(
        "a model server and its operator",
        "the conversation that is sent there",
        "anything else; answers are parsed as untrusted bytes",
        &[
            "secrets::a_server_that_repeats_the_key_does_not_get_it_shown",
            "hostile_text::the_answer_and_the_failure_of_a_run_are_written_out_in_every_format",
        ],
    ),
];

/// What is known not to hold, and why.
const GAPS: &[(&str, &str)] = &[
    (
        "In the tier `landlock`: names and attributes of files outside, times and modes of your own files, names of processes, \
         `/dev/shm`; the database of the session, and files that are hidden in the project, can be written and removed",
        "Landlock has no rights for them: [what holds](docs/sandbox.md#what-holds) lists each",
    ),
    (
        "Without user namespaces, deny rules hold for what a line names, not for what its programs do; in the tier `landlock`, those for \
         reading hold, and what others deny to edit is restored",
        "Only a mount keeps one file from all programs. A run with such rules says so, as does `ah doctor`",
    ),
    (
        "A deny rule for a program does not cover its copies, nor one for a file its other hard links",
        "A rule names one file, and a copy is another one",
    ),
    (
        "A deny rule for a part of a program's calls (`Bash(git push:*)`) holds for what a line and its shell run, not for what \
         other programs do (`make -f -`, a script)",
        "The kernel knows files, not the arguments of a program",
    ),
    (
        "Outside the sandbox, an allowed command can use your terminals by their numbers (`/dev/pts/3`)",
        "It has your rights, and the terminal is yours; what closes it (no new rights, a user namespace) would break `sudo`. What runs \
         unasked cannot, and no command has it as `/dev/tty`: `sudo` needs `NOPASSWD`, or `sudo -A` with `SUDO_ASKPASS`",
    ),
    (
        "Outside the sandbox, secrets in variables with other [names](docs/interfaces.md#environment) reach commands",
        "A name is all there is to tell by; in the sandbox a list says which variables a command gets",
    ),
    (
        "In mode `plan`, a server that says that a tool only reads is believed",
        "It says what its tools do; the call must still be allowed",
    ),
    (
        "A program that changes a path in its memory while the system reads it can hide a change from undo",
        "A filter sees addresses, not what is there when the system call is carried out. Nothing outside the project is written",
    ),
    (
        "What you run of a project after a command has changed it has your rights",
        "Sources, tests and build files are what the model is there to change. Files that git and editors run by themselves are protected",
    ),
];

#[test]
fn the_page_is_made_of_the_tests() {
    let tests = tests();
    for Role(who, _, not, shown_by) in ROLES {
        assert!(
            not.is_empty() || !shown_by.is_empty(),
            "nothing shows it: {who}"
        );
        for test in *shown_by {
            assert!(
                tests.iter().any(|it| it == test),
                "{who}: there is no test `{test}`"
            );
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../SECURITY.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the beginning is marked");
    let (_, after) = rest.split_once(END).expect("the end is marked");
    let made = format!("{before}{BEGIN}{}{END}{after}", page());
    if std::env::var_os("AH_WRITE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == made,
        "SECURITY.md is not what the tables say; `AH_WRITE_DOCS=1` makes it again"
    );
}

fn page() -> String {
    let mut page =
        "\n| who | is trusted with | is not | shown by |\n| --- | --- | --- | --- |\n".to_owned();
    for Role(who, trusted, not, shown_by) in ROLES {
        let tests: Vec<_> = shown_by.iter().map(|test| format!("`{test}`")).collect();
        let _ = writeln!(page, "| {who} | {trusted} | {not} | {} |", tests.join(", "));
    }
    let count = |folder| -> usize { tables(folder).iter().map(|class| class.attacks.len()).sum() };
    let _ = write!(
        page,
        "\nThe tests are below `cli/tests/it`. {} attacks are tried on each tier of the sandbox and {} on the rules, as root and as an \
         ordinary user, each with a control that succeeds; the [sandbox](docs/sandbox.md#what-holds) has them by class. A generator \
         (`tools/tests/it/oracle.rs`) compares ten thousand lines of the shell's grammar with what bash does.\n\n\
         ## Known gaps\n\n| what is not held | why |\n| --- | --- |\n",
        count("confined"),
        count("ruled")
    );
    for (what, why) in GAPS {
        let _ = writeln!(page, "| {what} | {why} |");
    }
    page.push('\n');
    page
}
