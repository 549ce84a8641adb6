//! A word of a command line.

/// Variables whose value a program runs: as a command line, or as a prompt in which the shell replaces commands.
const RUN: [&str; 49] = [
    "AWS_PAGER",
    "BAT_PAGER",
    "BORG_RSH",
    "BROWSER",
    "CVSEDITOR",
    "CVS_RSH",
    "DELTA_PAGER",
    "EDITOR",
    "FCEDIT",
    "FZF_DEFAULT_COMMAND",
    "GH_BROWSER",
    "GH_EDITOR",
    "GH_PAGER",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "HGEDITOR",
    "HGMERGE",
    "KUBE_EDITOR",
    "LESSCLOSE",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PSQL_EDITOR",
    "PSQL_PAGER",
    "RSYNC_CONNECT_PROG",
    "RSYNC_RSH",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "SELECTED_EDITOR",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "SVN_EDITOR",
    "SVN_SSH",
    "SYSTEMD_EDITOR",
    "SYSTEMD_PAGER",
    "VISUAL",
    "WGET_ASKPASS",
];

/// Variables by which programs take settings, options, libraries or scripts that may start any program. A last `*`
/// stands for any ending.
const STEERING: [&str; 58] = [
    "ACKRC",
    "BASHOPTS",
    "BASH_ALIASES",
    "BASH_CMDS",
    "BASH_ENV",
    "BASH_FUNC_*",
    "CURL_HOME",
    "DYLD_*",
    "ENV",
    "FPATH",
    "FZF_DEFAULT_OPTS*",
    "GCONV_PATH",
    "GIT_ALLOW_PROTOCOL",
    "GIT_CONFIG*",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_TRACE*",
    "GNUMAKEFLAGS",
    "GOFLAGS",
    "GRADLE_OPTS",
    "HGRCPATH",
    "INPUTRC",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LD_*",
    "LESS",
    "LESSKEY*",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANOPT",
    "MAVEN_OPTS",
    "MFLAGS",
    "NODE_OPTIONS",
    "NPM_CONFIG_EDITOR",
    "NPM_CONFIG_GIT",
    "NPM_CONFIG_NODE_OPTIONS",
    "NPM_CONFIG_SCRIPT_SHELL",
    "NPM_CONFIG_SHELL",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PERL5DB",
    "PERL5OPT",
    "PERL5SHELL",
    "PYTHONBREAKPOINT",
    "PYTHONSTARTUP",
    "RIPGREP_CONFIG_PATH",
    "RUBYOPT",
    "RUSTFLAGS",
    "SHELL",
    "SHELLOPTS",
    "SYSTEM_WGETRC",
    "TAR_OPTIONS",
    "WGETRC",
    "ZDOTDIR",
    "ZIPOPT",
    "_JAVA_OPTIONS",
];

/// Variables that bash keeps as numbers, so that it evaluates what they are set to: `RANDOM='a[$(rm x)]'` runs `rm`.
pub(super) const NUMBERS: [&str; 4] = ["HISTCMD", "OPTIND", "RANDOM", "SRANDOM"];

/// Words that are harmless in the value of such a variable. A last `*` stands for any ending.
const HARMLESS_VALUES: [(&str, &[&str]); 15] = [
    (
        "ENV",
        &[
            "ci",
            "dev",
            "development",
            "local",
            "prod",
            "production",
            "staging",
            "test",
            "testing",
        ],
    ),
    (
        "GIT_ALLOW_PROTOCOL",
        &["file", "git", "http", "https", "ssh"],
    ),
    ("GIT_CONFIG_GLOBAL", &["/dev/null"]),
    ("GIT_CONFIG_NOSYSTEM", &["0", "1", "false", "true"]),
    ("GIT_CONFIG_SYSTEM", &["/dev/null"]),
    ("GIT_TRACE*", &["0", "1", "2", "false", "true"]),
    (
        "GOFLAGS",
        &[
            "-buildvcs=*",
            "-count=*",
            "-mod=*",
            "-p=*",
            "-race",
            "-short",
            "-tags=*",
            "-trimpath",
            "-v",
        ],
    ),
    ("GRADLE_OPTS", JAVA),
    ("JAVA_OPTS", JAVA),
    ("JAVA_TOOL_OPTIONS", JAVA),
    (
        "LESS",
        &["-F", "-FRSX", "-FRX", "-R", "-S", "-X", "FRSX", "FRX", "R"],
    ),
    (
        "MAKEFLAGS",
        &["--no-print-directory", "--silent", "-j*", "-k", "-s"],
    ),
    ("MAVEN_OPTS", JAVA),
    (
        "NODE_OPTIONS",
        &[
            "--dns-result-order=*",
            "--enable-source-maps",
            "--experimental-vm-modules",
            "--max-old-space-size=*",
            "--max_old_space_size=*",
            "--no-deprecation",
            "--no-warnings",
            "--openssl-legacy-provider",
            "--stack-size=*",
            "--trace-deprecation",
            "--trace-warnings",
            "--unhandled-rejections=*",
        ],
    ),
    (
        "RUSTFLAGS",
        &["-A*", "-D*", "-W*", "-Ctarget-cpu=*", "warnings"],
    ),
];
const JAVA: &[&str] = &["-D*", "-Xms*", "-Xmx*", "-Xss*"];

/// Characters at which a line may have the shell split the values of variables into words, or that are an end for `find`.
pub(super) const SEPARATORS: [char; 9] = [' ', '\t', '\n', ',', ':', ';', '|', '#', '+'];

/// Whether the shell, or the line, gives the variable a value that may become an option, or end one word and begin
/// another.
pub(super) fn is_of_line(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "IFS", "MAPFILE", "OPTARG", "PS1", "PS2", "PS3", "PS4", "REPLY", "_",
    ];
    NAMES.contains(&name) || name.starts_with("BASH_")
}

/// A word.
#[derive(Debug, Clone)]
pub(super) struct Word {
    /// Source text, quotes included.
    pub raw: String,
    /// Text that the program receives; `None` if it is known only at run time.
    pub text: Option<String>,
    /// Constructs that the word is written with.
    pub spelling: Spelling,
    /// How far the line itself decides what the expansions in the word stand for.
    pub influence: Influence,
    /// Whether it, or a word that braces make of it, may begin with a hyphen, or with an expansion that the line decides.
    pub may_begin_option: bool,
    /// Whether it, or a word that braces make of it, may begin with a wildcard.
    pub begins_wild: bool,
}

/// Constructs that a word is written with, in ascending order of how much a shell may make of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spelling {
    /// Plain characters and quotes only: one word, which means itself, except for `=program` in zsh.
    Literal,
    /// Also patterns and `~`: any number of file names, even ones that begin with `-`.
    Pattern,
    /// Also expansions, escapes or other special characters.
    Complex,
}

/// How far a line decides what an expansion stands for, so that it may become an option: by a command whose output is
/// inserted, or by a variable that the line sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Influence {
    /// Not at all.
    #[default]
    None,
    /// It decides a part of the text.
    OfText,
    /// It also decides how many words there are.
    OfWords,
}

impl Word {
    /// An unknown number of unknown arguments.
    pub fn unknown_arguments() -> Self {
        Self {
            raw: String::new(),
            text: None,
            spelling: Spelling::Pattern,
            influence: Influence::OfWords,
            may_begin_option: true,
            begins_wild: false,
        }
    }

    /// Whether it has no quotes or escapes, so that it may be a keyword.
    pub fn is_bare(&self) -> bool {
        self.text.as_deref() == Some(self.raw.as_str())
    }

    /// Whether it sets a variable to a descriptor if a redirection follows at once.
    pub fn names_descriptor(&self) -> bool {
        self.raw.len() > 2 && self.raw.starts_with('{') && self.raw.ends_with('}')
    }

    /// Whether it sets a variable if it precedes the program.
    pub fn is_assignment(&self) -> bool {
        self.variable().is_some()
    }

    /// Returns the name of the variable that it sets.
    pub fn variable(&self) -> Option<&str> {
        let (name, _) = self.raw.split_once('=')?;
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        is_name(name).then_some(name)
    }

    /// Returns the assignment that it is for a builtin that declares variables, which ignores quotes around it.
    pub fn declared(&self) -> Option<Self> {
        if self.is_assignment() {
            return Some(self.clone());
        }
        let unquoted = Self {
            raw: self.text.clone()?,
            ..self.clone()
        };
        unquoted.is_assignment().then_some(unquoted)
    }

    /// Whether it sets an element of an array whose place is computed: bash evaluates that as an expression.
    pub fn computes_place(&self) -> bool {
        let name = self.raw.split('=').next().unwrap_or_default();
        let place = name.split_once('[').map(|(_, place)| place);
        let is_number = |place: &str| {
            let digits = place.trim_end_matches('+').strip_suffix(']');
            digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.is_assignment() && place.is_some_and(|place| !is_number(place))
    }

    /// Whether the value that it sets may be a list in brackets: `declare` takes it for one if the variable is an array.
    pub fn may_set_list(&self) -> bool {
        let value = self.raw.split_once('=').map_or("", |(_, value)| value);
        let is_open = value
            .trim_start_matches(['"', '\''])
            .starts_with(['(', '$', '`', '{', '\\']);
        is_open || self.text.as_deref().is_some_and(|text| text.contains("=("))
    }

    /// Whether its text, or a part that is known, holds what an expression would run: a subscript with a command.
    pub fn holds_expression(&self) -> bool {
        let holds = |text: &str| text.contains('[') && text.contains(['$', '`']);
        holds(&self.raw) || self.text.as_deref().is_some_and(holds)
    }

    /// Whether the word, which is known only at run time, may become an option.
    pub fn may_become_option(&self) -> bool {
        // An expansion without quotes may become several words.
        self.may_begin_option || self.influence == Influence::OfWords
    }

    /// Whether the line may turn it into several words, one of which is an option.
    pub fn may_be_several(&self) -> bool {
        self.influence == Influence::OfWords
    }

    /// Whether it may be no argument at all, as nothing is left of an expansion, or any number of them by braces.
    pub fn may_be_nothing(&self) -> bool {
        let quoted = { self.raw.strip_prefix('"') }.and_then(|raw| raw.strip_suffix('"'));
        let is_one = quoted.is_some_and(|raw| !raw.contains('"') && !raw.contains("$@"));
        self.text.is_none() && self.raw.contains(['$', '`', '{']) && !is_one
    }

    /// Whether the line may turn it into what ends the words of another program: `;` or `+`.
    pub fn may_become_end(&self) -> bool {
        let has_brace = self.raw.replace("${", "").contains('{');
        self.text.is_none() && (self.influence != Influence::None || has_brace || self.begins_wild)
    }

    /// Returns the name of the variable that it sets to a value which may become an option.
    pub fn sets_option(&self) -> Option<&str> {
        let name = self.variable()?;
        let value = self.text.as_deref().and_then(|text| text.split_once('='));
        let is_risky = match value {
            // What follows the variable in a word may become a word of its own.
            Some((_, value)) => may_be_option(value) || value.ends_with(SEPARATORS),
            None => {
                let end = self.raw.trim_end_matches(['"', '\'']);
                self.influence != Influence::None || end.ends_with(SEPARATORS)
            }
        };
        (is_risky || self.raw.contains("+=")).then_some(name)
    }

    /// Whether it sets a variable by which programs take what may start any other.
    pub fn steers_programs(&self) -> bool {
        let Some(name) = self.variable() else {
            return false;
        };
        if self.computes_place() {
            return true;
        }
        let value = self.text.as_deref().and_then(|text| text.split_once('='));
        if name == "IFS" {
            return !value.is_some_and(|(_, value)| value.trim_matches(SEPARATORS).is_empty());
        }
        if NUMBERS.contains(&name) {
            let is_number = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
            return !value.is_some_and(|(_, value)| is_number(value));
        }
        let upper = name.to_ascii_uppercase();
        // npm takes its variables in any case.
        let name = if upper.starts_with("NPM_CONFIG_") {
            upper.as_str()
        } else {
            name
        };
        if !STEERING.iter().any(|pattern| is_like(pattern, name)) {
            return false;
        }
        let mut harmless = HARMLESS_VALUES.iter();
        let harmless = harmless.find(|(pattern, _)| is_like(pattern, name));
        let (Some((_, value)), Some((_, words)), false) =
            (value, harmless, self.raw.contains("+="))
        else {
            return true;
        };
        let is_harmless = |word: &str| words.iter().any(|known| is_like(known, word));
        !value.split([' ', ':']).all(is_harmless)
    }

    /// Returns the command line that it puts into a variable whose value programs run, if it does; the line is `None`
    /// if it is known only at run time.
    pub fn assigned_line(&self) -> Option<Option<&str>> {
        self.variable().filter(|name| RUN.contains(name))?;
        let value = self.text.as_deref().and_then(|text| text.split_once('='));
        // Less takes the command behind signs that say how it reads.
        let is_sign = |c| self.variable() == Some("LESSOPEN") && matches!(c, '|' | '-');
        Some(value.map(|(_, line)| line.trim_start_matches(is_sign)))
    }
}

/// Whether the text is the name of a variable, without a subscript.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    bytes.next().is_some_and(is_first)
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a variable with this name, set to something that is known only at run time, has programs start any other.
pub(super) fn may_steer(name: &str) -> bool {
    NUMBERS.contains(&name)
        || RUN.contains(&name)
        || STEERING.iter().any(|pattern| is_like(pattern, name))
}

/// Whether a value, or a part of it that becomes a word of its own, begins like an option.
pub(super) fn may_be_option(value: &str) -> bool {
    let mut before = None;
    value.chars().any(|c| {
        let is_start = c == '-' && !before.is_some_and(char::is_alphanumeric);
        before = Some(c);
        is_start
    })
}

/// Whether a command prints no line that could become an option: `git rev-parse HEAD`, `date +%F`, `pwd`.
pub(super) fn prints_no_option(command: &str) -> bool {
    const OPTIONS: [&str; 19] = [
        "--abbrev-ref",
        "--abbrev=0",
        "--all",
        "--always",
        "--cached",
        "--dirty",
        "--exact-match",
        "--first-parent",
        "--fork-point",
        "--max-count=1",
        "--max-parents=0",
        "--quiet",
        "--short",
        "--show-current",
        "--show-toplevel",
        "--tags",
        "--verify",
        "-1",
        "-q",
    ];
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_plain = |word: &&str| {
        let is_name = |c: char| c.is_alphanumeric() || "/._~^@{}".contains(c) || c == '-';
        OPTIONS.contains(word) || (!word.starts_with('-') && word.chars().all(is_name))
    };
    match words.as_slice() {
        ["pwd"] => true,
        ["date", format] => {
            let format = format.trim_matches(['"', '\'']);
            format.starts_with("+%")
                && format
                    .chars()
                    .all(|c| c.is_alphanumeric() || "+%:_.-".contains(c))
        }
        ["git", "branch", "--show-current"] => true,
        ["git", "log", rest @ ..] => {
            const HASHES: [&str; 4] = ["--format=%H", "--format=%h", "--pretty=%H", "--pretty=%h"];
            let is_known = |word: &&str| is_plain(word) || HASHES.contains(word);
            rest.iter().any(|word| HASHES.contains(word)) && rest.iter().all(is_known)
        }
        [
            "git",
            "describe" | "merge-base" | "rev-list" | "rev-parse" | "symbolic-ref",
            rest @ ..,
        ] => rest.iter().all(is_plain),
        _ => false,
    }
}

/// Whether `text` is `pattern`, in which a last `*` stands for any ending.
fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == pattern,
    }
}
