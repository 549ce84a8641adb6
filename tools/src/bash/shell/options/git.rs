//! Options of git: the long ones mean the same or are harmless in all subcommands, the short ones differ.
//!
//! Subcommands of other programs and aliases have the long options only.

use super::known::Known;

/// Long options that name no program and no file to write in any subcommand.
const LONG: &str = "\
    3way abbrev abbrev-commit abbrev-ref abort absolute-git-dir add add-header after after-context again \
    aggressive ahead-behind aliases all all-match allow-binary-replacement allow-empty allow-empty-message \
    allow-overlap allow-unknown-type allow-unrelated-histories also-filter-submodules alternate-refs always \
    amend ancestry-path anchored and annotate annotate-stdin append apply assume-unchanged atomic attach author \
    author-date-order auto auto-gc auto-maintenance autosquash autostash bad bare base basic-regexp batch \
    batch-all-objects batch-check batch-command before before-context binary bisect bool bool-or-int boundary branch \
    branches break break-rewrites broken buffer build-options cache cached cacheinfo candidates cc check checkout cherry \
    cherry-mark cherry-pick children chmod cleanup clear-decorations clear-resolve-undo color color-by-age \
    color-lines color-moved color-moved-ws color-words column combined-all-paths commit committer \
    committer-date-is-author-date compact-summary cone config-for-completion config-sections-for-completion \
    conflict connectivity-only contains contents context continue convert-graft-file copy count \
    cover-from-description cover-letter create create-reflog creation-factor cruft cruft-expiration cumulative \
    current dangling date date-order dd debug debug-unpack decorate decorate-refs decorate-refs-exclude \
    deduplicate deepen default default-prefix deinit delete deleted delta-islands dense depth deref dereference \
    description-file detach developer-interfaces diff-algorithm diff-filter diff-merges directory dirstat \
    dirstat-by-file dirty discard-changes disk-usage dissociate divider do-walk dry-run dst-prefix dual-color \
    edit edit-description edit-todo email empty empty-directory encoding eol error-unmatch exact-match exclude \
    exclude-existing exclude-first-parent-only exclude-from exclude-guides exclude-hidden exclude-per-directory \
    exclude-promisor-objects exclude-standard exists exit-code expand-tabs expire expire-unreachable expiry-date \
    ext-diff extended-regexp external-commands fetch ff ff-only filename-max-length files files-with-matches \
    files-without-match filter filters find-copies find-copies-harder find-object find-renames first-parent \
    fixed-strings fixup flags follow follow-symlinks follow-tags for-rewrite force force-create \
    force-if-includes force-in-body-from force-rebase force-remove force-untracked-cache force-with-lease \
    force-write-index fork-point format from fsmonitor fsmonitor-valid full full-diff full-history full-index \
    full-name full-tree function-context geometric get get-all get-regexp get-url get-urlmatch git-common-dir \
    git-dir git-path glob global good gpg-sign graft graph grep grep-reflog group guess guess-remote guides hard \
    hardlinks hash head header heading heads help histogram human-readable if-exists if-missing ignore-all-space \
    ignore-blank-lines ignore-cache-tree ignore-case ignore-cr-at-eol ignore-date ignore-errors \
    ignore-if-in-upstream ignore-matching-lines ignore-missing ignore-other-worktrees ignore-removal ignore-rev \
    ignore-revs-file ignore-skip-worktree-bits ignore-skip-worktree-entries ignore-space-at-eol \
    ignore-space-change ignore-submodules ignore-unmatch ignore-unmerged ignore-whitespace ignored \
    in-commit-order in-reply-to inaccurate-eof include include-root-refs include-untracked includes incremental \
    indent indent-heuristic independent index index-info index-version info info-only init initial-branch inline \
    int intent-to-add inter-hunk-context interactive interdiff into-name invert-grep invert-match ipv4 ipv6 \
    irreversible-delete is-ancestor is-bare-repository is-inside-git-dir is-inside-work-tree \
    is-shallow-repository ita-invisible-in-index ita-visible-in-index jobs keep keep-base keep-cr keep-empty \
    keep-index keep-largest-pack keep-non-patch keep-pack keep-redundant-commits keep-subject keep-unreachable \
    killed left-only left-right line-number line-porcelain line-prefix list literally local local-env-vars \
    local-user lock log log-size long lost-found mailmap mailmap-blob mailmap-file mainline man master match \
    max-age max-count max-cruft-size max-depth max-pack-size max-parents merge merge-base merged merges message \
    message-id min-age min-parents minimal mirror missing missing-ok mixed mode modified more move multiple \
    naked name name-objects name-only name-status negotiate-only negotiation-tip nl non-matching not notes null \
    numbered numbered-files numstat object-format object-only objects objects-edge octopus omit-empty oneline \
    only only-input only-matching only-trailers only-untracked onto or origin orphan others ours \
    output-indicator-context output-indicator-new output-indicator-old overlay overwrite-ignore \
    pack-kept-objects padding parents parse patch patch-format patch-with-raw patch-with-stat path path-format \
    pathspec-file-nul pathspec-from-file patience peel-tag perl perl-regexp pickaxe-all pickaxe-regex points-at \
    porcelain post-rewrite prefetch preserve-merges pretty progress prune prune-tags push push-option python \
    quiet quit quoted-cr range-diff raw raw-mode really-refresh reapply-cherry-picks reason rebase rebase-merges \
    rebasing recommend-shallow recount recurse recurse-submodules recurse-submodules-default recursive \
    reedit-message ref ref-format reference reference-if-able refetch reflog reflogs refmap refresh refs \
    regexp-ignore-case reject reject-shallow relative relative-date remerge-diff remote-submodules remotes \
    remove remove-empty remove-section rename-empty rename-section renames renormalize replace replace-all repo \
    rerere-autoupdate reroll-count reschedule-failed-exec reset reset-author reset-author-date resolve-undo \
    resolved resolvemsg retry reuse-message reverse revs-only rewrite rfc right-only root rotate-to scissors \
    score-debug separator server-option set-upstream set-upstream-to sha1-name shallow-exclude shallow-since \
    shallow-submodules shared shell short shortstat show-cdup show-current show-current-patch show-email \
    show-forced-updates show-function show-index-version show-linear-break show-name show-notes \
    show-notes-by-default show-number show-object-format show-origin show-prefix show-pulls show-scope \
    show-signature show-stash show-stats show-superproject-working-tree show-toplevel sign signature \
    signature-file signed signoff simplify-by-decoration simplify-merges since since-as-filter single-branch \
    single-worktree skip skip-checks skip-to skip-worktree soft sort source sparse sparse-checkout sparse-index \
    split-index sq-quote squash src-prefix stage staged stale-fix standard-notes start-number stat stat-count \
    stat-graph-width stat-name-width stat-width status stdin stdin-paths stdout strategy strategy-option strict \
    stripspace subject-prefix submodule submodule-prefix suffix summary summary-limit symbolic \
    symbolic-full-name symref system tags tcl term-bad term-good term-new term-old test-untracked-cache text \
    textconv theirs thin thread threads timestamp to topics topo-order track trailer trim-empty trivial type \
    undefined unfold unidiff-zero unified union unmerged unordered unpack-unreachable unpacked unreachable \
    unresolve unset unset-all unset-upstream unshallow until untracked untracked-cache untracked-files update \
    update-head-ok update-refs update-shallow updateref use-bitmap-index use-mailmap user-interfaces utf8 \
    verbose verify verify-signatures version walk-reflogs warn-embedded-repo where whitespace width window \
    window-memory with with-tree without word-diff word-diff-regex word-regexp worktree write-bitmap-index \
    write-commit-graph write-fetch-head ws-error-highlight zero-commit";
/// Long options whose value is in the next word, in every subcommand that has them.
const LONG_VALUES: &str = "after author before date depth grep message onto since trailer until";
/// Options before the subcommand without a value, or with one behind `=`.
const GLOBAL: &str = "\
    attr-source bare exec-path git-dir glob-pathspecs help html-path icase-pathspecs info-path list-cmds \
    literal-pathspecs man-path namespace no-advice no-lazy-fetch no-optional-locks no-pager no-replace-objects \
    noglob-pathspecs paginate version work-tree";
/// Options before the subcommand with a value in the next word. Settings in `-c` are judged elsewhere.
pub(super) const GLOBAL_VALUES: [&str; 6] = [
    "-C",
    "-c",
    "--attr-source",
    "--git-dir",
    "--namespace",
    "--work-tree",
];
/// Subcommands whose operands are programs, or that start some which are not known.
pub(super) const STARTING: [&str; 14] = [
    "bisect--helper",
    "credential-cache--daemon",
    "daemon",
    "difftool--helper",
    "filter-branch",
    "for-each-repo",
    "hook",
    "instaweb",
    "merge-index",
    "remote-ext",
    "remote-fd",
    "send-email",
    "shell",
    "web--browse",
];

/// Short options of subcommands: the subcommands, flags, those with a value, those with one that may be missing.
const SHORT: [(&[&str], &str, &str, &str); 42] = [
    (
        &[
            "log",
            "show",
            "diff",
            "whatchanged",
            "reflog",
            "rev-list",
            "diff-tree",
            "diff-index",
            "diff-files",
            "range-diff",
        ],
        "0123456789EFPRabcdgiImpqrstuvwWz",
        "GILOSln",
        "BCDMUX",
    ),
    (&["shortlog"], "acensE", "", "w"),
    (&["stash"], "0123456789aSkpquz", "", "mnU"),
    (&["grep"], "0123456789EFGHILPWachilnopqrvwz", "ABCefm", ""),
    (&["blame", "annotate"], "bcefhklnpstw", "LS", "CM"),
    (&["status"], "bsvz", "", "Mu"),
    (&["add", "stage"], "ANefinpuv", "", ""),
    (&["commit"], "aeinopqsvz", "CFcmt", "Su"),
    (&["branch"], "CDMacdfilmqrtv", "u", ""),
    (&["tag"], "adfilsv", "Fmu", "n"),
    (&["fetch"], "46Pafkmnpqtuv", "jo", ""),
    (&["pull"], "46afknpqtv", "Xjos", "Sr"),
    (&["push"], "46dfnquv", "o", ""),
    (&["clone"], "46lnqsv", "bjo", ""),
    (&["checkout"], "23dflmpqt", "Bb", ""),
    (&["switch"], "dfmqt", "Cc", ""),
    (&["restore"], "23SWmpq", "s", ""),
    (&["reset"], "Npq", "U", ""),
    (&["merge"], "enqv", "FXms", "S"),
    (&["rebase"], "fikmnpqv", "CXs", "Sr"),
    (&["cherry-pick", "revert"], "enrsx", "Xm", "S"),
    (&["rm", "mv"], "fknqrv", "", ""),
    (&["clean"], "Xdfinqx", "e", ""),
    (&["remote"], "adfnpv", "mt", ""),
    (&["config"], "elz", "", ""),
    (
        &[
            "rev-parse",
            "fsck",
            "cherry",
            "gc",
            "repack",
            "prune",
            "pack-refs",
            "describe",
            "merge-base",
            "show-ref",
        ],
        "adfhlnqsv",
        "",
        "",
    ),
    (&["init"], "q", "b", ""),
    (&["ls-files"], "cdfikmorstuvz", "Xx", ""),
    (&["ls-tree"], "dlrtz", "", ""),
    (&["ls-remote"], "bhqt", "o", ""),
    (&["archive"], "0123456789lv", "", ""),
    (
        &["format-patch"],
        "0123456789DNWabckmnpqrsuwz",
        "GIOSlv",
        "BCMUX",
    ),
    (&["am"], "3ciqksu", "Cp", "S"),
    (&["apply"], "3NRqvz", "Cp", ""),
    (&["worktree"], "dfnqvz", "Bb", ""),
    (&["submodule"], "fNnq", "bj", ""),
    (&["notes"], "fnqsv", "CFcm", ""),
    (&["cat-file", "hash-object"], "Zepswz", "", "t"),
    (
        &[
            "for-each-ref",
            "show-branch",
            "check-ignore",
            "check-attr",
            "count-objects",
            "help",
            "var",
            "update-index",
        ],
        "Haglmnpqrsvz",
        "",
        "",
    ),
    (&["symbolic-ref", "update-ref"], "dqz", "m", ""),
    (&["commit-tree"], "", "Fmp", "S"),
    (&["lfs"], "adlnsv", "IX", ""),
];

/// Returns the options before the subcommand.
pub(super) fn global() -> Known {
    Known {
        flags: "Phpv",
        long: &[GLOBAL],
        ..Known::NONE
    }
}

/// Returns the options of a subcommand.
pub(super) fn known(subcommand: &str) -> Known {
    const STARTS: &str = "exec extcmd open-files-in-pager receive-pack upload-pack";
    let short = SHORT.iter().find(|(names, ..)| names.contains(&subcommand));
    let (flags, values, optional) = match short {
        Some((_, flags, values, optional)) => (*flags, *values, *optional),
        None => ("hnqv", "", ""),
    };
    let known = Known {
        flags,
        values,
        optional,
        long: &[LONG],
        long_values: LONG_VALUES,
        long_writes: "output",
        long_starts: STARTS,
        // Messages may begin like options, and these subcommands have no option that does harm.
        has_doubtful_values: !matches!(subcommand, "commit" | "tag" | "merge" | "notes"),
        ..Known::NONE
    };
    match subcommand {
        "archive" => Known {
            writes: "o",
            long: &[
                LONG,
                "add-file add-virtual-file mtime prefix worktree-attributes",
            ],
            ..known
        },
        "format-patch" => Known {
            writes: "o",
            long_writes: "output output-directory",
            ..known
        },
        "commit" => Known {
            long: &[LONG, "file template"],
            ..known
        },
        "tag" | "merge" | "notes" => Known {
            long: &[LONG, "file"],
            ..known
        },
        "rebase" => Known {
            starts: "x",
            ..known
        },
        "clone" => Known {
            starts: "u",
            ..known
        },
        "difftool" => Known {
            flags: "dgy",
            starts: "x",
            ..known
        },
        _ => known,
    }
}
