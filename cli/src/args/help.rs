//! The help texts: a short one for `-h`, and for a subcommand only what is its own.

use clap::Command;

/// What `ah -h` prints. `ah --help` has everything.
pub const SHORT: &str = "\
Runs a coding agent in this folder.

Usage: ah [OPTIONS] [PROMPT]...
       ah [OPTIONS] <COMMAND>

Examples:
  ah                              open a conversation
  ah \"why does the build fail?\"   ask, and print the answer
  ah -c \"and on Windows?\"         continue the last session
  git diff | ah -p \"review this\"  print only the answer, for scripts
  ah -d \"update the changelog\"    run in the background
  ah -w fix \"fix the login\"       work in a git worktree

Start:       login, demo, doctor, models
Sessions:    sessions, show, tree, checkout, export, import, usage
Files:       diff, undo, redo, restore, worktree
Background:  attach, steer, answer, interrupt
Extensions:  tools, agents, mcp, plugin, prompt, config, sandbox
Unattended:  work, enqueue, worker, watch, serve, acp

Options:
  -n, --new                begin a new session
  -c, --continue           continue the last session
  -r, --resume [ID]        continue another one; without ID, choose
  -m, --model MODEL        model, such as opus or openrouter/NAME
  -p, --print              print the final answer and exit
  -d, --detach             run in the background
  -w, --worktree [NAME]    work in a git worktree
      --permission-mode MODE, --no-sandbox, --max-budget-usd USD

Keys: ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, others, or `ah login`.
All options and commands: ah --help; of a command: ah COMMAND --help
";

/// Returns the command line with the options of all commands hidden, for the help of one.
pub fn of_one(command: Command) -> Command {
    let hidden = command.mut_args(|arg| match arg.get_id() == "help" {
        true => arg,
        false => arg.hide(true),
    });
    hidden.mut_subcommands(|command| command.after_help("Options of all commands: ah --help"))
}
