//! Files that `curl` and `wget` write without an option that names them.

use super::super::places::{file_of_address, is_address_pattern};
use super::super::word::Word;
use super::Options;

/// Long options of `wget` that surely have no value.
const FLAGS: [&str; 7] = [
    "--continue",
    "--debug",
    "--quiet",
    "--server-response",
    "--spider",
    "--timestamping",
    "--verbose",
];

impl Options {
    fn has_any(&self, names: &[&str]) -> bool {
        self.seen.iter().any(|seen| names.contains(&seen.as_str()))
    }

    /// Judges the addresses of `curl`: to one of a file, it can upload.
    pub(super) fn read_uploads(&mut self, words: &[Word], names_files: bool) {
        let last = words.len() - 1;
        if names_files && self.has_any(&["url"]) {
            self.refuse(last);
        }
        if !self.has_any(&["T", "upload-file"]) {
            return;
        }
        if self.has_any(&["proto-default"]) {
            self.refuse(last);
        }
        for (at, word) in words.iter().enumerate().skip(1) {
            let Some(text) = word.text.as_deref() else {
                let start = word.raw.trim_start_matches(['"', '\'']);
                let is_web = start.starts_with("http://") || start.starts_with("https://");
                let may_be_address = self.operands.contains(&at) || self.has_any(&["url"]);
                if may_be_address && !is_web {
                    self.refuse(at);
                }
                continue;
            };
            if is_address_pattern(text) {
                self.refuse(at);
            }
            self.written.extend(file_of_address(text));
        }
    }

    /// Judges the addresses of `wget`, which end with the names of the files that it writes.
    pub(super) fn read_downloads(&mut self, words: &[Word]) {
        // An option may be the value of another one.
        let is_value = |pair: &[Word]| {
            let is_apart = pair[0].raw.starts_with("--") && !pair[0].raw.contains('=');
            let is_flag = FLAGS.contains(&&*pair[0].raw);
            is_apart && !is_flag && !pair[0].raw.starts_with("--no-") && pair[1].may_begin_option
        };
        let is_known = !words.windows(2).any(is_value);
        if is_known && self.has_any(&["O", "output-document"]) {
            return;
        }
        let last = words.len() - 1;
        let many = [
            "force-directories",
            "i",
            "input-file",
            "m",
            "mirror",
            "p",
            "page-requisites",
            "r",
            "recursive",
            "x",
        ];
        if self.has_any(&many) {
            self.refuse(last);
        }
        if self.has_any(&["b", "background"]) {
            self.written.push("wget-log".to_owned());
        }
        let is_spider = |word: &Word| word.text.as_deref() == Some("--spider");
        let is_other = |word: &Word| word.raw.contains("spider=") || word.raw.contains("no-spider");
        if is_known && words.iter().any(is_spider) && !words.iter().any(is_other) {
            return;
        }
        for at in self.operands.clone() {
            match words[at].text.as_deref().and_then(name_of_download) {
                Some(name) => self.written.push(name),
                None => self.refuse(at),
            }
        }
    }
}

/// Returns the name of the file that `wget` makes of an address; `None` if it is not known.
fn name_of_download(address: &str) -> Option<String> {
    let address = address.split('#').next()?;
    let (scheme, behind) = address.split_once("://").unwrap_or(("http", address));
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return None;
    }
    let (path, query) = match behind.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (behind, None),
    };
    let (_, path) = path.split_once('/').unwrap_or_default();
    let name = match path.rsplit('/').next() {
        None | Some("") => "index.html",
        Some(name) => name,
    };
    if matches!(name, "." | "..") || address.contains(['%', '\\']) {
        return None;
    }
    Some(match query {
        Some(query) => format!("{name}?{}", query.replace('/', "%2F")),
        None => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_end_with_names_of_files() {
        for (address, name) in [
            ("http://h", Some("index.html")),
            ("http://h/", Some("index.html")),
            ("http://h/a/", Some("index.html")),
            ("http://h/a", Some("a")),
            ("h/a/.envrc", Some(".envrc")),
            ("HTTPS://h/a/.envrc#x", Some(".envrc")),
            ("http://h/a?b/c", Some("a?b%2Fc")),
            ("http://h?x/.envrc", Some("index.html?x%2F.envrc")),
            ("http://h/%2eenvrc", None),
            ("http://h/..", None),
            ("ftp://h/*", None),
        ] {
            assert_eq!(name_of_download(address).as_deref(), name, "{address}");
        }
    }
}
