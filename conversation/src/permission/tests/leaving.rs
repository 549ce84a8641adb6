//! Calls that may act outside the sandbox.

use proptest::prelude::*;

use super::*;

/// Whether a call may reach what no sandbox limits.
fn may_leave(access: &Access) -> bool {
    match access {
        Access::Host(_) | Access::Promised | Access::Unknown => true,
        Access::Read(_)
        | Access::Write(_)
        | Access::Named(_)
        | Access::Command(_)
        | Access::Ask(_)
        | Access::Confined { .. } => false,
    }
}

proptest! {
    /// Nothing but a rule, or a mode that asks about nothing, lets a call leave the sandbox unasked.
    #[test]
    fn calls_that_leave_the_sandbox_are_asked_about(
        mode in prop::sample::select(PermissionMode::ALL.to_vec()),
        confined in any::<bool>(),
        has_rule in any::<bool>(),
        kinds in prop::collection::vec(0_usize..9, 1..4),
        name in prop::sample::select(vec!["mcp__s__t", "mcp_read", "web_search", "web_fetch", "tool"]),
    ) {
        let all = [
            Access::Read("/w/p/a".into()),
            Access::Write("/w/p/a".into()),
            Access::Named("/w/p/a".into()),
            line(&["make"]).remove(0),
            Access::Host("example.com".into()),
            Access::Promised,
            Access::Unknown,
            Access::Confined { promised: true },
            Access::Confined { promised: false },
        ];
        let accesses: Vec<Access> = kinds.iter().map(|at| all[*at].clone()).collect();
        let permissions = Permissions {
            confined,
            allow: if has_rule { rules(&[name]) } else { Vec::new() },
            ..permissions(mode)
        };
        let decision = permissions.decide(&call(name), &accesses);
        let leaves = accesses.iter().any(may_leave);
        if leaves && !has_rule && mode != PermissionMode::BypassPermissions {
            prop_assert_ne!(&decision, &Decision::Allow, "{:?} in {:?}", accesses, mode);
        }
        if mode == PermissionMode::Sandboxed {
            match confined {
                true if !leaves => prop_assert_eq!(&decision, &Decision::Allow, "{:?}", accesses),
                true => {}
                // Without a sandbox it is the usual mode.
                false => {
                    let mode = PermissionMode::Default;
                    let usual = Permissions { mode, ..permissions };
                    prop_assert_eq!(decision, usual.decide(&call(name), &accesses));
                }
            }
        }
    }
}
