//! What commands that only read look at.

use std::path::PathBuf;

use super::super::analyze;

#[test]
fn files_that_are_looked_at_are_named() {
    for (line, expected) in [
        ("cat a /etc/b", "a|/etc/b"),
        ("cat a*", "a*"),
        ("ls", "./**"),
        ("ls -la /etc", "/etc/**|a/**"),
        ("ls /etc/*", "/etc/*/**"),
        (
            "find / -maxdepth 1",
            "/**|1/**|axdepth/**|depth/**|xdepth/**",
        ),
        ("echo /etc", ""),
        ("printf %s /etc", ""),
        ("test -f /etc/a", ""),
        ("pwd", ""),
        ("cd /etc", "/etc/**"),
        ("cd sub && ls ..", "sub/**|sub/sub/**|../**|sub/../**"),
        ("grep -n /api src", "src"),
        ("grep -e /api src", "/api|src"),
        ("grep -x -- /etc/a /etc/b", "/etc/a|/etc/b"),
        ("grep -rn /api /etc", "/etc/**|n/**"),
        ("rg /api", "./**"),
        ("rg --files /etc", "/etc/**"),
        ("diff --from-file=/etc/a b", "/etc/a|b"),
        ("timeout 5 cat /etc/a", "/etc/a"),
        ("cat a=/etc/b", "/etc/b|a=/etc/b"),
        ("find -L src", "src/**"),
        ("ls -LR src", "R/**|src/**"),
        ("grep -rn x src", "n/**|src/**"),
    ] {
        let analysis = analyze(line, &|name: &str| PathBuf::from(name));
        let commands = analysis.line.commands.expect(line);
        let all = commands.iter().flat_map(|it| it.inner.iter().chain([it]));
        let seen: Vec<_> = all.flat_map(|it| it.files.seen.iter()).collect();
        let mut seen: Vec<_> = seen.iter().map(|path| path.display().to_string()).collect();
        seen.sort();
        seen.dedup();
        let mut wanted: Vec<_> = expected.split('|').filter(|it| !it.is_empty()).collect();
        wanted.sort_unstable();
        assert_eq!(seen, wanted, "{line}");
    }
}
