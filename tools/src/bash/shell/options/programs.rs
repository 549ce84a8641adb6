//! Options of programs that may write files or start programs which their options name.

use super::known::Known;

/// Returns the options of a program; `None` if it is none of these.
pub(super) fn known(program: &str) -> Option<Known> {
    Some(match program {
        "sort" => SORT,
        "uniq" => UNIQ,
        "tree" => TREE,
        "less" => LESS,
        "curl" => CURL,
        "wget" => WGET,
        "rg" => RG,
        _ => return None,
    })
}

const SORT: Known = Known {
    flags: "CMRVbcdfghimnrsuz",
    values: "STkt",
    writes: "o",
    long: &[
        "batch-size check debug dictionary-order files0-from general-numeric-sort help human-numeric-sort \
        ignore-case ignore-leading-blanks ignore-nonprinting merge month-sort numeric-sort parallel random-sort \
        random-source reverse sort stable unique version version-sort zero-terminated",
    ],
    long_values: "buffer-size field-separator key temporary-directory",
    long_writes: "output",
    long_starts: "compress-program",
    ..Known::NONE
};

const UNIQ: Known = Known {
    flags: "0123456789Dcdiuz",
    values: "fsw",
    long: &["all-repeated count group help ignore-case repeated unique version zero-terminated"],
    long_values: "check-chars skip-chars skip-fields",
    ..Known::NONE
};

/// Values of short options are in the next words, even if more letters follow, so these letters count as flags.
const TREE: Known = Known {
    flags: "0123456789ACDFHILJNPQSTUXacdfghilnpqrstuvx",
    writes: "o",
    long: &[
        "authority charset compress device dirsfirst du filelimit fflinks filesfirst fromfile fromtabfile \
        gitfile gitignore help hintro houtro hyperlink ignore-case info infofile inodes matchdirs metafirst \
        noreport nolinks opt-toggle prune scheme si sort timefmt version",
    ],
    ..Known::NONE
};

/// Numbers end in the middle of a group, so the letters that take one count as flags.
const LESS: Known = Known {
    flags: "0123456789,.?ABCEFGIJKLMNQRSUVWXabcdefghijmnqrsuwxyz~",
    guarded: "DPp",
    writes: "Oo",
    long: &[
        "CLEAR-SCREEN HILITE-SEARCH HILITE-UNREAD IGNORE-CASE LINE-NUMBERS LONG-PROMPT QUIET-IF-ONE-SCREEN \
        QUIT-AT-EOF RAW-CONTROL-CHARS SILENT UNDERLINE-SPECIAL auto-buffers buffers chop-long-lines clear-screen \
        dumb file-size follow-name force header help hilite-search hilite-unread ignore-case incsearch \
        intr jump-target line-num-width line-numbers long-prompt max-back-scroll max-forw-scroll mouse \
        no-init quiet quit-at-eof quit-if-one-screen quit-on-intr raw-control-chars redraw-on-quit rscroll \
        search-skip-screen shift silent squeeze-blank-lines status-col-width status-column status-line tabs tilde \
        underline-special use-backslash use-color version wheel-lines window wordwrap",
    ],
    long_guarded: "color pattern prompt",
    long_writes: "log-file LOG-FILE",
    ..Known::NONE
};

const CURL: Known = Known {
    flags: "#:012346BGILMNORSVZafghijklnpqsv",
    values: "ACEFHPQTUXYbdemrtuxyz",
    guarded: "w",
    writes: "Dco",
    long: &[
        "anyauth append basic cert-status compressed compressed-ssh create-dirs crlf digest disable disable-eprt \
        disable-epsv disallow-username-in-url doh-cert-status doh-insecure fail fail-early fail-with-body \
        false-start form-escape ftp-create-dirs ftp-pasv ftp-pret ftp-skip-pasv-ip ftp-ssl-ccc ftp-ssl-control get \
        globoff haproxy-protocol head help http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 http3-only \
        ignore-content-length include insecure ipv4 ipv6 junk-session-cookies list-only location location-trusted \
        mail-rcpt-allowfails manual negotiate netrc netrc-optional next ntlm parallel parallel-immediate \
        path-as-is post301 post302 post303 progress-bar proxy-anyauth proxy-basic proxy-digest proxy-insecure \
        proxy-negotiate proxy-ntlm proxy-ssl-allow-beast proxy-tlsv1 proxytunnel raw remote-name remote-name-all \
        remote-time remove-on-error retry-all-errors retry-connrefused sasl-ir show-error show-headers silent socks5-basic \
        socks5-gssapi ssl ssl-allow-beast ssl-no-revoke ssl-reqd ssl-revoke-best-effort sslv2 sslv3 \
        styled-output suppress-connect-headers tcp-fastopen tcp-nodelay tftp-no-options tlsv1 tlsv1.0 tlsv1.1 \
        tlsv1.2 tlsv1.3 tr-encoding trace-ids trace-time use-ascii verbose version xattr",
    ],
    long_values: "\
        aws-sigv4 cacert capath cert cert-type ciphers connect-timeout connect-to continue-at cookie \
        create-file-mode crlfile curves data data-ascii data-binary data-raw data-urlencode delegation \
        dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers doh-url etag-compare expect100-timeout form \
        form-string ftp-account ftp-method ftp-port happy-eyeballs-timeout-ms header hostpubmd5 hostpubsha256 \
        interface json keepalive-time key key-type limit-rate local-port login-options mail-auth mail-from \
        mail-rcpt max-filesize max-redirs max-time netrc-file noproxy oauth2-bearer parallel-max pass \
        pinnedpubkey preproxy proto proto-default proto-redir proxy proxy-cacert proxy-cert proxy-header proxy-key \
        proxy-pass proxy-user proxy1.0 pubkey quote range rate referer request request-target resolve retry \
        retry-delay retry-max-time service-name socks4 socks4a socks5 socks5-hostname speed-limit speed-time \
        telnet-option tftp-blksize time-cond tls-max tls13-ciphers upload-file url url-query user user-agent",
    long_guarded: "write-out",
    long_writes: "alt-svc cookie-jar dump-header etag-save hsts libcurl output stderr trace trace-ascii",
    ..Known::NONE
};

const WGET: Known = Known {
    flags: "46EFHKLNSVbcdhkmpqrvx",
    values: "ABDIQRTUXilntw",
    writes: "Oao",
    long: &[
        "accept accept-regex adjust-extension ask-password auth-no-challenge background backup-converted base \
        bind-address body-data body-file ca-certificate ca-directory certificate certificate-type ciphers \
        compression connect-timeout content-on-error continue convert-file-only convert-links crl-file cut-dirs \
        debug delete-after dns-timeout domains exclude-directories exclude-domains follow-ftp follow-tags \
        force-directories force-html ftp-password ftp-user ftps-clear-data-connection ftps-fallback-to-ftp \
        ftps-implicit ftps-resume-ssl header help http-password http-user https-only ignore-case ignore-length \
        ignore-tags include-directories inet4-only inet6-only input-file keep-session-cookies level limit-rate \
        load-cookies local-encoding max-redirect method mirror page-requisites password pinnedpubkey post-data \
        post-file prefer-family preserve-permissions private-key private-key-type progress protocol-directories \
        proxy-password proxy-user quiet quota random-wait read-timeout recursive referer regex-type reject \
        reject-regex relative remote-encoding report-speed restrict-file-names retr-symlinks retry-connrefused \
        retry-on-http-error save-headers secure-protocol server-response show-progress span-hosts spider start-pos \
        strict-comments timeout timestamping tries unlink user user-agent verbose version wait waitretry xattr",
    ],
    long_values: "header user-agent",
    long_writes: "append-output hsts-file output-document output-file rejected-log save-cookies",
    long_starts: "use-askpass",
    ..Known::NONE
};

const RG: Known = Known {
    flags: ".0FHILNPSUVabchilnopqsuvwxz",
    values: "ABCEMTdefgjmrt",
    long: &[
        "after-context auto-hybrid-regex before-context binary block-buffered byte-offset case-sensitive color \
        colors column context context-separator count count-matches crlf debug dfa-size-limit encoding engine \
        field-context-separator field-match-separator files files-with-matches files-without-match fixed-strings \
        follow generate glob glob-case-insensitive heading help hidden hyperlink-format iglob ignore ignore-case \
        ignore-dot ignore-exclude ignore-file ignore-file-case-insensitive ignore-files ignore-global \
        ignore-messages ignore-parent ignore-vcs include-zero invert-match json line-buffered line-number \
        line-regexp max-columns max-columns-preview max-count max-depth max-filesize messages mmap multiline \
        multiline-dotall null null-data one-file-system only-matching passthru path-separator pcre2 \
        pcre2-unicode pcre2-version pre-glob pretty quiet regex-size-limit require-git search-zip \
        smart-case sort sort-files sortr stats stop-on-nonmatch text threads trace trim type type-add type-clear \
        type-list type-not unicode unrestricted version vimgrep with-filename word-regexp",
    ],
    long_values: "file regexp replace",
    long_starts: "hostname-bin pre",
    ..Known::NONE
};

/// Tests and actions of `find` without a value.
pub(super) const FIND_FLAGS: &str = "\
    - -- -E -H -L -P -X -a -and -d -daystart -delete -depth -empty -executable -false -follow -help \
    -ignore_readdir_race -ls -mount -nogroup -noignore_readdir_race -noleaf -not -nouser -nowarn -o -or -print \
    -print0 -prune -quit -readable -s -true -version -warn -writable -x -xdev --help --version";
/// Tests and actions of `find` with a value in the next word.
pub(super) const FIND_VALUES: &str = "\
    -D -amin -anewer -atime -cmin -cnewer -context -ctime -files0-from -fstype -gid -group -ilname -iname -inum -ipath \
    -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex \
    -regextype -samefile -size -type -uid -used -user -wholename -xtype";
/// Actions of `find` with a file to write in the next word.
pub(super) const FIND_WRITES: &str = "-fls -fprint -fprint0 -fprintf";
