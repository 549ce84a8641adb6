//! The connection to the model's server is opened before a prompt is sent.

use ah_testkit::proxy::Proxy;
use ah_testkit::wait::until;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

#[test]
fn a_connection_is_opened_before_a_prompt_is_sent() {
    const TUNNEL: &str = "CONNECT api.anthropic.com:443 HTTP/1.1";
    let world = World::new();
    let proxy = Proxy::refusing();
    let ah = { world.ah(["-n", "-m", "sonnet"]) }
        .env("ANTHROPIC_API_KEY", "key-of-a-test")
        .env("HTTPS_PROXY", proxy.url());
    let mut seat = Seat::take(ah);
    // With the first screen, and again for what is typed later.
    until("a connection", || proxy.wanted() == [TUNNEL]);
    seat.types("hello");
    until("another", || proxy.wanted() == [TUNNEL; 2]);
    seat.types(" world");
    seat.sees("> hello world");
    seat.types("\x03");
    seat.sees_no_more("> hello world");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(proxy.wanted(), [TUNNEL; 2]);
}
