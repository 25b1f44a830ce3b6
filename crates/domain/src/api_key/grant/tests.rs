use super::*;

fn now() -> Timestamp {
    "2026-11-18T09:00:00Z".parse().expect("a time")
}

fn key(id: i64, scopes: &[Scope], expires_at: Option<Timestamp>) -> ApiKey {
    let name = format!("key {id}").parse().expect("a name");
    let new = NewApiKey {
        scopes: scopes.iter().copied().collect(),
        expires_at,
        ..NewApiKey::new(name, now())
    };
    new.with_id(id)
}

fn days(days: i64) -> Option<Timestamp> {
    Some(now() + SignedDuration::from_hours(24 * days))
}

fn grant(scopes: &[Scope], expires_at: Option<Timestamp>) -> KeyGrant {
    KeyGrant {
        name: "Ada".parse().expect("a name"),
        scopes: scopes.iter().copied().collect(),
        expires_at,
    }
}

#[test]
fn a_key_grants_only_what_it_has() {
    use Scope::*;
    let manager = key(1, &[PetsRead, KeysWrite], days(30));
    let granted = |scopes: &[Scope], expiry| {
        let granted = manager.grant(&grant(scopes, expiry), now());
        granted.map(|key| key.expires_at)
    };
    let too_long = Err(KeyRejection::OutlastsCaller(days(30).expect("a time")));
    assert_eq!(granted(&[PetsRead], days(1)), Ok(days(1)));
    assert_eq!(granted(&[PetsRead], days(30)), Ok(days(30)));
    assert_eq!(granted(&[PetsRead], None), Ok(days(30)), "its own");
    assert_eq!(granted(&[PetsRead], days(31)), too_long);
    let missing = Err(KeyRejection::MissingScope(PetsWrite));
    assert_eq!(granted(&[PetsRead, PetsWrite], None), missing);
    let invited = manager.invite(&grant(&[PetsWrite], None), None, now());
    assert_eq!(invited.map(drop), missing.map(drop));
}

#[test]
fn an_invitation_ends_after_a_day_or_with_its_key() {
    let owner = key(1, &Scope::ALL, None);
    for (expiry, expected) in [(None, days(1)), (days(9), days(1)), (days(0), days(0))] {
        let invited = owner.invite(&grant(&[Scope::PetsRead], expiry), None, now());
        let invitation = invited.expect("it is granted").with_id(2);
        assert_eq!(invitation.scopes, Scopes::CLAIM);
        assert_eq!(invitation.expires_at, expected);
    }
}

#[test]
fn an_invitation_turns_into_a_key_until_it_ends() {
    let owner = key(1, &Scope::ALL, None);
    let invited = owner.invite(&grant(&[Scope::PetsRead], days(9)), None, now());
    let mut invitation = invited.expect("it is granted").with_id(2);
    let claimed = invitation.claim(now()).expect("it is valid");
    assert_eq!(claimed.expires_at, days(9));
    assert!(claimed.scopes.has(Scope::PetsRead) && !claimed.scopes.has(Scope::KeysClaim));
    let ended = Err(KeyRejection::CallerEnded);
    let claim = |key: &ApiKey, at: Option<Timestamp>| key.claim(at.expect("a time")).map(drop);
    assert_eq!(claim(&invitation, days(1)), ended);
    assert_eq!(claim(&owner, days(0)), ended, "it is no invitation");
    invitation.revoked_at = days(0);
    assert_eq!(claim(&invitation, days(0)), ended);
}

#[test]
fn an_owner_is_replaced_by_an_owner() {
    let owner = key(1, &Scope::ALL, None);
    let invite = |scopes: &[Scope], expiry, replaced| {
        let invited = owner.invite(&grant(scopes, expiry), Some(replaced), now());
        invited.map(drop)
    };
    let weaker = Err(KeyRejection::WeakerThanReplaced);
    assert_eq!(invite(&[Scope::PetsRead], None, &owner), weaker);
    assert_eq!(invite(&Scope::ALL, days(30), &owner), weaker);
    assert_eq!(invite(&Scope::ALL, None, &owner), Ok(()));
    let staff = key(2, &[Scope::PetsRead], None);
    assert_eq!(invite(&[Scope::OrdersRead], days(1), &staff), Ok(()));
}

#[test]
fn a_successor_lasts_no_longer_than_the_caller() {
    let staff = key(2, &[Scope::PetsRead], days(30));
    let later = days(10).expect("a time");
    let successor = |caller: Option<&ApiKey>| {
        let successor = staff.successor(caller, later);
        successor.map(|key| key.expires_at)
    };
    assert_eq!(successor(None), Ok(days(40)));
    assert_eq!(successor(Some(&key(1, &Scope::ALL, None))), Ok(days(40)));
    assert_eq!(
        successor(Some(&key(1, &Scope::ALL, days(35)))),
        Ok(days(35))
    );
    assert_eq!(
        successor(Some(&staff)),
        Ok(days(30)),
        "it cannot renew itself"
    );
    let end = days(20);
    let too_long = Err(KeyRejection::OutlastsCaller(end.expect("a time")));
    assert_eq!(successor(Some(&key(1, &Scope::ALL, end))), too_long);
    let missing = Err(KeyRejection::MissingScope(Scope::PetsRead));
    assert_eq!(successor(Some(&key(1, &[Scope::KeysWrite], None))), missing);
    assert_eq!(
        staff.successor(None, days(30).expect("a time")).map(drop),
        Err(KeyRejection::NotRotatable)
    );
}

#[test]
fn a_key_revokes_itself_and_what_it_could_grant() {
    let manager = key(1, &[Scope::PetsRead, Scope::KeysWrite], None);
    let other = |scopes: &[Scope]| manager.ensure_may_revoke(&key(2, scopes, None));
    assert_eq!(other(&[Scope::PetsRead]), Ok(()));
    let missing = KeyRejection::MissingScope(Scope::PetsWrite);
    assert_eq!(other(&[Scope::PetsRead, Scope::PetsWrite]), Err(missing));
    let claimed = key(1, &[Scope::PetsRead], None);
    assert_eq!(claimed.ensure_may_revoke(&claimed), Ok(()));
}

#[test]
fn an_expiry_is_a_time_of_rfc_3339() {
    for valid in [
        "2030-01-31T18:00:00Z",
        "2030-01-31T18:00:00.123Z",
        "2030-01-31T18:00:00+01:00",
    ] {
        assert!(parse_rfc3339(valid).is_some(), "{valid}");
    }
    for invalid in [
        "",
        "2030-01-31",
        "2030-01-31T18:00Z",
        "2030-01-31 18:00:00Z",
        "2030-01-31T18:00:00",
        "2030-01-31T18:00:00+01",
        "2030-01-31T18:00:00+0100",
        "2030-01-31T18:00:00Z[UTC]",
        "2030-02-30T18:00:00Z",
        "2030-01-31T18:00:0é",
    ] {
        assert!(parse_rfc3339(invalid).is_none(), "{invalid}");
    }
}
