use super::*;
use crate::invalid::join_messages;

const NOW: Timestamp = Timestamp::constant(100, 1_999);

fn parse<T: FromObject>(body: &str) -> Result<T, String> {
    let object = Object::parse(body.as_bytes()).unwrap();
    T::from_object(&object).map_err(|invalid| join_messages(&invalid))
}

fn new(body: &str) -> NewWebhook {
    parse(body).unwrap()
}

fn change(body: &str) -> WebhookChange {
    parse(body).unwrap()
}

fn scopes(scopes: &[Scope]) -> Scopes {
    scopes.iter().copied().collect()
}

fn webhook(body: &str) -> Webhook {
    new(body)
        .create(WebhookId(7), 3, Scopes::all(), NOW)
        .unwrap()
}

#[test]
fn a_webhook_is_shown_as_json() {
    let mut webhook = webhook(
        r#"{"url":"https://example.com/?a=b","types":["pet.updated","order.placed"],
            "description":"Stock ✓","secret":"whsec_"}"#,
    );
    let json = |webhook: &Webhook| serde_json::to_string(webhook).unwrap();
    assert_eq!(
        json(&webhook),
        r#"{"id":7,"url":"https://example.com/?a=b","types":["pet.updated","order.placed"],"description":"Stock ✓","state":"enabled","keyId":3,"createdAt":"1970-01-01T00:01:40.000001Z","updatedAt":"1970-01-01T00:01:40.000001Z"}"#
    );
    webhook.description = None;
    for reason in DisabledReason::ALL {
        webhook.state = WebhookState::Disabled(reason);
        let json = json(&webhook);
        let state = format!(
            r#""state":"disabled","disabledReason":"{}""#,
            reason.as_str()
        );
        assert!(json.contains(&state), "{json}");
        assert!(!json.contains("description"), "{json}");
        assert_eq!(DisabledReason::from_store(reason.as_str()), Some(reason));
    }
}

#[test]
fn a_new_webhook_reports_every_error() {
    let url = r#""url":"https://example.com""#;
    let types = "types: must be an array of one or more of pet.created, pet.updated, \
                 pet.deleted, order.placed, order.updated, order.completed, order.cancelled, \
                 order.returned, category.updated, category.deleted, key.created, key.rotated, \
                 key.revoked, got";
    for (body, expected) in [
        ("{}".into(), "url: required; must be a URL".into()),
        (
            r#"{"url":null}"#.into(),
            "url: must be a string with a URL, got null".into(),
        ),
        (
            format!(r#"{{{url},"types":null}}"#),
            format!("{types} null"),
        ),
        (
            format!(r#"{{{url},"types":"pet.created"}}"#),
            format!("{types} a string"),
        ),
        (
            format!(r#"{{{url},"types":{{}}}}"#),
            format!("{types} an object"),
        ),
        (
            format!(r#"{{{url},"types":[]}}"#),
            format!("{types} an empty array"),
        ),
        (
            format!(r#"{{{url},"types":[7]}}"#),
            format!("{types} an array with 7"),
        ),
        (
            format!(r#"{{{url},"types":["pet"]}}"#),
            format!("{types} \"pet\""),
        ),
        (
            format!(r#"{{{url},"types":["pet.created","pet.created"]}}"#),
            "types: must not contain pet.created more than once".into(),
        ),
        (
            format!(r#"{{{url},"description":7}}"#),
            "description: must be a string or null, got 7".into(),
        ),
        (
            format!(r#"{{{url},"description":"a\u0085"}}"#),
            "description: must not contain control characters, got U+0085".into(),
        ),
        (
            format!(r#"{{{url},"description":"{}"}}"#, "é".repeat(201)),
            "description: must be at most 200 characters long, got 201".into(),
        ),
        (
            r#"{"url":"https://","types":[],"description":{}}"#.into(),
            format!(
                "url: must contain a host; {types} an empty array; description: must be a \
                 string or null, got an object"
            ),
        ),
    ] {
        assert_eq!(parse::<NewWebhook>(&body), Err(expected), "{body}");
    }
    let longest = format!(r#"{{{url},"description":"{}"}}"#, "é".repeat(200));
    assert!(new(&longest).description.is_some());
    let none = new(&format!(r#"{{{url},"description":null}}"#));
    assert_eq!((none.types, none.description), (None, None));
}

#[test]
fn a_change_reports_every_error() {
    let expected = "url: must be a string with a URL, got null; description: must be a string \
                    or null, got a boolean; state: must be one of enabled, disabled, got \"on\"";
    let body = r#"{"url":null,"description":true,"state":"on"}"#;
    assert_eq!(parse::<WebhookChange>(body), Err(expected.into()));
    let state = "state: must be one of enabled, disabled, got null";
    assert_eq!(
        parse::<WebhookChange>(r#"{"state":null}"#),
        Err(state.into())
    );
    assert!(parse::<WebhookChange>(r#"{"types":[]}"#).is_err());
}

#[test]
fn a_webhook_delivers_only_what_the_key_can_read() {
    use Scope::*;
    let all = r#"{"url":"https://example.com"}"#;
    let orders = r#"{"url":"https://example.com","types":["order.placed","pet.created"]}"#;
    for (body, granted, expected) in [
        (all, &[PetsRead, OrdersRead][..], Ok(10)),
        (all, &[PetsRead, OrdersWrite], Ok(5)),
        (all, &[OrdersRead], Ok(5)),
        (all, &[PetsWrite, OrdersWrite], Err(PetsRead)),
        (orders, &[PetsRead, OrdersRead], Ok(2)),
        (orders, &[PetsRead], Err(OrdersRead)),
        (orders, &[OrdersRead], Err(PetsRead)),
    ] {
        let created = new(body).create(WebhookId(1), 3, scopes(granted), NOW);
        let visible = created.map(|webhook| {
            let mut types = webhook.types.iter();
            assert!(types.all(|kind| scopes(granted).has(kind.scope())));
            webhook.types.iter().count()
        });
        assert_eq!(visible, expected, "{body} {granted:?}");
    }
}

#[test]
fn a_change_changes_what_it_names() {
    let before =
        webhook(r#"{"url":"https://a.example","types":["pet.created"],"description":"a"}"#);
    let later = Timestamp::constant(200, 0);
    let changed = |body, at| change(body).decide(&before, Scopes::all(), at).unwrap();
    let with = |change: fn(&mut Webhook)| {
        let mut after = before.clone();
        after.updated_at = later;
        change(&mut after);
        Some(after)
    };
    for (body, expected) in [
        ("{}", None),
        (
            r#"{"url":"https://a.example","types":["pet.created"],"description":"a","state":"enabled"}"#,
            None,
        ),
        (
            r#"{"url":"https://b.example"}"#,
            with(|w| w.url = WebhookUrl::parse("https://b.example").unwrap()),
        ),
        (
            r#"{"types":["order.placed"]}"#,
            with(|w| w.types = [EventType::OrderPlaced].into_iter().collect()),
        ),
        // All but those about keys.
        (
            r#"{"types":null}"#,
            with(|w| w.types = EventTypes::visible_to(None, Scopes::all_but_keys()).unwrap()),
        ),
        (r#"{"description":null}"#, with(|w| w.description = None)),
        (
            r#"{"description":"b"}"#,
            with(|w| w.description = Some(Description("b".into()))),
        ),
        (
            r#"{"state":"disabled"}"#,
            with(|w| w.state = WebhookState::Disabled(DisabledReason::Requested)),
        ),
    ] {
        assert_eq!(changed(body, later), expected, "{body}");
    }
    // The clock of another replica may be behind.
    let earlier = changed(r#"{"description":null}"#, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(earlier.updated_at, before.updated_at);
}

#[test]
fn disabling_again_keeps_the_reason_and_enabling_clears_it() {
    let gone = Webhook {
        state: WebhookState::Disabled(DisabledReason::ReceiverGone),
        ..webhook(r#"{"url":"https://a.example"}"#)
    };
    let decide = |body| change(body).decide(&gone, Scopes::all(), NOW).unwrap();
    assert_eq!(decide(r#"{"state":"disabled"}"#), None);
    let enabled = decide(r#"{"state":"enabled"}"#).unwrap();
    assert_eq!(enabled.state, WebhookState::Enabled);
    let renamed = decide(r#"{"description":"b"}"#).unwrap();
    assert_eq!(renamed.state, gone.state);
}

/// A key must not have events sent to itself that it cannot read.
#[test]
fn a_key_cannot_redirect_events_that_it_cannot_read() {
    let before = webhook(r#"{"url":"https://a.example","types":["order.placed"]}"#);
    let pets = scopes(&[Scope::PetsRead]);
    let decide = |body| change(body).decide(&before, pets, NOW);
    for body in [
        r#"{"url":"https://b.example"}"#,
        r#"{"state":"disabled"}"#,
        // The webhook may still have deliveries to retry.
        r#"{"url":"https://b.example","types":null}"#,
    ] {
        assert_eq!(decide(body), Err(Scope::OrdersRead), "{body}");
    }
}
