//! API keys: made, stored, used, rolled and revoked; and what an attacker gets who has none.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use stockhold_domain::{Instant, Label};
use stockhold_service::{
    AuthenticationError, Authenticator, CheckTime, CredentialFault, HoldTokenClaims, HoldTokenKey,
    KeyAdminError, KeyId, KeyRecord, MissingPermission, NewKeySpec, Principal, PrincipalKind, RootKey, Scope,
    create_key, revoke_key, roll_key,
};

const ROOT: &str = "0123456789abcdef0123456789abcdef";
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn at(seconds: i64) -> Instant {
    Instant::from_micros(1_800_000_000_000_000 + seconds * 1_000_000)
}

fn steady(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A check while both clocks agree.
fn both(seconds: u64) -> CheckTime {
    CheckTime { wall: at(seconds.cast_signed()), steady: steady(seconds) }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn spec() -> NewKeySpec {
    NewKeySpec {
        name: "till 7".to_owned(),
        principal: "shop".to_owned(),
        scopes: texts(&["reservations:write", "reservations:read"]),
        ..NewKeySpec::default()
    }
}

fn bearer(text: &str) -> Vec<u8> {
    format!("Bearer {text}").into_bytes()
}

fn authenticator() -> Authenticator {
    let authenticator = Authenticator::new(Some(RootKey::new(ROOT).unwrap()), Vec::new());
    authenticator.refresh_keys(Vec::new(), steady(0));
    authenticator
}

#[track_caller]
fn fault(result: Result<std::sync::Arc<stockhold_service::Caller>, AuthenticationError>) -> CredentialFault {
    match result {
        Err(AuthenticationError::Refused { fault, why, .. }) => {
            assert!(why.ends_with('.'), "{why}");
            fault
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn without_credentials_everybody_is_anonymous() {
    let open = Authenticator::new(None, Vec::new());
    assert!(!open.is_required());
    let caller = open.authenticate(None, HERE, both(0)).unwrap();
    assert_eq!(caller.principal.kind, PrincipalKind::Anonymous);
    assert!(caller.principal.may(Scope::KeysAdmin));
    // The first key closes the door.
    let (record, text) = create_key(&caller.principal, &spec(), at(0)).unwrap();
    open.refresh_keys(vec![record], steady(0));
    assert!(open.is_required());
    assert_eq!(fault(open.authenticate(None, HERE, both(0))), CredentialFault::Missing);
    assert!(open.authenticate(Some(&bearer(text.reveal())), HERE, both(0)).is_ok());
}

#[test]
fn headers_that_are_no_credential() {
    let authenticator = authenticator();
    let check = |header: &[u8]| fault(authenticator.authenticate(Some(header), HERE, both(0)));
    for header in [
        &b""[..],
        b"Bearer",
        b"Bearer ",
        b"Basic c2hvcDpzaG9w",
        b"Bearer junk",
        b"Bearer sh_live_short",
        b"Bearer \xff\xfe",
        b"Bearer a.b.c",
        &bearer(&"x".repeat(9_000)),
        &bearer(&ROOT[1..]),
    ] {
        assert_eq!(check(header), CredentialFault::Malformed, "{:?}", String::from_utf8_lossy(header));
    }
    let root = authenticator.authenticate(Some(&bearer(ROOT)), HERE, both(0)).unwrap();
    assert_eq!(root.principal.kind, PrincipalKind::Root);
    let lower = format!("bearer  {ROOT}");
    assert!(authenticator.authenticate(Some(lower.as_bytes()), HERE, both(0)).is_ok());
}

#[test]
fn a_key_from_its_creation_to_its_end() {
    let authenticator = authenticator();
    let mut wanted = spec();
    wanted.expires_at = Some(at(100));
    wanted.allowed_cidrs = Some(texts(&["127.0.0.0/8", "2001:db8::/32"]));
    wanted.rate_limit = Some((10, 20));
    let (record, text) = create_key(&Principal::root(), &wanted, at(0)).unwrap();
    // What is stored has everything except the key.
    let bytes = record.to_bytes();
    assert_eq!(KeyRecord::from_bytes(&bytes).unwrap(), record);
    assert!(!String::from_utf8_lossy(&bytes).contains(&text.reveal()["sh_live_".len()..]));
    assert_eq!(KeyId::parse(&record.key_id.to_string()), Some(record.key_id));

    let header = bearer(text.reveal());
    let ask = |address: IpAddr, now| authenticator.authenticate(Some(&header), address, now);
    assert_eq!(ask(HERE, both(0)), Err(AuthenticationError::UnknownKey(record.key_id)));
    authenticator.add_key(record.clone(), steady(0));
    let caller = ask(HERE, both(0)).unwrap();
    assert_eq!(caller.principal.actor.as_str(), "key:shop");
    assert!(caller.principal.may(Scope::ReservationsRead) && !caller.principal.may(Scope::InventoryRead));
    assert_eq!(caller.rate_limit.map(stockhold_service::RateLimit::burst), Some(20));
    assert!(ask("::ffff:127.0.0.1".parse().unwrap(), both(0)).is_ok());
    assert_eq!(fault(ask("192.0.2.1".parse().unwrap(), both(0))), CredentialFault::Network);
    // Of a table that is too old nobody knows which keys were revoked.
    assert!(ask(HERE, both(5)).is_ok());
    assert!(matches!(ask(HERE, both(6)), Err(AuthenticationError::Unavailable(_))));
    authenticator.refresh_keys(vec![record.clone()], steady(98));
    assert!(ask(HERE, both(99)).is_ok());
    assert_eq!(fault(ask(HERE, both(100))), CredentialFault::Expired);
    authenticator.refresh_keys(vec![revoke_key(&record, at(99))], steady(99));
    assert_eq!(fault(ask(HERE, both(99))), CredentialFault::Revoked);
}

#[test]
fn a_refresh_that_began_before_a_change_does_not_undo_it() {
    let authenticator = authenticator();
    let (record, text) = create_key(&Principal::root(), &spec(), at(0)).unwrap();
    let header = bearer(text.reveal());
    let ask = |now| authenticator.authenticate(Some(&header), HERE, now);
    authenticator.refresh_keys(vec![record.clone()], steady(0));
    authenticator.add_key(revoke_key(&record, at(2)), steady(2));
    authenticator.refresh_keys(vec![record.clone()], steady(1));
    assert_eq!(fault(ask(both(3))), CredentialFault::Revoked);
    authenticator.refresh_keys(Vec::new(), steady(3));
    assert_eq!(ask(both(3)), Err(AuthenticationError::UnknownKey(record.key_id)));
}

#[test]
fn a_corrected_wall_clock_ends_keys_and_makes_no_table_old() {
    let authenticator = authenticator();
    let mut wanted = spec();
    wanted.expires_at = Some(at(3_600));
    let (record, text) = create_key(&Principal::root(), &wanted, at(0)).unwrap();
    let header = bearer(text.reveal());
    authenticator.refresh_keys(vec![record.clone()], steady(1));
    let ask = |wall| {
        let now = CheckTime { wall: at(wall), steady: steady(2) };
        authenticator.authenticate(Some(&header), HERE, now)
    };
    assert!(ask(2).is_ok());
    assert_eq!(fault(ask(7_200)), CredentialFault::Expired);
    assert!(ask(3_599).is_ok(), "the table is a second old");
    assert_eq!(authenticator.last_use(record.key_id), Some(at(3_599)));
    assert!(ask(-7_200).is_ok());
    assert_eq!(authenticator.last_use(record.key_id), Some(at(-7_200)), "not that of the wrong clock");
}

#[test]
fn a_rolled_key_keeps_its_rights_and_its_principal() {
    let mut wanted = spec();
    wanted.locations = Some(texts(&["hub-2", "hub-1", "hub-2"]));
    let (old, _) = create_key(&Principal::root(), &wanted, at(0)).unwrap();
    let ((new, text), ended) = roll_key(&Principal::root(), &old, 60, at(10)).unwrap();
    assert_eq!((new.rolled_from, new.created_at), (Some(old.key_id), at(10)));
    assert_ne!(new.key_id, old.key_id);
    assert_eq!(
        (&new.scopes, &new.restrictions, &new.principal),
        (&old.scopes, &old.restrictions, &old.principal)
    );
    assert_eq!(new.restrictions.locations.as_deref().unwrap().len(), 2);
    assert_eq!((ended.expires_at, ended.revoked_at), (Some(at(70)), None));
    let authenticator = authenticator();
    authenticator.refresh_keys(vec![new, ended.clone()], steady(11));
    assert!(authenticator.authenticate(Some(&bearer(text.reveal())), HERE, both(11)).is_ok());
    // Without an overlap the old key ends at once. An ended key is not rolled.
    let (_, ended_now) = roll_key(&Principal::root(), &old, 0, at(10)).unwrap();
    assert!(ended_now.has_ended(at(10)));
    assert!(matches!(roll_key(&Principal::root(), &ended_now, 0, at(11)), Err(KeyAdminError::Ended)));
    assert!(matches!(roll_key(&Principal::root(), &old, 2_592_001, at(10)), Err(KeyAdminError::Invalid(..))));
    // An old key that ends sooner by itself still does.
    let mut soon = old.clone();
    soon.expires_at = Some(at(20));
    assert_eq!(roll_key(&Principal::root(), &soon, 60, at(10)).unwrap().1.expires_at, Some(at(20)));
}

#[test]
fn nobody_gives_what_they_lack() {
    let mut admin = spec();
    admin.scopes = texts(&["keys:admin", "inventory:read"]);
    admin.locations = Some(texts(&["hub-1"]));
    admin.channels = Some(texts(&["web"]));
    let (record, _) = create_key(&Principal::root(), &admin, at(0)).unwrap();
    let admin = record.to_principal().unwrap();
    let refused = |change: &dyn Fn(&mut NewKeySpec)| {
        let mut wanted = spec();
        wanted.scopes = texts(&["inventory:read"]);
        wanted.locations = Some(texts(&["hub-1"]));
        wanted.channels = Some(texts(&["web"]));
        change(&mut wanted);
        create_key(&admin, &wanted, at(0)).err().map(|error| match error {
            KeyAdminError::Missing(missing) => missing,
            other => panic!("{other:?}"),
        })
    };
    let label = |text: &str| Some(Label::new(text).unwrap());
    assert_eq!(refused(&|_| {}), None);
    assert_eq!(
        refused(&|wanted| wanted.scopes = texts(&["sale:admin"])),
        Some(MissingPermission::Scope(Scope::SaleAdmin))
    );
    assert_eq!(refused(&|wanted| wanted.locations = None), Some(MissingPermission::Location(None)));
    assert_eq!(
        refused(&|wanted| wanted.locations = Some(texts(&["hub-1", "hub-2"]))),
        Some(MissingPermission::Location(label("hub-2")))
    );
    assert_eq!(refused(&|wanted| wanted.channels = None), Some(MissingPermission::Channel(None)));
    // A roll gives the rights of the old key, so it needs them too.
    let (strong, _) = create_key(&Principal::root(), &spec(), at(0)).unwrap();
    assert!(matches!(roll_key(&admin, &strong, 0, at(0)), Err(KeyAdminError::Missing(_))));
}

#[test]
fn requests_that_are_invalid() {
    let pointer = |change: &dyn Fn(&mut NewKeySpec)| {
        let mut wanted = spec();
        change(&mut wanted);
        match create_key(&Principal::root(), &wanted, at(0)) {
            Err(KeyAdminError::Invalid(pointer, _)) => pointer,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(pointer(&|wanted| wanted.name.clear()), "/name");
    assert_eq!(pointer(&|wanted| wanted.principal = "x".repeat(125)), "/principal");
    assert_eq!(pointer(&|wanted| wanted.scopes.clear()), "/scopes");
    assert_eq!(pointer(&|wanted| wanted.scopes.push("root".to_owned())), "/scopes/2");
    assert_eq!(pointer(&|wanted| wanted.locations = Some(Vec::new())), "/locations");
    assert_eq!(pointer(&|wanted| wanted.channels = Some(texts(&["web", ""]))), "/channels/1");
    assert_eq!(pointer(&|wanted| wanted.channels = Some(vec!["web".to_owned(); 257])), "/channels");
    assert_eq!(pointer(&|wanted| wanted.allowed_cidrs = Some(texts(&["10.0.0.0/99"]))), "/allowed_cidrs/0");
    assert_eq!(pointer(&|wanted| wanted.rate_limit = Some((0, 1))), "/rate_limit");
    assert_eq!(pointer(&|wanted| wanted.expires_at = Some(at(0))), "/expires_at");
}

#[test]
fn hold_tokens_stand_for_one_reservation() {
    let authenticator = authenticator();
    let key = HoldTokenKey::new(&[7; 32]);
    let claims =
        HoldTokenClaims { reservation: stockhold_domain::ReservationId::from_u128(9), generation: 0 };
    let header = bearer(&key.sign(claims));
    let unknown = authenticator.authenticate(Some(&header), HERE, both(0));
    assert_eq!(unknown.unwrap_err(), AuthenticationError::NoSigningKey);
    authenticator.set_hold_token_key(HoldTokenKey::new(&[8; 32]));
    assert_eq!(fault(authenticator.authenticate(Some(&header), HERE, both(0))), CredentialFault::Malformed);
    authenticator.set_hold_token_key(key);
    let caller = authenticator.authenticate(Some(&header), HERE, both(0)).unwrap();
    assert_eq!(caller.principal.kind, PrincipalKind::Hold(claims));
    assert!(caller.principal.scopes.is_empty());
}

#[test]
fn what_a_later_version_stored_is_kept_and_grants_nothing() {
    let root = Principal::root();
    let (record, _) = create_key(&root, &spec(), at(0)).unwrap();
    let mut stored: serde_json::Value = serde_json::from_slice(&record.to_bytes()).unwrap();
    stored["scopes"].as_array_mut().unwrap().push("moon:write".into());
    stored["curfew"] = serde_json::json!({ "from": 22 });
    let read = KeyRecord::from_bytes(stored.to_string().as_bytes()).unwrap();
    assert_eq!(read.scopes, record.scopes);
    let mut used = read.clone();
    used.last_used_at = Some(at(9));
    for rewritten in [used, revoke_key(&read, at(9)), roll_key(&root, &read, 0, at(9)).unwrap().0.0] {
        let again: serde_json::Value = serde_json::from_slice(&rewritten.to_bytes()).unwrap();
        assert_eq!(again["scopes"], stored["scopes"]);
        assert_eq!(again["curfew"], stored["curfew"]);
    }
}
