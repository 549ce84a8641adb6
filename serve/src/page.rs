//! The page: a few files that are in the executable. They are the same for everybody and hold no secret; the token comes
//! to them in the fragment of the address, which no browser sends.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use sha2::{Digest as _, Sha256};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files: name, type, content.
const FILES: &[(&str, &str, &str)] = &[
    ("", HTML, include_str!("page/index.html")),
    ("page.css", STYLE, include_str!("page/page.css")),
    ("dom.js", SCRIPT, include_str!("page/dom.js")),
    ("highlight.js", SCRIPT, include_str!("page/highlight.js")),
    ("markdown.js", SCRIPT, include_str!("page/markdown.js")),
    ("server.js", SCRIPT, include_str!("page/server.js")),
    ("tree.js", SCRIPT, include_str!("page/tree.js")),
    ("plots.js", SCRIPT, include_str!("page/plots.js")),
    ("message.js", SCRIPT, include_str!("page/message.js")),
    ("pictures.js", SCRIPT, include_str!("page/pictures.js")),
    ("dialog.js", SCRIPT, include_str!("page/dialog.js")),
    ("composer.js", SCRIPT, include_str!("page/composer.js")),
    ("session.js", SCRIPT, include_str!("page/session.js")),
    ("main.js", SCRIPT, include_str!("page/main.js")),
];

/// What a browser does with our responses: it loads nothing from elsewhere, shows none inside another page, and runs no
/// script but the files here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The page in its folder.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// `/KEY/`.
    folder: String,
}

impl Page {
    /// In the folder with this name.
    pub(crate) fn at(key: &str) -> Self {
        Self {
            folder: format!("/{key}/"),
        }
    }

    /// Returns whether a request is for one of its files.
    pub(crate) fn has(&self, method: &Method, path: &str) -> bool {
        let is_read = [Method::GET, Method::HEAD].contains(method);
        let name = path.strip_prefix(&self.folder);
        is_read && name.is_some_and(|name| FILES.iter().any(|(known, ..)| *known == name))
    }

    /// Returns the routes to its files.
    pub(crate) fn routes(&self) -> Router {
        FILES.iter().fold(Router::new(), |router, file| {
            let path = format!("{}{}", self.folder, file.0);
            router.route(&path, get(async |headers| sent(file, &headers)))
        })
    }
}

fn sent(
    (_, kind, content): &'static (&str, &str, &str),
    headers: &HeaderMap,
) -> Response<axum::body::Body> {
    let hash = Sha256::digest(content.as_bytes());
    let tag: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let known = headers.get(IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let told = [
        (CONTENT_TYPE, (*kind).to_owned()),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (ETAG, tag),
    ];
    if is_known {
        (StatusCode::NOT_MODIFIED, told).into_response()
    } else {
        (told, *content).into_response()
    }
}

/// Adds what a browser is to know of every response.
pub(crate) async fn guarded(
    mut response: Response<axum::body::Body>,
) -> Response<axum::body::Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_files_are_there() {
        let page = Page::at("5f1c");
        for (method, path, expected) in [
            (Method::GET, "/5f1c/", true),
            (Method::HEAD, "/5f1c/main.js", true),
            (Method::POST, "/5f1c/", false),
            (Method::GET, "/5f1c", false),
            (Method::GET, "/5f1c/nothing", false),
            (Method::GET, "/5f1c/../v1/sessions", false),
            (Method::GET, "//5f1c/", false),
            (Method::GET, "/", false),
        ] {
            assert_eq!(page.has(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn files_are_found_by_the_page_and_by_each_other() {
        let names: Vec<_> = FILES.iter().map(|file| file.0).collect();
        for (name, _, content) in FILES {
            assert!(
                !content.contains("innerHTML") && !content.contains("eval("),
                "{name}"
            );
            let imports = content
                .lines()
                .filter_map(|line| line.split_once("from './"));
            for (_, rest) in imports {
                let wanted = rest.split('\'').next().unwrap();
                assert!(names.contains(&wanted), "{name}: {wanted}");
            }
        }
    }
}
