//! Cursors, queries of lists, page limits, ids and events' ids: each has exactly one form.

#![no_main]

use std::fmt::Debug;

use domain::{
    api_key::ApiKeyFilter,
    category::CategoryFilter,
    clock::Clock,
    event::EventId,
    order::OrderFilter,
    page::{Cursor, Filter, ListQuery, PageLimit, Position},
    pet::{PetFilter, PetId},
    register::RegisterFilter,
    sales::SalesQuery,
    webhook::{WebhookFilter, delivery::DeliveryFilter},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parse = |list| Some((list, Cursor::parse(text, list).ok()?));
    let lists = [
        PetFilter::LIST,
        OrderFilter::LIST,
        CategoryFilter::LIST,
        WebhookFilter::LIST,
        DeliveryFilter::LIST,
        ApiKeyFilter::LIST,
        RegisterFilter::LIST,
    ];
    let cursors: Vec<_> = lists.into_iter().filter_map(parse).collect();
    assert!(cursors.len() <= 1, "{cursors:?}");
    for (list, cursor) in cursors {
        assert_eq!(cursor.encode(list), text);
    }
    check_query::<PetFilter>(text);
    check_query::<OrderFilter>(text);
    check_query::<CategoryFilter>(text);
    check_query::<WebhookFilter>(text);
    check_query::<DeliveryFilter>(text);
    check_query::<ApiKeyFilter>(text);
    let now = Clock::system().now();
    if let Ok(filter) = RegisterFilter::parse(text, now)
        && let Ok(query) = ListQuery::parse_with(filter, text)
    {
        let next = query.next(Position::of_id(1));
        let filter = RegisterFilter::parse(&next, now).expect("a link is valid");
        assert_eq!(filter, query.filter);
        ListQuery::parse_with(filter, &next).expect("a link is valid");
    }
    if let Ok(query) = SalesQuery::parse(text, now) {
        assert!(!query.period.days().is_empty(), "{query:?}");
    }
    if let Some(id) = EventId::parse(text) {
        assert_eq!(id.to_string(), text);
    }
    if let Some(id) = PetId::parse(text) {
        assert_eq!(id.get().to_string(), text);
    }
    if let Ok(limit) = PageLimit::parse(text) {
        assert_eq!(limit.get().to_string(), text);
    }
});

/// The link to the next page leads to the same query.
fn check_query<F: Filter + Debug>(text: &str) {
    if let Ok(query) = ListQuery::<F>::parse(text) {
        let next = query.next(Position::of_id(1));
        let parsed = ListQuery::<F>::parse(&next).expect("a link is valid");
        assert!(parsed.after.is_some(), "{next}");
        assert_eq!((parsed.filter, parsed.sort), (query.filter, query.sort));
    }
}
