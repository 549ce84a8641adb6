//! `ah serve` with TLS, and at other addresses. The certificate is for `localhost`, and vouches for itself.

use ah_testkit::script::says;
use ah_testkit::server::Server;
use reqwest::{Certificate, Client};
use serde_json::Value;
use tokio::runtime::Builder;

use crate::support::binary::World;

const CERTIFICATE: &str = include_str!("cert.pem");
const KEY: &str = include_str!("key.pem");

#[test]
fn with_a_certificate_the_server_speaks_tls_only() {
    let world = World::new();
    world.write("cert.pem", CERTIFICATE);
    world.write("key.pem", KEY);
    let server = Server::new([says("unused")]);
    let tls = [
        "--cert",
        "cert.pem",
        "--key",
        "key.pem",
        "--host",
        "localhost",
    ];
    let running = world
        .asking(&server, [&["serve"], &tls[..]].concat())
        .start();
    running.wait_for_output("page: ");
    let said = running.output_so_far();
    let url = said.lines().next().unwrap().to_owned();
    assert!(url.starts_with("https://localhost:"), "{url}");
    let token = said
        .lines()
        .nth(1)
        .unwrap()
        .strip_prefix("token: ")
        .unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let certificate = Certificate::from_pem(CERTIFICATE.as_bytes()).unwrap();
        ah_http::choose_cryptography();
        let client = Client::builder()
            .tls_certs_only([certificate])
            .build()
            .unwrap();
        let place = format!("{url}/v1/sessions");
        let listed = client.get(&place).bearer_auth(token).send().await.unwrap();
        assert_eq!(listed.status(), 200);
        let listed: Value = serde_json::from_slice(&listed.bytes().await.unwrap()).unwrap();
        assert!(listed["sessions"].is_array(), "{listed}");
        let own = client.get(&place).bearer_auth(token).header("Origin", &url);
        assert_eq!(own.send().await.unwrap().status(), 200);
        let plain = url.replace("https:", "http:");
        let other = client
            .get(&place)
            .bearer_auth(token)
            .header("Origin", &plain);
        assert_eq!(other.send().await.unwrap().status(), 403);
        let place = format!("{plain}/v1/sessions");
        assert!(client.get(place).bearer_auth(token).send().await.is_err());
    });
    running.signal(rustix::process::Signal::INT);
    running.wait().expect(0);
}

#[test]
fn another_address_needs_a_certificate_that_can_be_used() {
    let world = World::new();
    world.write("cert.pem", CERTIFICATE);
    world.write("key.pem", "no key");
    for (arguments, code, said) in [
        (&["--address", "0.0.0.0"][..], 2, "--cert"),
        (&["--cert", "cert.pem"], 2, "--key"),
        (
            &["--cert", "cert.pem", "--key", "key.pem"],
            1,
            "holds no private key",
        ),
        (
            &["--cert", "key.pem", "--key", "key.pem"],
            1,
            "holds no certificate",
        ),
        (
            &["--cert", "missing.pem", "--key", "key.pem"],
            1,
            "missing.pem",
        ),
    ] {
        let arguments = [&["serve"], arguments].concat();
        let ended = world.ah(arguments.iter().copied()).run();
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(said),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}
