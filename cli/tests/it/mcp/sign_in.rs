//! `ah mcp login`, `status` and `logout`, with a browser whose user agrees, and with a pasted address.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ah_testkit::issuer::Site;
use serde_json::json;

use crate::support::binary::World;

/// A browser that follows one redirect. It runs in bash, which can open connections.
const BROWSER: &str = r#"#!/bin/bash
visit() {
  rest=${1#http://}; place=${rest%%/*}
  exec 3<>"/dev/tcp/${place%:*}/${place#*:}"
  printf 'GET /%s HTTP/1.1\r\nHost: x\r\n\r\n' "${rest#*/}" >&3
  cat <&3
}
location=$(visit "$1" | sed -n 's/^Location: //p' | tr -d '\r')
echo "$location" >"$HOME/ended"
[ -e "$HOME/lost" ] || visit "$location"
"#;

fn world(site: &Site) -> World {
    let world = World::new();
    let servers = json!({"s": {"url": site.url("/mcp")}, "p": {"command": "true"}});
    let settings = json!({"mcpServers": servers}).to_string();
    world.write("../home/.ah/settings.json", settings);
    let browser = world.write("../home/browser", BROWSER);
    fs::set_permissions(browser, PermissionsExt::from_mode(0o755)).unwrap();
    world
}

#[test]
fn a_user_signs_in_looks_and_signs_out() {
    let site = Site::start();
    let world = world(&site);
    let browser = world.home().join("browser");
    let ended = world.ah(["mcp", "status", "s"]).run().expect(1);
    assert_eq!(
        ended.stdout,
        "not signed in to `s`; `ah mcp login s` signs in\n"
    );
    let ended = world.ah(["mcp", "test", "s"]).run().expect(1);
    assert!(
        ended.stderr.contains("`ah mcp login s` signs in"),
        "{}",
        ended.stderr
    );

    let login = world.ah(["mcp", "login", "s"]).env("BROWSER", &browser);
    let ended = login.run().expect(0);
    let rows = format!(
        "  issuer: {}\n  scopes: read\n  lasts: renewed automatically\n",
        site.url("")
    );
    assert_eq!(ended.stdout, format!("signed in to `s`\n{rows}"));
    assert!(
        ended.stderr.contains(&site.url("/authorize?")),
        "{}",
        ended.stderr
    );
    let kept = world.home().join(".ah/server-credentials.json");
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let ended = world.ah(["mcp", "status", "s"]).run().expect(0);
    assert_eq!(ended.stdout, format!("signed in to `s`\n{rows}"));
    let ended = world.ah(["mcp", "test", "s"]).run().expect(0);
    assert!(ended.stdout.contains("mcp__s__look"), "{}", ended.stdout);
    let ended = world.ah(["mcp", "logout", "s"]).run().expect(0);
    assert_eq!(ended.stdout, "signed out of `s`\n");
    assert!(!fs::read_to_string(kept).unwrap().contains("token-1"));
    let ended = world.ah(["mcp", "login", "p"]).run().expect(1);
    assert!(ended.stderr.contains("is a program"), "{}", ended.stderr);
}

/// The browser is on another machine: it cannot come back, and the user pastes where it ended.
#[test]
fn the_address_at_which_the_browser_ended_can_be_pasted() {
    let site = Site::start();
    let world = world(&site);
    world.write("../home/lost", "");
    let browser = world.home().join("browser");
    let login = world.ah(["mcp", "login", "s", "--scope", "all"]);
    let mut login = login.env("BROWSER", &browser).with_silent_stdin().start();
    let ended = crate::support::binary::wait_for_file(&world.home().join("ended"));
    login.say(ended.trim());
    let ended = login.wait().expect(0);
    assert!(
        ended.stdout.starts_with("signed in to `s`\n"),
        "{}",
        ended.stdout
    );
    assert!(site.all().iter().any(|it| it.path.contains("scope=all")));
}
