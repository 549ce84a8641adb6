//! Maps each required check (of the loop, subagents, compaction and sessions) and rows of the feature table to tests.
//! A check without a test fails, and so does a test that does not exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::workspace::root;

/// One check and its tests per line: the boxes of the loop's list, lettered checks of 03 (loop), 08 (subagents), 09
/// (compaction) and 11 (sessions, checkpoints), and rows of the feature table.
const CHECKS: &str = "
box 01: box_01_turn_counting
box 02: box_02_stop_reason_mapping
box 03: box_03_tool_result_format
box 04: box_04_max_turns_enforcement
box 05: box_05_budget_enforcement
box 06: box_06_interrupt_behaviour
box 07: box_07_context_overflow
box 08: box_08_message_ordering
box 09: box_09_emission_order
box 10: box_10_session_persistence
box 11: hooks_are_called_in_order
box 12: box_12_empty_tool_use
box 13: box_13_several_tools_in_one_turn

03 a: box_01_turn_counting
03 b: box_02_stop_reason_mapping
03 c: box_03_tool_result_format
03 d: box_04_max_turns_enforcement
03 e: box_05_budget_enforcement
03 f: box_06_interrupt_behaviour
03 g: box_07_context_overflow
03 h: box_08_message_ordering
03 i: box_09_emission_order lines_come_in_their_order
03 j: box_10_session_persistence
03 k: hooks_are_called_in_order
03 l: box_12_empty_tool_use
03 m: box_13_several_tools_in_one_turn

08 a: all_fields_of_a_definition_are_parsed
08 b: the_model_is_that_of_the_call_the_definition_or_the_parent
08 c: tools_are_inherited_listed_and_excluded only_an_agent_with_the_tool_starts_others
08 d: nesting_needs_the_tool_and_is_limited
08 e: a_background_subagent_is_reported_when_it_has_ended the_model_asks_for_a_subagent_and_stops_it
08 f: one_in_the_background_asks_nobody_and_has_no_servers
08 g: the_model_asks_for_a_subagent_and_stops_it
08 h: a_host_stops_a_subagent the_model_asks_for_a_subagent_and_stops_it
08 i: the_usage_of_a_subagent_counts_to_the_run
08 j: a_host_follows_a_subagent_and_is_asked_by_it hooks_of_a_definition_hold_for_it_alone
08 k: an_eleventh_is_refused
08 l: a_failed_subagent_is_an_error_result_and_can_be_resumed
08 m: a_definition_brings_skills_and_a_memory
08 n: a_subagent_keeps_its_words_when_the_conversation_is_summed_up
08 o: definitions_come_from_all_layers
08 p: a_variable_keeps_them_in_the_foreground
08b: all_fields_of_a_definition_are_parsed definitions_come_from_all_layers a_later_definition_replaces_an_earlier_one

09 a: a_summary_is_made_past_80_percent
09 b: the_tail_takes_about_two_fifths_of_the_window
09 c: a_summary_is_made_past_80_percent hosts_are_told_of_a_summary
09 d: hooks_are_called_before_and_after_a_summary hosts_are_told_of_a_summary
09 e: tokens_of_text_are_estimated_within_a_fifth
09 f: a_beta_widens_the_window_of_sonnet_models_alone
09 g: the_view_is_the_summary_and_an_unchanged_tail
09 h: summaries_follow_each_other
09 i: another_model_may_summarise
09 j: a_failed_summary_falls_back_to_leaving_out

11 a: sessions_are_listed_named_and_removed a_session_is_found_by_name_uuid_and_prefix_of_its_id
11 b: a_folder_goes_on_with_a_session_of_its_own
11 c: a_session_goes_on_behind_the_message_that_a_host_names
11 d: a_copy_has_all_messages_and_is_independent the_conversation_stands_where_the_sdks_look_for_it
11 e: the_conversation_stands_where_the_sdks_look_for_it
11 f: undo_and_redo_restore_each_tree
11 g: a_host_rewinds_to_a_prompt
11 h: of_many_that_begin_at_once_one_works_and_no_prompt_is_lost a_replaced_writer_cannot_write
11 i: without_persistence_no_file_is_written
11 j: the_conversation_stands_where_the_sdks_look_for_it
11 k: a_session_of_more_than_a_thousand_messages_goes_on

A1: a_subagent_has_its_own_prompt_and_tools_and_reports a_host_follows_a_subagent_and_is_asked_by_it
A2: a_kill_in_a_subagent_leaves_what_it_has_done
L18: the_second_model_answers_if_the_first_cannot
M4: denials_are_listed_in_the_result
R1: a_query_is_a_stream_of_messages a_model_and_a_store_of_ones_own
R5: an_invalid_answer_is_retried_and_then_an_error
S6: the_conversation_stands_where_the_sdks_look_for_it
S7: what_tools_changed_is_taken_back_and_brought_forth
";

/// All required checks.
fn wanted() -> BTreeSet<String> {
    let boxes = (1..=13).map(|number| format!("box {number:02}"));
    let letters = [
        ("03", 'a'..='m'),
        ("08", 'a'..='p'),
        ("09", 'a'..='j'),
        ("11", 'a'..='k'),
    ];
    let letters = letters
        .into_iter()
        .flat_map(|(part, letters)| letters.map(move |letter| format!("{part} {letter}")));
    let rows = ["08b", "A1", "A2", "L18", "M4", "R1", "R5", "S6", "S7"];
    boxes
        .chain(letters)
        .chain(rows.map(str::to_owned))
        .collect()
}

/// Appends all sources below `folder` except this file.
fn read_sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            read_sources(&path, text);
        } else if name.ends_with(".rs") && name != "checks.rs" {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_check_has_a_test_that_is_there() {
    let mut sources = String::new();
    read_sources(root(), &mut sources);
    let mut shown = BTreeSet::new();
    for line in CHECKS.lines().filter(|line| !line.is_empty()) {
        let (check, tests) = line.split_once(": ").unwrap();
        for test in tests.split(' ') {
            assert!(sources.contains(&format!("fn {test}(")), "{check}: {test}");
        }
        shown.insert(check.to_owned());
    }
    assert_eq!(shown, wanted());
}
