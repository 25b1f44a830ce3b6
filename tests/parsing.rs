//! Property tests of the parsers: JSON, numbers, cursors, ids, names, keys and
//! rate limits. And a test of the seeds from which the fuzz targets start.

#![allow(clippy::unwrap_used)]

use std::{any::type_name, collections::HashSet, fs, process::Command};

use api::RateLimit;
use domain::{
    api_key::{ApiKeyFilter, ApiKeySecret, PresentedKey, Scope, Scopes},
    category::CategoryFilter,
    event::EventId,
    json::{FromObject, Object},
    order::OrderFilter,
    page::{Cursor, Filter, ListQuery, PageLimit, Position},
    pet::{NewPet, PetFilter, PetId, PetName},
    register::RegisterFilter,
    sales::{Grouping, SalesQuery},
    settings::{Settings, SettingsChange},
    webhook::{WebhookFilter, delivery::DeliveryFilter},
};
use jiff::Timestamp;
use proptest::{prelude::*, sample::Index};

fn position() -> impl Strategy<Value = Position> {
    ("\\PC{0,20}", any::<i64>()).prop_map(|(key, id)| Position {
        key: key.into(),
        id,
    })
}

fn cursor() -> impl Strategy<Value = Cursor> {
    (any::<u32>(), position()).prop_map(|(query, position)| Cursor { query, position })
}

/// A query string with some of the parameters.
fn joined<const N: usize>(parameters: [&'static str; N]) -> impl Strategy<Value = String> {
    let parameters = parameters.map(proptest::option::of);
    Vec::from(parameters)
        .prop_map(|parts| parts.into_iter().flatten().collect::<Vec<_>>().join("&"))
}

/// A valid query string with some of the parameters.
fn pet_query() -> impl Strategy<Value = String> {
    let parameters = [
        "status=(sold|pending)",
        "categoryId=(-1|2)",
        "name=(re|Re|%C3%89)",
        "id=(1|2,1|1,2)",
        "sort=(asc|desc)",
        "limit=(1|2)",
    ];
    joined(parameters)
}

/// A query string of a period with some of the parameters, mostly valid.
fn period_query() -> impl Strategy<Value = String> {
    let parameters = [
        "entry=(acquired|sold|x)",
        "by=(day|week|month|category|key|x)",
        "from=20(25|26)-(01|02|12|13)-(01|28|29|31)",
        "to=20(26|35|99)-(02|03)-(01|28|31)",
        "timeZone=(UTC|europe/berlin|Asia/Kathmandu|Mars)",
        "limit=(1|2)",
    ];
    joined(parameters)
}

/// A query string of a register with the required parameter and some of the others.
fn valid_register_query() -> impl Strategy<Value = String> {
    let optional = [
        "from=2025-(01|02|12)-(01|28)",
        "to=2026-(02|03)-(01|28)",
        "timeZone=(UTC|europe/berlin|Asia/Kathmandu)",
        "limit=(1|2)",
    ];
    ("entry=(acquired|sold)", joined(optional))
        .prop_map(|(entry, optional)| format!("{entry}&{optional}"))
}

fn register_query(query: &str) -> Option<ListQuery<RegisterFilter>> {
    let filter = RegisterFilter::parse(query, Timestamp::UNIX_EPOCH).ok()?;
    ListQuery::parse_with(filter, query).ok()
}

/// A merge patch of the settings with some of the members.
fn settings_change() -> impl Strategy<Value = String> {
    let members = [
        r#""name":("(A|B)"|null)"#,
        r#""address":("(A|B)"|null)"#,
        r#""receiptText":("(A|B)"|null)"#,
        r#""currency":("(EUR|USD)"|null)"#,
    ];
    let members = Vec::from(members.map(proptest::option::of));
    members.prop_map(|members| {
        let members: Vec<_> = members.into_iter().flatten().collect();
        format!("{{{}}}", members.join(","))
    })
}

proptest! {
    /// Arbitrary bytes never panic, and parse only if they are a JSON object.
    #[test]
    fn arbitrary_bytes_are_an_object_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let is_object = serde_json::from_slice::<serde_json::Value>(&bytes).is_ok_and(|v| v.is_object());
        // Stricter than serde_json is fine, more lenient is not.
        prop_assert!(is_object || Object::parse(&bytes).is_err());
    }

    /// Text close to JSON reaches more edge cases.
    #[test]
    fn near_json_is_an_object_or_rejected(text in r#"[\[\]{}",:\\u0-9a-fnul tre.eE+\-]{0,40}"#) {
        let is_object = serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|v| v.is_object());
        prop_assert!(is_object || Object::parse(text.as_bytes()).is_err());
    }

    /// An object with unique members parses, and every member is found.
    #[test]
    fn objects_parse(members in proptest::collection::hash_map(".{0,8}", any::<i64>(), 0..8)) {
        let text = serde_json::to_string(&members).unwrap();
        let object = Object::parse(text.as_bytes()).unwrap();
        for (name, value) in &members {
            prop_assert_eq!(object.get(name).unwrap().as_int64(), Some(*value));
        }
    }

    /// A whole number keeps its value wherever its point and exponent are.
    #[test]
    fn numbers_parse_by_value(value: i64, zeros in 0usize..30, shift in 0usize..25) {
        let digits = value.unsigned_abs().to_string();
        let sign = if value < 0 { "-" } else { "" };
        // 123 → 123000.00e-3, or 0.123e3 and so on.
        let widened = format!("{sign}{digits}{}e-{zeros}", "0".repeat(zeros));
        let padded = format!("{:0>1$}", digits, shift + 1);
        let (whole, fraction) = padded.split_at(padded.len() - shift);
        let whole = match whole.trim_start_matches('0') { "" => "0", whole => whole };
        let point = if fraction.is_empty() { "" } else { "." };
        let moved = format!("{sign}{whole}{point}{fraction}E+{shift}");
        for text in [widened, moved] {
            prop_assert_eq!(number(&text), Some(value), "{}", text);
        }
    }

    /// A number with a fraction, or outside the range of int64, is rejected.
    #[test]
    fn other_numbers_are_rejected(value: i64, tenths in 1u8..10, beyond in 1u64..) {
        prop_assert_eq!(number(&format!("{value}.{tenths}")), None);
        prop_assert_eq!(number(&format!("{value}{tenths}e-1")), None);
        let above = i128::from(i64::MAX) + i128::from(beyond);
        let below = i128::from(i64::MIN) - i128::from(beyond);
        prop_assert_eq!(number(&above.to_string()), None);
        prop_assert_eq!(number(&below.to_string()), None);
    }

    /// A cursor round-trips, and only for its own list.
    #[test]
    fn cursors_round_trip(cursor in cursor()) {
        let text = cursor.encode(PetFilter::LIST);
        prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
        prop_assert_eq!(Cursor::parse(&text, PetFilter::LIST).unwrap(), cursor);
        prop_assert!(Cursor::parse(&text, OrderFilter::LIST).is_err());
    }

    /// The checksum detects a change of any character.
    #[test]
    fn modified_cursors_are_rejected(
        cursor in cursor(),
        at in any::<Index>(),
        other in "[A-Za-z0-9_-]",
    ) {
        let mut text = cursor.encode(PetFilter::LIST);
        let at = at.index(text.len());
        prop_assume!(text[at..=at] != other);
        text.replace_range(at..=at, &other);
        prop_assert!(Cursor::parse(&text, PetFilter::LIST).is_err());
    }

    /// The link to the next page leads to the same query, and its cursor to no other one.
    #[test]
    fn a_cursor_belongs_to_its_query(
        query in pet_query(),
        other in pet_query(),
        position in position(),
    ) {
        let parse = ListQuery::<PetFilter>::parse;
        let first = parse(&query).unwrap();
        let next = first.next(position.clone());
        let second = parse(&next).unwrap();
        prop_assert_eq!((&second.filter, second.sort), (&first.filter, first.sort));
        prop_assert_eq!(second.after.is_some(), true);
        let other_query = parse(&other).unwrap();
        let cursor = next.split('&').find(|part| part.starts_with("cursor=")).unwrap();
        let same = (other_query.filter, other_query.sort) == (first.filter, first.sort);
        prop_assert_eq!(parse(&format!("{other}&{cursor}")).is_ok(), same);
    }

    /// The link to the next page of a register leads to the same entries, whenever it is followed,
    /// from a position in their period.
    #[test]
    fn a_page_of_the_register_leads_to_the_next(
        query in valid_register_query(),
        position in position(),
    ) {
        let now: Timestamp = "2026-02-28T12:00:00Z".parse().unwrap();
        let filter = RegisterFilter::parse(&query, now).unwrap();
        let first = ListQuery::parse_with(filter, &query).unwrap();
        let next = first.next(position);
        let second = register_query(&next).unwrap();
        prop_assert_eq!(&second.filter, &first.filter);
        let after = second.after.unwrap();
        prop_assert!((after.key, after.id) >= (first.filter.start().key, 0));
    }

    /// Days of a report lie in its period.
    #[test]
    fn queries_of_reports_have_a_limit(query in period_query()) {
        let now: Timestamp = "2026-02-28T12:00:00Z".parse().unwrap();
        if let Ok(SalesQuery { period, by }) = SalesQuery::parse(&query, now) {
            let days = period.days();
            let most = if by == Grouping::Day { 366 } else { 3660 };
            prop_assert!((1..=most).contains(&days.len()));
            prop_assert_eq!((days[0].1, days[days.len() - 1].1), (period.from, period.to));
            prop_assert!(days.is_sorted());
        }
    }

    /// A change of the settings names exactly the members that it changes, and has no effect the
    /// second time.
    #[test]
    fn changes_of_settings_name_what_they_change(
        changes in prop::collection::vec(settings_change(), 1..5),
    ) {
        let mut settings = Settings::default();
        for body in changes {
            let object = Object::parse(body.as_bytes()).unwrap();
            let change = SettingsChange::from_object(&object).unwrap();
            let changed = change.decide(&settings, Some(&settings)).unwrap();
            let again = change.decide(&changed, None).unwrap();
            prop_assert_eq!(&again, &changed);
            let [before, after] = [&settings, &changed].map(|it| serde_json::to_value(it).unwrap());
            let members = ["name", "address", "receiptText", "currency"];
            let differing = members.into_iter().filter(|member| before.get(member) != after.get(member));
            prop_assert_eq!(changed.differences(&settings), differing.collect::<Vec<_>>());
            settings = changed;
        }
    }

    #[test]
    fn limits_and_ids_are_canonical_decimals(text in "[-+0-9. a]{0,20}") {
        let canonical = text.parse::<i64>().ok().filter(|n| *n > 0 && n.to_string() == text);
        prop_assert_eq!(PetId::parse(&text).map(PetId::get), canonical);
        let limit = canonical.filter(|n| *n <= 100);
        prop_assert_eq!(PageLimit::parse(&text).ok().map(|l| i64::from(l.get())), limit);
    }

    /// A rate limit round-trips, in seconds.
    #[test]
    fn rate_limits_round_trip(requests in 0u32..2_000_000, number in 0u32..100_000, unit in "[smhd]?") {
        let seconds = match &*unit {
            "s" => u64::from(number),
            "m" => 60 * u64::from(number),
            "h" => 3600 * u64::from(number),
            _ => 0,
        };
        let valid = (1..=1_000_000).contains(&requests) && (1..=86_400).contains(&seconds);
        let parsed = format!("{requests}/{number}{unit}").parse::<RateLimit>();
        let shown = parsed.ok().map(|limit| limit.to_string());
        prop_assert_eq!(&shown, &valid.then(|| format!("{requests}/{seconds}s")));
        if let Some(shown) = shown {
            prop_assert_eq!(shown.parse::<RateLimit>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn other_text_is_not_a_rate_limit(text in "[-+0-9/smhd .é]{0,8}") {
        let plain = |number: &str| number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
        let looks_right = text.split_once('/').is_some_and(|(requests, time)| {
            let number = time.strip_suffix(['s', 'm', 'h']);
            !requests.is_empty() && plain(requests) && number.is_some_and(plain)
        });
        prop_assert!(looks_right || text.parse::<RateLimit>().is_err());
    }

    /// Names are accepted by the rule in the contract, and kept unchanged.
    #[test]
    fn names_follow_the_contract(name in any::<String>()) {
        let valid = (1..=255).contains(&name.chars().count())
            && !name.chars().any(char::is_control)
            && !name.chars().all(char::is_whitespace);
        prop_assert_eq!(PetName::parse(&name).ok().map(|n| n.as_str() == name), valid.then_some(true));
    }

    /// The checksum of a secret detects a change of any character.
    #[test]
    fn secrets_are_recognised(at in 0usize..42, other in "[A-Za-z0-9_]") {
        let key = ApiKeySecret::generate();
        let secret = key.reveal();
        prop_assert_eq!(secret.len(), 42);
        let presented = PresentedKey::parse(secret.as_bytes()).unwrap();
        prop_assert!(presented.has_valid_checksum() && presented.hash() == key.hash());
        prop_assume!(secret[at..=at] != other);
        let mut typo = secret.to_string();
        typo.replace_range(at..=at, &other);
        prop_assert!(!is_secret(&typo));
    }

    #[test]
    fn other_text_is_not_a_secret(text in any::<String>()) {
        prop_assert!(!is_secret(&text));
        let prefixed = format!("psk_{text}");
        prop_assert!(!is_secret(&prefixed));
    }
}

fn is_secret(text: &str) -> bool {
    PresentedKey::parse(text.as_bytes()).is_some_and(|key| key.has_valid_checksum())
}

fn number(text: &str) -> Option<i64> {
    let body = format!("{{\"n\":{text}}}");
    Object::parse(body.as_bytes())
        .unwrap()
        .get("n")
        .unwrap()
        .as_int64()
}

#[test]
fn scopes_are_sets() {
    let some: Scopes = [Scope::PetsRead, Scope::OrdersWrite, Scope::PetsRead]
        .into_iter()
        .collect();
    assert_eq!(some.to_string(), "pets:read orders:write");
    assert!(some.has(Scope::PetsRead) && !some.has(Scope::PetsWrite));
    assert!(Scope::ALL.iter().all(|scope| Scopes::all().has(*scope)));
    assert_eq!("pets:write".parse(), Ok(Scope::PetsWrite));
}

#[test]
fn rate_limits_have_short_forms() {
    for (text, limit) in [
        ("600/60s", "600/60s"),
        ("10/s", "10/1s"),
        ("5/m", "5/60s"),
        ("1000/1h", "1000/3600s"),
        ("1000000/24h", "1000000/86400s"),
    ] {
        let read = text.parse::<RateLimit>().map(|limit| limit.to_string());
        assert_eq!(read, Ok(limit.into()));
    }
    let wrong = "600 per minute".parse::<RateLimit>().unwrap_err();
    for part in ["1 to 1000000", "1s to 24h", "600/60s", "600 per minute"] {
        assert!(wrong.reason.contains(part), "{wrong}");
    }
}

/// All validation errors are reported at once.
#[test]
fn an_invalid_pet_gets_every_error() {
    let object = Object::parse(br#"{"name":"","status":"lost"}"#).unwrap();
    let wrong = NewPet::from_object(&object).unwrap_err();
    let fields: Vec<_> = wrong.iter().map(|invalid| &*invalid.field).collect();
    assert_eq!(fields, ["name", "categoryId", "status"]);
}

/// The fuzzer has no chance to guess a checksum: without seeds that parse, it tests hardly
/// more than base64.
#[test]
#[ignore = "needs python3; make test installs it and runs this"]
fn fuzzing_starts_from_seeds_that_parse() {
    let corpus = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seed.py");
    let mut python = Command::new("python3");
    let written = python.args([script.as_ref(), corpus.path()]).output();
    let written = written.unwrap_or_else(|cause| panic!("cannot run python3: {cause}"));
    assert!(written.status.success(), "{written:?}");
    let read = |target: &str| -> Vec<Vec<u8>> {
        let files = fs::read_dir(corpus.path().join(target)).unwrap();
        files
            .map(|f| fs::read(f.unwrap().path()).unwrap())
            .collect()
    };
    for target in ["request", "log_path", "photo"] {
        assert!(!read(target).is_empty(), "{target}");
    }
    let json = read("json");
    let is_pet = |body: &Vec<u8>| {
        Object::parse(body).is_ok_and(|object| NewPet::from_object(&object).is_ok())
    };
    assert!(json.iter().any(is_pet));
    let is_change_of_settings = |body: &Vec<u8>| {
        let object = Object::parse(body).ok();
        let change = object.and_then(|object| SettingsChange::from_object(&object).ok());
        change.is_some_and(|change| change != SettingsChange::default())
    };
    assert!(json.iter().any(is_change_of_settings));

    let seeds = read("cursor");
    let seeds: Vec<_> = seeds.iter().map(|it| str::from_utf8(it).unwrap()).collect();
    let lists = [
        PetFilter::LIST,
        OrderFilter::LIST,
        CategoryFilter::LIST,
        WebhookFilter::LIST,
        DeliveryFilter::LIST,
        ApiKeyFilter::LIST,
        RegisterFilter::LIST,
    ];
    for list in lists {
        let mut by_id = 0;
        let mut by_name = 0;
        for cursor in seeds.iter().filter_map(|it| Cursor::parse(it, list).ok()) {
            if cursor.position.key.is_empty() {
                by_id += 1;
            } else {
                by_name += 1;
            }
        }
        assert!(by_id > 1 && by_name > 1, "{list:?}: {by_id} {by_name}");
    }
    assert_has_queries::<PetFilter>(&seeds);
    assert_has_queries::<OrderFilter>(&seeds);
    assert_has_queries::<CategoryFilter>(&seeds);
    assert_has_queries::<WebhookFilter>(&seeds);
    assert_has_queries::<DeliveryFilter>(&seeds);
    assert_has_queries::<ApiKeyFilter>(&seeds);
    let pages = seeds.iter().filter_map(|it| register_query(it));
    let kinds: HashSet<_> = pages
        .filter(|page| page.after.is_some())
        .map(|page| page.filter.entry)
        .collect();
    assert_eq!(kinds.len(), 2);
    let reports = seeds.iter().filter(|it| it.contains("by="));
    assert!(reports.clone().count() > 1);
    for report in reports {
        assert!(
            SalesQuery::parse(report, Timestamp::now()).is_ok(),
            "{report}"
        );
    }
    let ids = seeds.iter().filter_map(|it| EventId::parse(it));
    assert!(ids.count() > 1);
    assert!(seeds.iter().any(|it| PetId::parse(it).is_some()));
    assert!(seeds.iter().any(|it| PageLimit::parse(it).is_ok()));
    assert!(seeds.contains(&&*EventId::START.to_string()));
}

/// Some seeds are links to a later page of the list, with and without a filter if it has
/// any.
fn assert_has_queries<F: Filter + Default>(seeds: &[&str]) {
    let queries = seeds.iter().filter_map(|it| ListQuery::<F>::parse(it).ok());
    let links: Vec<_> = queries.filter(|query| query.after.is_some()).collect();
    let is_filtered = |query: &&ListQuery<F>| query.filter != F::default();
    let filtered = links.iter().filter(is_filtered).count();
    let total = links.len();
    let list = type_name::<F>();
    assert!(filtered < total, "{list}: {filtered} of {total}");
    let has_filter = size_of::<F>() > 0;
    assert_eq!(filtered > 0, has_filter, "{list}: {filtered} of {total}");
}
