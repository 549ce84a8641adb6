//! A store that is reached over TLS, or through a proxy. A machine without the programs passes these without testing
//! anything; `cargo xtask test` names them.

use ah_testkit::postgres::{Proxy, Secured, shared};
use serde_json::Value;

use super::{Fleet, makes};
use crate::support::binary::World;

#[test]
fn the_certificate_of_a_server_must_be_one_that_is_trusted() {
    let Some(secured) = Secured::start() else {
        return;
    };
    let fleet = |mode| Fleet {
        world: World::new(),
        store: Some(secured.database(mode)),
    };
    let migrate = |fleet: &Fleet, authority: &std::path::Path| {
        let ah = fleet.ah(&["fleet", "migrate"]);
        ah.env("SSL_CERT_FILE", authority).run()
    };
    for (mode, authority, reason) in [
        ("require", secured.other_authority(), "UnknownIssuer"),
        ("prefer", secured.other_authority(), "UnknownIssuer"),
        ("disable", secured.authority(), "no pg_hba.conf entry"),
    ] {
        let ended = migrate(&fleet(mode), &authority).expect(1);
        assert!(ended.stderr.contains(reason), "{mode}: {}", ended.stderr);
        assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    }

    let fleet = fleet("require");
    migrate(&fleet, &secured.authority()).expect(0);
    let model = makes(&fleet.world, 1);
    let trusting = |arguments: &[&str]| {
        let ah = fleet
            .ah(arguments)
            .env("SSL_CERT_FILE", secured.authority());
        ah.run().expect(0).stdout
    };
    let session = trusting(&["enqueue", "-m", &model, "make it"]);
    trusting(&["worker", "--until-idle"]);
    assert!(trusting(&["watch", session.trim()]).contains("Done."));
    assert_eq!(fleet.world.text("made"), "0\n");
}

#[test]
fn a_proxy_that_pools_transactions_may_stand_between() {
    let Some(server) = shared() else { return };
    // Fewer connections than one worker has.
    let Some(proxy) = Proxy::start(server, 2) else {
        return;
    };
    let fleet = Fleet {
        world: World::new(),
        store: Some(proxy.through(&server.database())),
    };
    fleet.ah(&["fleet", "migrate"]).run().expect(0);
    let model = makes(&fleet.world, 3);
    for _ in 0..6 {
        fleet.enqueue(&model, &[]);
    }
    let workers = [(); 2].map(|()| {
        let worker = fleet.ah(&["worker", "--until-idle", "--concurrency", "6"]);
        worker.start()
    });
    for worker in workers {
        worker.wait().expect(0);
    }
    let is_done = |run: &Value| run["state"] == "done";
    assert!(fleet.runs().iter().all(is_done), "{:?}", fleet.runs());
    assert_eq!(fleet.world.text("made").lines().count(), 18);
}
