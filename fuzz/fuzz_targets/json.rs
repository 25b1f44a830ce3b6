//! JSON bodies: what is accepted is a JSON object to another parser too, with the same
//! values.

#![no_main]

use domain::{
    json::{FromObject, Object},
    pet::{NewPet, PetChange},
    settings::{Settings, SettingsChange},
};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let Ok(object) = Object::parse(body) else {
        return;
    };
    serde_json::from_slice::<IgnoredAny>(body).expect("accepted, so it is JSON");
    let _ = PetChange::from_object(&object);
    if let Ok(change) = SettingsChange::from_object(&object) {
        let decide = |before: &Settings| change.decide(before, None).expect("nothing is expected");
        let before = Settings::default();
        let after = decide(&before);
        assert_eq!(decide(&after), after);
        assert_eq!(after.differences(&before).is_empty(), after == before);
    }
    // A number that no double can hold is JSON, but not a value of the other parser.
    let Ok(other) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    assert!(other.is_object());
    if let Ok(pet) = NewPet::from_object(&object) {
        assert_eq!(other["name"], pet.name.as_str());
        // The other parser reads 1e2 as a floating-point number.
        if let Some(number) = other["categoryId"].as_i64() {
            assert_eq!(number, pet.category_id);
        }
    }
});
