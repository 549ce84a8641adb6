//! Each tenant sees its own rows, whatever it asks the server for.

use ah_conversation::{MailKind, SessionId, Store as _};
use ah_store::fleet::{ALL, Admission, Fleet as _, Limit, Limits as _};

use crate::fixture::{Speaker, append};
use crate::server::{PATIENT, connect, database, shared};

#[tokio::test]
async fn tenants_see_only_their_own_sessions() {
    let Some(server) = shared() else { return };
    let owner = database(server).await;
    let name = owner.rsplit('/').next().unwrap();
    let roles = ["anna", "ben"].map(|role| format!("{role}_{name}"));
    for role in &roles {
        let make = format!("CREATE ROLE {role} LOGIN; GRANT ah TO {role}");
        server.psql(&owner, &make).unwrap();
    }
    let urls = roles.each_ref().map(|role| server.url(role, name));
    for (at, url) in urls.iter().enumerate() {
        let fleet = connect(url, PATIENT).await;
        // The same id in both tenants: neither learns of the other's.
        let session = fleet
            .clone()
            .open(&SessionId::from("S"), "me")
            .await
            .unwrap();
        append(
            &session,
            &Speaker::default().prompt(&format!("secret {at}")),
        )
        .await;
        let id = SessionId::from("S");
        fleet.send(&id, MailKind::Steer, "left").await.unwrap();
        let found = session.load().await.unwrap();
        assert_eq!(found.messages().len(), 1);
    }
    for (at, url) in urls.iter().enumerate() {
        for (table, count) in [("sessions", 1), ("changes", 1), ("mail", 1)] {
            let seen = server.psql(url, &format!("SELECT count(*) FROM ah.{table}"));
            assert_eq!(seen.unwrap(), count.to_string(), "{table}");
        }
        let body = server.psql(url, "SELECT body FROM ah.changes").unwrap();
        assert!(body.contains(&format!("secret {at}")), "{body}");
        let other = &roles[1 - at];
        let forged = format!("INSERT INTO ah.sessions (tenant, id) VALUES ('{other}', 'forged')");
        let error = server.psql(url, &forged).unwrap_err();
        assert!(error.contains("row-level security"), "{error}");
        let taken = format!("UPDATE ah.sessions SET tenant = '{other}'");
        assert!(server.psql(url, &taken).is_err());
        let gone = "DELETE FROM ah.sessions WHERE tenant <> current_user RETURNING id";
        assert_eq!(server.psql(url, gone).unwrap(), "");
        assert!(server.psql(url, "SET ROLE ah_owner").is_err());
    }
    let all = server.psql(&owner, "SELECT count(*) FROM ah.sessions");
    assert_eq!(all.unwrap(), "2");
}

#[tokio::test]
async fn a_migration_may_be_repeated_and_a_role_without_tables_is_told() {
    let Some(server) = shared() else { return };
    let owner = database(server).await;
    let (one, two) = tokio::join!(
        ah_store_postgres::Postgres::migrate(&owner),
        ah_store_postgres::Postgres::migrate(&owner)
    );
    let newest = ah_store_postgres::Postgres::migrate(&owner).await.unwrap();
    assert_eq!((one.unwrap(), two.unwrap()), (newest, newest));
    server
        .psql(&owner, "INSERT INTO ah.migrations VALUES (99)")
        .unwrap();
    let timing = PATIENT;
    let newer = ah_store_postgres::Postgres::connect(&owner, timing).await;
    assert!(newer.unwrap_err().reason.contains("version 99"));
    server.psql(&owner, "DROP SCHEMA ah CASCADE").unwrap();
    let missing = ah_store_postgres::Postgres::connect(&owner, timing).await;
    let hint = missing.unwrap_err().hint.unwrap();
    assert!(hint.contains("ah fleet migrate"), "{hint}");
}

#[tokio::test]
async fn limits_hold_for_a_tenant_who_cannot_change_them() {
    let Some(server) = shared() else { return };
    let owner = database(server).await;
    let database = owner.rsplit('/').next().unwrap();
    let make =
        "DO $$ BEGIN CREATE ROLE limited LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
                GRANT ah TO limited";
    server.psql(&owner, make).unwrap();
    let theirs = connect(&server.url("limited", database), PATIENT).await;
    let ours = connect(&owner, PATIENT).await;
    let limit = |tenant: &str, budget| Limit {
        tenant: tenant.to_owned(),
        model: ALL.to_owned(),
        per_minute: None,
        budget,
    };
    ours.set_limit(&limit("limited", Some(100))).await.unwrap();
    ours.set_limit(&limit("", Some(1000))).await.unwrap();
    theirs.spend(100).await.unwrap();
    // Nor give themselves some back.
    theirs.spend(-100).await.unwrap();
    assert_eq!(theirs.admit("m").await.unwrap(), Admission::Spent);
    assert_eq!(theirs.limits().await.unwrap(), [limit("limited", Some(0))]);
    for own in [limit("limited", Some(100)), limit("limited", None)] {
        let refused = theirs.set_limit(&own).await.unwrap_err();
        // The role `ah` it has.
        let hint = refused.hint.unwrap();
        assert!(
            hint.starts_with("only the role that created the tables"),
            "{hint}"
        );
    }
    let free = Admission::After(std::time::Duration::ZERO);
    assert_eq!(ours.admit("m").await.unwrap(), free);
    // One for all together.
    ours.set_limit(&limit(ALL, Some(10))).await.unwrap();
    ours.spend(10).await.unwrap();
    assert_eq!(ours.admit("m").await.unwrap(), Admission::Spent);
}

#[tokio::test]
async fn a_restored_backup_goes_on() {
    let Some(server) = shared() else { return };
    let url = database(server).await;
    let fleet = connect(&url, PATIENT).await;
    let session = fleet
        .clone()
        .open(&SessionId::from("S"), "me")
        .await
        .unwrap();
    let mut speaker = Speaker::default();
    append(&session, &speaker.prompt("before")).await;
    let expected = crate::again::portrait(&session).await;
    let copy = connect(&server.restored(&url), PATIENT).await;
    let restored = copy.open(&SessionId::from("S"), "me").await.unwrap();
    assert_eq!(crate::again::portrait(&restored).await, expected);
    append(&restored, &speaker.answer("after")).await;
    assert_eq!(session.load().await.unwrap().messages().len(), 1);
}
