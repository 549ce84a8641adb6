//! The way in: `ah` without a key, `ah login` and `ah logout`.

use std::os::unix::fs::PermissionsExt as _;

use ah_testkit::script::{fails, says};
use ah_testkit::server::Server;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// What a login keeps, if there is a file.
fn kept(world: &World) -> Option<String> {
    std::fs::read_to_string(world.home().join(".ah/credentials.json")).ok()
}

#[test]
fn without_a_key_a_key_is_pasted_and_the_conversation_begins() {
    let world = World::new();
    let server = Server::new([says("Hello.")]);
    let address = server.url();
    let ah = || {
        world
            .ah(["-m", "sonnet"])
            .env("ANTHROPIC_BASE_URL", address.clone())
    };
    let mut seat = Seat::take(ah());
    seat.sees("Choose a model provider");
    seat.sees("Anthropic API key");
    // What is none of the ways chooses nothing.
    seat.says("zzz");
    seat.sees("nothing matches");
    seat.types("\x15");
    seat.sees("OpenRouter");
    // Down to the token and back by the keys, and back to the list by Esc.
    seat.types("\x1b[B\r");
    seat.sees("Token (hidden):");
    seat.types("\x1b");
    seat.sees("Exit");
    seat.says("anthropic api");
    seat.sees("API key (hidden):");
    seat.says("sk-test-secret");
    seat.sees("ANTHROPIC_API_KEY saved to");
    seat.sees("lists commands and keys");
    assert!(!seat.scrollback().contains("sk-test-secret"));
    seat.says("Hi");
    seat.sees("Hello.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert!(kept(&world).unwrap().contains("sk-test-secret"));
    let path = world.home().join(".ah/credentials.json");
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let requests = server.requests();
    let keys = requests.iter().map(|request| &request.headers["x-api-key"]);
    assert!(
        keys.clone().all(|key| key == "sk-test-secret"),
        "{requests:?}"
    );
    world.ah(["logout"]).run().expect(0);
    assert_eq!(kept(&world), None);
}

#[test]
fn a_server_is_named_by_its_address_and_its_model_is_remembered() {
    let world = World::new();
    let list = r#"{"data": [{"model_name": "team-smart", "model_info": {"max_input_tokens": 90000}},
        {"model_name": "team-quick", "model_info": {"max_input_tokens": 90000}}]}"#;
    let url = crate::models::server_of(list);
    let mut seat = Seat::take(world.ah(["--no-sandbox"]));
    seat.sees("Choose a model provider");
    seat.says("by its url");
    seat.sees("Address");
    seat.says(&url);
    seat.sees("API key (optional");
    seat.says("");
    seat.sees("Choose a model from LiteLLM");
    seat.says("smart");
    seat.sees("Default model: litellm/team-smart");
    seat.sees("lists commands and keys");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let settings = std::fs::read_to_string(world.home().join(".ah/settings.json")).unwrap();
    assert!(settings.contains("litellm/team-smart"), "{settings}");
    assert!(kept(&world).unwrap().contains("LITELLM_BASE_URL"));
}

/// What a vendor needs is asked for, its list gives the model, and both are kept.
#[test]
fn a_vendor_is_named_and_asked_for_its_models() {
    let world = World::new();
    let list = r#"{"data": [{"id": "deepseek-v9-pro"}, {"id": "deepseek-v9-flash"}]}"#;
    let url = crate::models::server_of(list);
    let login = world.ah(["login", "deepseek"]);
    let mut seat = Seat::seeing(login.env("DEEPSEEK_BASE_URL", url), 80, 24);
    seat.sees("DeepSeek API key (hidden)");
    seat.says("sk-test-secret");
    seat.sees("deepseek-v9-flash");
    seat.says("pro");
    seat.sees("Default model: deepseek/deepseek-v9-pro");
    assert!(!seat.scrollback().contains("sk-test-secret"));
    assert_eq!(seat.leaves(), 0);
    let kept = kept(&world).unwrap();
    assert!(kept.contains("DEEPSEEK_API_KEY") && kept.contains("sk-test-secret"));
    let piped = world.ah(["login", "Groq"]).stdin("gsk-1\n").run().expect(0);
    assert!(
        piped.stderr.contains("GROQ_API_KEY saved to"),
        "{}",
        piped.stderr
    );
    let unknown = world.ah(["login", "oracle"]).stdin("k\n").run().expect(2);
    assert!(
        unknown.stderr.contains("there is no server named `oracle`"),
        "{}",
        unknown.stderr
    );
}

/// The key that the configured model needs is offered first.
#[test]
fn without_the_key_of_the_configured_model_that_key_is_asked_for() {
    let world = World::new();
    // Nobody answers there: a network that is away is no reason to lose a key.
    let ah = world.ah(["-m", "gemini/gemini-3.8-flash"]);
    let mut seat = Seat::take(ah.env("HTTPS_PROXY", "http://127.0.0.1:9"));
    seat.sees("Gemini API key, for the model that is set");
    seat.types("\r");
    seat.sees("Gemini API key (hidden)");
    seat.says("sk-test-secret");
    seat.sees("GEMINI_API_KEY saved to");
    seat.sees("Gemini did not say whether the key is valid");
    seat.sees("lists commands and keys");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn a_key_is_read_from_a_pipe() {
    let world = World::new();
    let ended = world.ah(["login"]).stdin("sk-ant-oat-1\n").run().expect(0);
    assert!(ended.stderr.contains("CLAUDE_CODE_OAUTH_TOKEN saved to"));
    assert!(!ended.stderr.contains("sk-ant-oat-1"), "{}", ended.stderr);
    world.ah(["login"]).stdin("sk-ant-api-2\n").run().expect(0);
    let kept = kept(&world).unwrap();
    assert!(
        kept.contains("sk-ant-api-2") && !kept.contains("OAUTH"),
        "{kept}"
    );
    world.ah(["login"]).stdin("\n").run().expect(2);
}

/// Whoever leaves the menu without a choice is told the way back to it, beside the variables.
#[test]
fn leaving_the_menu_names_the_way_in() {
    let world = World::new();
    let mut seat = Seat::of_size(world.ah(["-m", "sonnet"]), 120, 30);
    seat.sees("Choose a model provider");
    seat.types("\x1b");
    seat.sees("hint: `ah login` asks for a key or a server and keeps it, `ah demo` needs none");
    assert_eq!(seat.leaves(), 1);
}

/// A server that cannot be reached is no reason to begin again from the shell, and a key that is refused is not kept.
#[test]
fn a_wrong_answer_leads_back_to_the_menu() {
    let world = World::new();
    let refused = r#"{"error": {"type": "authentication_error", "message": "invalid x-api-key"}}"#;
    let url = crate::models::answering("401 Unauthorized", refused);
    let mut seat = Seat::take(world.ah(["--no-sandbox"]).env("OPENROUTER_BASE_URL", url));
    seat.sees("Choose a model provider");
    seat.says("by its url");
    seat.sees("Address");
    seat.says("localhost:9");
    seat.sees("API key (optional");
    seat.says("");
    seat.sees("error: ");
    seat.sees("Exit");
    seat.says("openrouter");
    seat.sees("OpenRouter API key (hidden):");
    seat.says("abc");
    seat.sees("invalid x-api-key");
    seat.sees("Watch the demo");
    assert_eq!(kept(&world), None);
    // Another vendor is one list away, and Esc comes back.
    seat.says("another vendor");
    seat.sees("Claude in Foundry");
    seat.types("\x1b");
    seat.sees("Watch the demo");
    seat.says("exit");
    seat.leaves();
}

/// Gives the key `sk-second` within a conversation.
#[track_caller]
fn gives_another_key(seat: &mut Seat) {
    seat.says("/login");
    seat.sees("Choose a model provider");
    seat.types("\r");
    seat.sees("API key (hidden):");
    seat.says("sk-second");
    seat.sees("ANTHROPIC_API_KEY saved to");
    seat.sees("% of 200.0k");
}

/// The conversation stays, and its next request has the new key.
#[test]
fn another_key_is_given_in_place() {
    let world = World::new();
    let server = Server::new([says("Hello."), says("Again.")]);
    let ah = world
        .ah(["-m", "sonnet"])
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("ANTHROPIC_API_KEY", "sk-first");
    let mut seat = Seat::take(ah);
    seat.says("Hi");
    seat.sees("Hello.");
    seat.sees_no_more("Esc interrupts");
    gives_another_key(&mut seat);
    // What was said before stays where it was.
    seat.sees("> Hi");
    seat.says("And?");
    seat.sees("Again.");
    seat.sees_no_more("Esc interrupts");
    // Esc changes nothing.
    seat.says("/login");
    seat.sees("Watch the demo");
    seat.types("\x1b");
    seat.sees_no_more("Watch the demo");
    seat.sees("% of 200.0k");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let requests = server.requests();
    let keys = |key: &str| {
        requests
            .iter()
            .filter(|it| it.headers["x-api-key"] == *key)
            .count()
    };
    assert_eq!(keys("sk-first"), 1);
    assert!(keys("sk-second") >= 1, "{requests:?}");
}

/// What the hint of a refused key names leads on, there and then.
#[test]
fn a_refused_key_is_replaced_where_that_is_said() {
    let world = World::new();
    let server = Server::new([fails(401, "authentication_error"), says("Hello.")]);
    let ah = world
        .ah(["-m", "sonnet"])
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("ANTHROPIC_API_KEY", "sk-first");
    let mut seat = Seat::take(ah);
    seat.says("Hi");
    seat.sees("hint: check ANTHROPIC_API_KEY, or give another key with `/login`");
    gives_another_key(&mut seat);
    seat.says("And now?");
    seat.sees("Hello.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// A Ctrl-C while a key is tried ends the try, and not the conversation.
#[test]
fn a_key_that_is_being_tried_is_given_up_by_ctrl_c() {
    let world = World::new();
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let ah = world
        .ah(["-m", "sonnet"])
        .env("ANTHROPIC_BASE_URL", address)
        .env("ANTHROPIC_API_KEY", "sk-first");
    let mut seat = Seat::take(ah);
    // What is typed before the conversation is drawn is not shown again above the menu.
    seat.sees("? for help");
    seat.says("/login");
    seat.sees("Choose a model provider");
    seat.types("\r");
    seat.sees("API key (hidden):");
    seat.says("sk-second");
    silent.set_nonblocking(true).unwrap();
    let mut asked = Vec::new();
    ah_testkit::wait::until("the request for the list of models", || {
        asked.extend(silent.accept());
        !asked.is_empty()
    });
    seat.types("\x03");
    is_back(&seat, "/login");
    // In the menu as well.
    seat.says("/login");
    seat.sees("Watch the demo");
    seat.types("\x03");
    seat.sees_no_more("Watch the demo");
    is_back(&seat, "/login");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(kept(&world), None);
}

/// Waits until the conversation is drawn below this text of a subcommand.
fn is_back(seat: &Seat, text: &str) {
    seat.wait_until("the conversation is back", |_, screen| {
        let after = screen.rsplit_once(text);
        after.is_some_and(|(_, after)| after.contains("? for help"))
    });
    seat.sees_no_more("Esc interrupts");
}

/// A key of the environment is not the login's, even if the login has one of the same name.
#[test]
fn a_logout_leaves_the_key_of_the_environment() {
    let world = World::new();
    world.ah(["login"]).stdin("sk-kept\n").run().expect(0);
    let server = Server::new([says("Hello.")]);
    let ah = world
        .ah(["-m", "sonnet"])
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("ANTHROPIC_API_KEY", "sk-own");
    let mut seat = Seat::take(ah);
    seat.says("/logout");
    is_back(&seat, "removed `");
    seat.says("Hi");
    seat.sees("Hello.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(kept(&world), None);
    let requests = server.requests();
    assert!(
        requests
            .iter()
            .all(|it| it.headers["x-api-key"] == "sk-own")
    );
}

/// After a logout the conversation that is open does not use the key, either.
#[test]
fn a_key_that_was_forgotten_is_not_used() {
    let world = World::new();
    world.ah(["login"]).stdin("sk-kept\n").run().expect(0);
    let server = Server::new([says("Hello."), says("Still here.")]);
    let ah = world
        .ah(["-m", "sonnet"])
        .env("ANTHROPIC_BASE_URL", server.url());
    let mut seat = Seat::take(ah);
    seat.says("Hi");
    seat.sees("Hello.");
    seat.sees_no_more("Esc interrupts");
    let asked = server.requests().len();
    seat.says("/logout");
    seat.sees("no API key for the Messages API");
    seat.sees("% of 200.0k");
    seat.says("And now?");
    seat.sees("hint: `/login`, or set ANTHROPIC_API_KEY");
    assert_eq!(server.requests().len(), asked);
    gives_another_key(&mut seat);
    seat.says("And then?");
    seat.sees("Still here.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
