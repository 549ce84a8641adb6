//! Sign-ins to servers over HTTP, and the attacks on them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use ah_conversation::{Environment, ServerState};
use ah_mcp::{Address, CredentialPlace, SignIn, SignInPlace, SignInSettings, SignedIn};
use ah_testkit::issuer::Site;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::world::{World, show};

/// Returns a parameter of an address.
fn parameter(address: &str, name: &str) -> Option<String> {
    let address = Url::parse(address).unwrap();
    let mut all = address.query_pairs();
    all.find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

/// Returns `text` as a part of a query.
fn encoded(text: &str) -> String {
    let mut url = Url::parse("http://x").unwrap();
    url.query_pairs_mut().append_key_only(text);
    url.query().unwrap().to_owned()
}

/// A server and its issuer, which are one site, and a file for credentials.
struct Case {
    site: Site,
    folder: TempDir,
    settings: SignInSettings,
}

impl Case {
    fn new() -> Self {
        Self {
            site: Site::start(),
            folder: tempfile::tempdir().unwrap(),
            settings: SignInSettings::default(),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ah/credentials.json")
    }

    /// Gives the user a key store: a program in the place of `secret-tool`.
    fn with_key_store(self, program: &str) -> Self {
        let tool = self.folder.path().join("bin/secret-tool");
        std::fs::create_dir(tool.parent().unwrap()).unwrap();
        std::fs::write(&tool, program).unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn kept(&self) -> CredentialPlace {
        let folder = self.folder.path();
        let path = format!("{}:/usr/bin:/bin", folder.join("bin").display());
        let secrets = folder.join("secrets").display().to_string();
        let bus = "unix:path=/nowhere".to_owned();
        let variables = [
            ("PATH", path),
            ("SECRETS", secrets),
            ("DBUS_SESSION_BUS_ADDRESS", bus),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        CredentialPlace::of(self.file(), &Environment::new(variables, folder.to_owned()))
    }

    fn place(&self) -> SignInPlace {
        SignInPlace {
            address: Address {
                url: self.site.url("/mcp"),
                sign_in: self.settings.clone(),
                ..Address::default()
            },
            kept: self.kept(),
            http: ah_http::Options::default(),
        }
    }

    async fn begin(&self) -> Result<SignIn, String> {
        self.place().begin(&[]).await
    }

    /// Signs in as a browser does whose user agrees.
    async fn sign_in(&self) -> SignedIn {
        let sign_in = self.begin().await.unwrap();
        let end = self.end(&sign_in, &self.site.url(""));
        sign_in.finish(&end).await.unwrap()
    }

    /// Returns the address at which the browser ends, named by `issuer`.
    fn end(&self, sign_in: &SignIn, issuer: &str) -> String {
        let [redirect, state] =
            ["redirect_uri", "state"].map(|name| parameter(sign_in.url(), name).unwrap());
        let [state, issuer] = [&*state, issuer].map(encoded);
        format!("{redirect}?code=the-code&state={state}&iss={issuer}")
    }

    /// Starts the server with what is signed in.
    async fn connect(&self) -> World {
        let kept = self.kept();
        let servers = json!({"s": {"url": self.site.url("/mcp")}});
        let world = World::with(&servers, |options| options.credentials = Some(kept));
        world.servers.settled().await;
        world
    }

    fn stored(&self) -> Value {
        let text = std::fs::read(self.file()).unwrap();
        let mut all: Value = serde_json::from_slice(&text).unwrap();
        all[self.site.url("/mcp")].take()
    }
}

#[tokio::test]
async fn a_sign_in_goes_from_the_refusal_to_calls_with_a_token() {
    let case = Case::new();
    let world = case.connect().await;
    let status = world.status();
    assert_eq!(status.state, ServerState::NeedsAuth);
    let error = status.error.unwrap();
    assert!(error.contains("`ah mcp login s`"), "{error}");

    let sign_in = case.begin().await.unwrap();
    let asked = |name: &str| parameter(sign_in.url(), name).unwrap();
    assert_eq!(asked("scope"), "read");
    assert_eq!(asked("resource"), case.site.url("/mcp"));
    assert_eq!(asked("code_challenge_method"), "S256");
    assert_eq!(asked("client_id"), "registered");
    let known = sign_in
        .finish(&case.end(&sign_in, &case.site.url("")))
        .await;
    let known = known.unwrap();
    assert_eq!(known.issuer, Some(case.site.url("")));
    assert_eq!(known.scopes, ["read"]);
    assert_eq!(case.place().signed_in().await.unwrap(), Some(known));

    let exchange = case.site.last("/token").body;
    let exchanged = |name: &str| parameter(&format!("http://x/?{exchange}"), name);
    assert_eq!(exchanged("code").unwrap(), "the-code");
    assert_eq!(exchanged("resource").unwrap(), case.site.url("/mcp"));
    let verifier = exchanged("code_verifier").unwrap();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    assert_eq!(challenge, asked("code_challenge"));
    let mode = case.file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let world = case.connect().await;
    assert_eq!(world.status().state, ServerState::Connected);
    let output = world.call("mcp__s__look", json!({})).await;
    assert_eq!(show(&output), "seen");

    assert!(case.place().sign_out().await.unwrap().was_there);
    assert!(!case.place().sign_out().await.unwrap().was_there);
    assert_eq!(case.place().signed_in().await.unwrap(), None);
}

#[tokio::test]
async fn a_token_that_ends_is_renewed_and_the_new_ones_are_kept() {
    let case = Case::new();
    case.site.set("lasts", json!(1));
    case.sign_in().await;
    case.site.set("lasts", json!(3600));
    // It counts as ended before its last second.
    let file = std::fs::read_to_string(case.file()).unwrap();
    let received = case.stored()["receivedAt"].as_u64().unwrap();
    let early = file.replace(&received.to_string(), &(received - 2).to_string());
    std::fs::write(case.file(), early).unwrap();
    let world = case.connect().await;
    assert_eq!(world.status().state, ServerState::Connected);
    let renewal = case.site.last("/token").body;
    assert!(renewal.contains("grant_type=refresh_token"), "{renewal}");
    assert!(renewal.contains("refresh_token=refresh-1"), "{renewal}");
    assert_eq!(case.stored()["tokens"]["refresh_token"], "refresh-2");
}

#[tokio::test]
async fn a_call_that_needs_more_rights_says_so_and_the_next_sign_in_asks_for_them() {
    let case = Case::new();
    case.sign_in().await;
    let world = case.connect().await;
    let output = show(&world.call("mcp__s__change", json!({})).await);
    assert_eq!(
        output,
        "failed: the server wants a sign-in with the rights `write`; the user can sign in with `ah mcp login s`"
    );
    let known = case.place().signed_in().await.unwrap().unwrap();
    assert_eq!(
        (known.scopes, known.wanted),
        (vec!["read".to_owned()], vec!["write".to_owned()])
    );
    let sign_in = case.begin().await.unwrap();
    assert_eq!(parameter(sign_in.url(), "scope").unwrap(), "read write");
    let end = case.end(&sign_in, &case.site.url(""));
    let known = sign_in.finish(&end).await.unwrap();
    assert_eq!(
        (known.scopes.join(" "), known.wanted.len()),
        ("read write".to_owned(), 0)
    );
    // The connection that was refused has the new rights at once.
    let output = world.call("mcp__s__change", json!({})).await;
    assert_eq!(show(&output), "changed");
}

/// A name that the user has registered, and one that is a document's address.
#[tokio::test]
async fn a_known_name_needs_no_registration() {
    let document = "https://example.com/client.json".to_owned();
    for (settings, expected) in [
        (
            SignInSettings {
                client_id: Some("mine".to_owned()),
                client_secret: Some("hidden".to_owned()),
                scopes: vec!["all".to_owned()],
                ..SignInSettings::default()
            },
            ["mine", "all"],
        ),
        (
            SignInSettings {
                client_metadata_url: Some(document.clone()),
                ..SignInSettings::default()
            },
            [&*document, "read"],
        ),
    ] {
        let mut case = Case::new();
        case.settings = settings;
        let sign_in = case.begin().await.unwrap();
        let asked = ["client_id", "scope"].map(|name| parameter(sign_in.url(), name).unwrap());
        assert_eq!(asked, expected);
        let end = case.end(&sign_in, &case.site.url(""));
        sign_in.finish(&end).await.unwrap();
        assert!(case.site.seen("/register").is_empty());
        let secret = case.settings.client_secret.as_deref();
        assert_eq!(case.stored()["clientSecret"].as_str(), secret);
        let token = case.site.last("/token");
        assert_eq!(token.header("authorization").is_some(), secret.is_some());
    }
}

/// Mix-up: the browser comes back from an issuer other than the one it was sent to.
#[tokio::test]
async fn a_code_of_another_issuer_is_not_exchanged() {
    let case = Case::new();
    let sign_in = case.begin().await.unwrap();
    let right = case.end(&sign_in, &case.site.url(""));
    let (without, _) = right.split_once("&iss=").unwrap();
    for end in [
        case.end(&sign_in, "https://attacker.example"),
        without.to_owned(),
    ] {
        let error = sign_in.finish(&end).await.unwrap_err();
        assert!(error.to_lowercase().contains("issuer"), "{error}");
    }
    assert!(case.site.seen("/token").is_empty());
    // The right answer still counts.
    sign_in.finish(&right).await.unwrap();
}

#[tokio::test]
async fn an_address_of_another_sign_in_is_refused() {
    let case = Case::new();
    let sign_in = case.begin().await.unwrap();
    let end = case.end(&sign_in, &case.site.url(""));
    let state = parameter(sign_in.url(), "state").unwrap();
    let forged = end.replace(&state, "forged");
    for address in [&*forged, "the-code", ""] {
        let error = sign_in.finish(address).await.unwrap_err();
        assert!(error.contains("not the address"), "{error}");
    }
    let (head, _) = end.split_once('?').unwrap();
    let denied = format!("{head}?error=access_denied&error_description=no%1B[2J&state={state}");
    let error = sign_in.finish(&denied).await.unwrap_err();
    assert_eq!(error, "the sign-in was refused: no[2J");
    assert!(case.site.seen("/token").is_empty());
}

/// Any page may send the browser to the port; only the right state ends the wait.
#[tokio::test]
async fn visitors_without_the_state_change_nothing() {
    let case = Case::new();
    let sign_in = case.begin().await.unwrap();
    let end = case.end(&sign_in, &case.site.url(""));
    let redirect = parameter(sign_in.url(), "redirect_uri").unwrap();
    let http = reqwest::Client::new();
    let visit = async |address: &str| http.get(address).send().await.unwrap().status().as_u16();
    let visits = async {
        let other = redirect.replace("/callback", "/other");
        for address in [
            format!("{redirect}?code=x&state=y"),
            redirect.clone(),
            other,
        ] {
            assert_eq!(visit(&address).await, 404);
        }
        assert_eq!(visit(&end).await, 200);
    };
    let (returned, ()) = tokio::join!(sign_in.returned(), visits);
    assert_eq!(returned.unwrap(), end);
}

/// Swapped issuer: the server names another one after the sign-in.
#[tokio::test]
async fn tokens_do_not_follow_to_another_issuer() {
    let case = Case::new();
    case.sign_in().await;
    let other = Site::start();
    case.site.set("issuer", json!(other.url("")));
    let world = case.connect().await;
    assert_eq!(world.status().state, ServerState::NeedsAuth);
    for request in other.all() {
        assert_eq!(request.body, "", "{}", request.path);
        assert_eq!(request.header("authorization"), None);
    }
    assert_eq!(case.place().signed_in().await.unwrap(), None);
}

/// What a server or an issuer says of itself, each with the words of the refusal: a sign-in that fails for another reason
/// would prove nothing. Without the lie, the same sign-in begins.
#[tokio::test]
async fn descriptions_that_name_others_are_refused() {
    let bank = json!("https://bank.example");
    for (key, value, expected) in [
        // An issuer that describes itself as another.
        ("named", bank, "issuer mismatch"),
        // Metadata of another server's.
        ("resource", json!("https://bank.example/mcp"), "resource"),
        // What a browser must not be sent to.
        (
            "authorize",
            json!("javascript:alert(1)//"),
            "not at an https address",
        ),
        (
            "authorize",
            json!("file:///etc/passwd"),
            "not at an https address",
        ),
        (
            "authorize",
            json!("http://attacker.example/authorize"),
            "not at an https address",
        ),
        // No proof that the code is ours.
        ("challenges", json!(["plain"]), "S256"),
    ] {
        let case = Case::new();
        case.site.set(key, value.clone());
        let refusal = case.begin().await.err().unwrap_or_default();
        assert!(refusal.contains(expected), "{key} {value}: {refusal}");
        // The browser was sent nowhere and nothing was exchanged or stored.
        for path in ["/authorize", "/token"] {
            assert!(case.site.seen(path).is_empty(), "{key} {value}: {path}");
        }
        assert!(!case.file().exists(), "{key} {value}");
        case.site.set(key, Value::Null);
        case.begin().await.unwrap();
    }
}

/// A key store with a file for each secret, which it reads from its input alone.
const SECRET_TOOL: &str = r#"#!/bin/sh
for last; do :; done
file=$SECRETS/$(printf %s "$last" | tr / _)
case $1 in
store) mkdir -p "$SECRETS"; cat >"$file" ;;
lookup) cat "$file" ;;
clear) rm "$file" ;;
esac
"#;

#[tokio::test]
async fn a_sign_in_is_kept_in_the_key_store_where_there_is_one() {
    let case = Case::new().with_key_store(SECRET_TOOL);
    case.sign_in().await;
    assert!(!case.file().exists());
    let secrets = || {
        std::fs::read_dir(case.folder.path().join("secrets"))
            .unwrap()
            .count()
    };
    assert_eq!(secrets(), 1);
    let world = case.connect().await;
    assert_eq!(world.status().state, ServerState::Connected);
    // What a call wants is noted there as well.
    let output = world.call("mcp__s__change", json!({})).await;
    assert!(
        show(&output).contains("`ah mcp login s`"),
        "{}",
        show(&output)
    );
    let known = case.place().signed_in().await.unwrap().unwrap();
    assert_eq!(known.wanted, ["write"]);
    assert!(!case.file().exists());
    assert!(case.place().sign_out().await.unwrap().was_there);
    assert_eq!(secrets(), 0);
    assert_eq!(case.place().signed_in().await.unwrap(), None);

    // What was kept in the file before moves there with its first change.
    let case = Case::new();
    case.sign_in().await;
    let case = case.with_key_store(SECRET_TOOL);
    assert!(case.place().signed_in().await.unwrap().is_some());
    case.sign_in().await;
    assert_eq!(case.stored(), Value::Null);
    assert!(case.place().signed_in().await.unwrap().is_some());

    // A store that does not take it, or gives back something else, leaves the file.
    for program in [
        "#!/bin/sh\nexit 1\n",
        "#!/bin/sh\necho other\n",
        "#!/bin/sh\nkill -9 $$\n",
    ] {
        let case = Case::new().with_key_store(program);
        case.sign_in().await;
        assert_eq!(case.stored()["clientId"], "registered", "{program}");
        assert!(case.place().signed_in().await.unwrap().is_some());
        assert!(case.place().sign_out().await.unwrap().was_there);
        assert_eq!(case.stored(), Value::Null);
    }
}

/// A sign-out ends the tokens at their issuer, and nowhere else; whatever the issuer says, they are gone from here.
#[tokio::test]
async fn a_sign_out_ends_the_tokens_at_their_issuer() {
    let case = Case::new();
    case.sign_in().await;
    let ended = case.place().sign_out().await.unwrap();
    assert_eq!((ended.was_there, ended.left), (true, None));
    let told = case.site.seen("/revoke");
    let told: Vec<_> = told.iter().map(|request| &*request.body).collect();
    assert_eq!(
        told,
        [
            "token=refresh-1&token_type_hint=refresh_token&client_id=registered",
            "token=token-1&token_type_hint=access_token&client_id=registered",
        ]
    );
    let ended = case.place().sign_out().await.unwrap();
    assert_eq!((ended.was_there, ended.left), (false, None));

    let other = Site::start();
    for (key, value, expected) in [
        (
            "revocation",
            json!("http://attacker.example/revoke"),
            "names no address",
        ),
        ("revocation", json!(7), "names no address"),
        ("redirect /revoke", json!(other.url("/revoke")), "307"),
        ("issuer", json!(other.url("")), "another issuer"),
    ] {
        let case = Case::new();
        case.sign_in().await;
        case.site.set(key, value.clone());
        let ended = case.place().sign_out().await.unwrap();
        let left = ended.left.unwrap_or_default();
        assert!(left.contains(expected), "{key} {value}: {left}");
        assert_eq!(case.stored(), Value::Null);
        let posted = other.all().iter().any(|request| !request.body.is_empty());
        assert!(!posted, "{key} {value}: {:?}", other.all());
    }
}

/// Open redirects: neither a code nor a token goes where an answer points.
#[tokio::test]
async fn redirects_take_nothing_along() {
    let other = Site::start();
    let case = Case::new();
    let sign_in = case.begin().await.unwrap();
    case.site.set("redirect /token", json!(other.url("/token")));
    let end = case.end(&sign_in, &case.site.url(""));
    sign_in.finish(&end).await.unwrap_err();
    case.site.set("redirect /token", Value::Null);
    case.sign_in().await;
    case.site.set("redirect /mcp", json!(other.url("/mcp")));
    assert_ne!(case.connect().await.status().state, ServerState::Connected);
    assert!(other.all().is_empty(), "{:?}", other.all());
}

/// Pass-through: a token is for the server that it was made for.
#[tokio::test]
async fn a_token_goes_to_its_server_alone() {
    let case = Case::new();
    case.sign_in().await;
    let other = Site::start();
    let file = case.file();
    let servers = json!({"s": {"url": other.url("/mcp")}, "t": {"url": case.site.url("/other")}});
    let world = World::with(&servers, |options| {
        options.credentials = Some(CredentialPlace::file(file));
    });
    world.servers.settled().await;
    let is_mine = |path: &str| path == "/mcp" || path == "/token" || path == "/register";
    for request in other.all().iter().chain(&case.site.all()) {
        let token = request.header("authorization");
        assert!(
            token.is_none() || is_mine(&request.path),
            "{}: {token:?}",
            request.path
        );
    }
    assert!(
        other
            .all()
            .iter()
            .all(|request| request.header("authorization").is_none())
    );
}
