//! What the simulation has found, as short as it was printed. Each was mended in the product.

use ah_sim::{Act, Around, DiskEvent, Injection, Plan, Playable as _, Process};

use crate::quiet;

/// Plays a session of these processes, in which everything has to hold.
fn holds(processes: impl IntoIterator<Item = Process>) {
    let processes = processes.into_iter().collect();
    let played = Plan { processes }.play(None);
    assert_eq!(played.fault, None, "{:#?}", played.story);
}

fn with_agents(process: Process) -> Process {
    Process {
        around: Around {
            agents: true,
            ..process.around
        },
        ..process
    }
}

/// A subagent that was out of turns had started another one in the background, of which nobody was told any more.
#[test]
fn a_subagent_ends_with_the_one_that_has_started_it() {
    let first = Process {
        seed: 0x0e02_497e_ec99_5edd,
        is_calm: true,
        around: Around {
            hooks: true,
            ..Around::default()
        },
        ..quiet()
    };
    let second = Process {
        seed: 0xbafd_4a85_c892_62c2,
        is_calm: true,
        ..quiet()
    };
    holds([first, second].map(with_agents));
}

/// A host was not told of calls of a subagent that did not run, as a hook had ended its run.
#[test]
fn a_host_is_told_of_calls_of_subagents_that_did_not_run() {
    let process = Process {
        seed: 0xe78c_c3f9_4671_7235,
        around: Around {
            host: true,
            hooks: true,
            ..Around::default()
        },
        ..quiet()
    };
    for server in (0..ah_sim::servers()).map(Some) {
        let process = process.clone();
        holds([with_agents(Process { server, ..process })]);
    }
}

/// What a subagent had spent that could not be stored did not count.
#[test]
fn what_cannot_be_stored_counts_towards_the_budget() {
    holds([with_agents(Process {
        seed: 0x10fd_0665_0de7_f33b,
        is_calm: true,
        around: Around {
            servers: true,
            tokens: Some(1_100),
            ..Around::default()
        },
        disk: Some((126, DiskEvent::Error)),
        ..quiet()
    })]);
}

/// A call that had ended was said not to have run, as the budget of the run was used up when another process took it over.
#[test]
fn a_call_that_has_ended_is_not_skipped() {
    let cut = Process {
        seed: 0x42e7_1f4e_63bb_2d9c,
        injection: Some((40, Injection::PowerCut)),
        ..quiet()
    };
    let next = Process {
        seed: 0xe396_55db_79cb_100d,
        is_calm: true,
        around: Around {
            tokens: Some(1_200),
            ..Around::default()
        },
        act: Act::TakeOver,
        ..quiet()
    };
    holds([cut, next]);
}

/// A subagent whose results could not be stored was said to have failed, and no more.
#[test]
fn what_a_subagent_has_done_that_cannot_be_stored_may_have_run() {
    let process = Process {
        seed: 0xff35_93e4_ea70_c030,
        is_calm: true,
        disk: Some((99, DiskEvent::Error)),
        ..quiet()
    };
    for server in (0..ah_sim::servers()).map(Some) {
        let process = process.clone();
        holds([with_agents(Process { server, ..process })]);
    }
}
