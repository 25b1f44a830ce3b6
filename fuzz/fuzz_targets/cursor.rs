//! Cursors, queries of lists, page limits, ids and events' ids: each has exactly one form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petstore::{
    event::EventId,
    page::{Cursor, ListKind, ListQuery, PageLimit, Position},
    pet::{PetFilter, PetId},
};

fuzz_target!(|text: &str| {
    let pets = Cursor::parse(text, ListKind::Pets);
    let orders = Cursor::parse(text, ListKind::Orders);
    assert!(pets.is_err() || orders.is_err());
    for (cursor, list) in [(pets, ListKind::Pets), (orders, ListKind::Orders)] {
        if let Ok(cursor) = cursor {
            assert_eq!(cursor.encode(list), text);
        }
    }
    if let Ok(query) = ListQuery::<PetFilter>::parse(text) {
        let next = query.next(Position::of_id(1));
        let parsed = ListQuery::<PetFilter>::parse(&next).expect("a link is valid");
        assert_eq!((parsed.filter, parsed.sort), (query.filter, query.sort));
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
