//! Circles that may stay, each with its reason.

/// A circle that may stay.
pub struct Allowed {
    /// Folder of the crate.
    pub folder: &'static str,
    /// Its files, below `src`.
    pub files: &'static [&'static str],
    /// Why it may stay.
    pub reason: &'static str,
}

/// All of them, by crate.
pub const ALLOWED: &[Allowed] = &[
    Allowed {
        folder: "agent",
        files: &[
            "agents.rs",
            "frontend.rs",
            "hooks.rs",
            "hooks/setting.rs",
            "hooks/verdict.rs",
        ],
        reason: "to be broken: `Hooks::of_agent` takes the settings of hooks, and `Answered` moves to a file of its own",
    },
    Allowed {
        folder: "agent",
        files: &[
            "background.rs",
            "controls.rs",
            "request.rs",
            "session.rs",
            "subagent.rs",
            "subagent/at_work.rs",
            "toolbox.rs",
        ],
        reason: "to be broken: `Settings` moves to a file of its own",
    },
    Allowed {
        folder: "agent",
        files: &["tool_call.rs", "tool_call/afterwards.rs"],
        reason: "a parent and its child: the steps after a call work on the call as prepared",
    },
    Allowed {
        folder: "cli",
        files: &["args/subcommands.rs", "args/work.rs"],
        reason: "to be broken: `Json` moves to a file of its own",
    },
    Allowed {
        folder: "cli",
        files: &[
            "commands.rs",
            "commands/agents.rs",
            "commands/completions.rs",
            "commands/config.rs",
            "commands/doctor.rs",
            "commands/embed.rs",
            "commands/export.rs",
            "commands/man.rs",
            "commands/mcp.rs",
            "commands/models.rs",
            "commands/prompt.rs",
            "commands/sandbox.rs",
            "commands/sessions.rs",
            "commands/tools.rs",
            "commands/tree.rs",
            "commands/tree/draw.rs",
            "commands/undo.rs",
            "commands/usage.rs",
            "commands/work.rs",
            "commands/work/bench.rs",
            "commands/work/demo.rs",
            "commands/work/init.rs",
            "commands/work/status.rs",
        ],
        reason: "to be broken: what subcommands share (`preview` and the like) moves out of their parent, which calls each of them",
    },
    Allowed {
        folder: "config",
        files: &[
            "conversation.rs",
            "layers.rs",
            "settings.rs",
            "settings/sandbox.rs",
            "web.rs",
        ],
        reason: "to be broken: the file that a setting comes from (`File`) moves to a file of its own",
    },
    Allowed {
        folder: "config",
        files: &["overlay/archive.rs", "overlay/executable.rs"],
        reason: "to be broken: `Entry` moves to a file of its own",
    },
    Allowed {
        folder: "conversation",
        files: &[
            "host.rs",
            "permission.rs",
            "permission/pattern.rs",
            "permission/rule.rs",
            "permission/update.rs",
            "task.rs",
            "tool.rs",
        ],
        reason: "to be broken: `Asking` and `Inquiry` move to a file that the port and the rules both use",
    },
    Allowed {
        folder: "engine",
        files: &[
            "assemble.rs",
            "assemble/agents.rs",
            "assemble/model.rs",
            "assemble/web.rs",
        ],
        reason: "to be broken: `Warn` moves to a file of its own; the rest is a parent and its children",
    },
    Allowed {
        folder: "provider",
        files: &["lib.rs", "route.rs"],
        reason: "to be broken: `Options` and `NamedServer` move to a file of their own",
    },
    Allowed {
        folder: "render",
        files: &["markdown.rs", "markdown/block.rs"],
        reason: "to be broken: `Kind` moves to `markdown/block.rs`",
    },
    Allowed {
        folder: "terminal",
        files: &[
            "print/question.rs",
            "print/question/choice.rs",
            "print/question/plan.rs",
        ],
        reason: "to be broken: the lines that all questions share move to a file of their own",
    },
    Allowed {
        folder: "terminal",
        files: &[
            "repl/app.rs",
            "repl/attach.rs",
            "repl/keys.rs",
            "repl/menu.rs",
            "repl/notify.rs",
            "repl/paste.rs",
            "repl/plain.rs",
            "repl/question.rs",
            "repl/slash.rs",
            "repl/status.rs",
            "repl/update.rs",
            "repl/view.rs",
        ],
        reason: "to be broken: each panel takes its own state and returns effects, which have a file of their own",
    },
    Allowed {
        folder: "tools",
        files: &[
            "bash/shell.rs",
            "bash/shell/word.rs",
            "bash/shell/wrapper.rs",
        ],
        reason: "a parent and its children: a word may hold commands, and a command holds words",
    },
    Allowed {
        folder: "tools",
        files: &["grep.rs", "grep/search.rs"],
        reason: "a parent and its child: the search takes the arguments of the tool",
    },
    Allowed {
        folder: "tools",
        files: &[
            "lua.rs",
            "lua/answer.rs",
            "lua/call.rs",
            "lua/codec.rs",
            "lua/contract.rs",
            "lua/env.rs",
            "lua/fs.rs",
            "lua/http.rs",
            "lua/json.rs",
            "lua/load.rs",
            "lua/modules.rs",
            "lua/places.rs",
            "lua/spawn.rs",
            "lua/sqlite.rs",
            "lua/state.rs",
        ],
        reason: "to be broken: the types that the modules share move to a file of their own",
    },
    Allowed {
        folder: "tools",
        files: &["pdf.rs", "pdf/page.rs"],
        reason: "to be broken: `MAX_STREAM` moves to `pdf/page.rs`",
    },
    Allowed {
        folder: "tools",
        files: &["web.rs", "web/address.rs", "web/get.rs", "web/search.rs"],
        reason: "a parent and its children: the tools of the web share one client",
    },
];
