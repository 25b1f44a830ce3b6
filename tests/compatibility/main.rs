//! `/v1` stays backward compatible: the contract is compared with the last released
//! one, `released.json` in this directory.

#![allow(clippy::unwrap_used)]

mod rules;

use api::Contract;
use rules::breaking_changes;
use serde_json::{Value, json};

fn contract() -> Value {
    let address = "http://127.0.0.1:8080/v1".parse().unwrap();
    serde_json::from_str(&Contract::new(address, None).json()).unwrap()
}

fn released() -> Value {
    serde_json::from_str(include_str!("released.json")).unwrap()
}

#[test]
fn the_contract_is_backward_compatible() {
    let breaking = breaking_changes(&released(), &contract());
    assert!(breaking.is_empty(), "{}", breaking.join("\n"));
}

/// An edit of the released contract that the comparison has to classify.
type Change = fn(&mut Value);

fn assert_breaking(changes: &[(&str, Change)]) {
    for (expected, change) in changes {
        let mut changed = released();
        change(&mut changed);
        assert_ne!(changed, released(), "{expected}: the edit changed nothing");
        let breaking = breaking_changes(&released(), &changed);
        assert!(
            breaking.iter().any(|found| found.contains(expected)),
            "{expected}: {breaking:?}"
        );
    }
}

fn remove(object: &mut Value, member: &str) {
    object.as_object_mut().unwrap().remove(member).unwrap();
}

fn schema<'a>(contract: &'a mut Value, name: &str) -> &'a mut Value {
    &mut contract["components"]["schemas"][name]
}

/// Replaces the schema of the order in which pets are listed, which has two values.
fn replace_sort(contract: &mut Value, schema: Value) {
    contract["components"]["parameters"]["Sort"]["schema"] = schema;
}

#[test]
fn removals_are_breaking() {
    assert_breaking(&[
        ("/pets/{petId}: removed", |c| {
            remove(&mut c["paths"], "/pets/{petId}")
        }),
        ("post /pets: removed", |c| {
            remove(&mut c["paths"]["/pets"], "post")
        }),
        ("operationId", |c| {
            c["paths"]["/pets"]["get"]["operationId"] = json!("allPets")
        }),
        ("response 413: removed", |c| {
            remove(&mut c["paths"]["/pets"]["post"]["responses"], "413")
        }),
        ("parameter limit: removed", |c| {
            c["paths"]["/pets"]["get"]["parameters"]
                .as_array_mut()
                .unwrap()
                .remove(0);
        }),
        ("header ETag: removed", |c| {
            remove(
                &mut c["paths"]["/pets"]["get"]["responses"]["200"]["headers"],
                "ETag",
            );
        }),
        ("header ETag: no longer guaranteed", |c| {
            c["components"]["headers"]["ETag"]["required"] = json!(false);
        }),
        ("name: removed", |c| {
            remove(&mut schema(c, "Pet")["properties"], "name")
        }),
        ("categoryId: no longer guaranteed", |c| {
            schema(c, "Pet")["required"] = json!(["id", "name"])
        }),
        ("value \"sold\": removed", |c| {
            schema(c, "PetStatus")["enum"] = json!(["available", "pending"])
        }),
        ("application/json: removed", |c| {
            remove(
                &mut c["paths"]["/pets"]["post"]["requestBody"]["content"],
                "application/json",
            );
        }),
    ]);
}

#[test]
fn new_values_in_responses_are_breaking() {
    assert_breaking(&[("value \"lost\": added to a closed enum", |c| {
        schema(c, "PetStatus")["enum"] = json!(["available", "pending", "sold", "lost"])
    })]);
}

#[test]
fn stricter_requirements_are_breaking() {
    assert_breaking(&[
        ("status: newly required", |c| {
            schema(c, "NewPet")["required"] = json!(["name", "categoryId", "status"]);
        }),
        ("parameter shop: newly required", |c| {
            let shop = json!({"name": "shop", "in": "query", "required": true, "schema": {}});
            c["paths"]["/pets"]["get"]["parameters"]
                .as_array_mut()
                .unwrap()
                .push(shop);
        }),
        ("parameter limit: newly required", |c| {
            c["components"]["parameters"]["Limit"]["required"] = json!(true);
        }),
        ("maximum", |c| {
            c["components"]["parameters"]["Limit"]["schema"]["maximum"] = json!(50)
        }),
        ("minimum", |c| {
            c["components"]["parameters"]["Limit"]["schema"]["minimum"] = json!(2)
        }),
        ("default", |c| {
            c["components"]["parameters"]["Limit"]["schema"]["default"] = json!(10)
        }),
        ("maxLength", |c| {
            schema(c, "PetName")["maxLength"] = json!(100)
        }),
        ("minLength", |c| {
            schema(c, "PetName")["minLength"] = json!(2)
        }),
        ("pattern", |c| {
            schema(c, "PetName")["pattern"] = json!("^[a-z]+$")
        }),
        ("parameter sort: pattern", |c| {
            replace_sort(c, json!({"type": "string", "pattern": "^asc$"}))
        }),
        ("parameter sort: pattern", |c| {
            let values = json!(["asc", "desc"]);
            replace_sort(
                c,
                json!({"type": "string", "enum": values, "pattern": "^[a-z]+$"}),
            )
        }),
        ("type", |c| {
            schema(c, "CategoryId")["type"] = json!("string")
        }),
        ("maxLength", |c| {
            schema(c, "CategoryId")["maxLength"] = json!(5)
        }),
    ]);
}

#[test]
fn additions_are_compatible() {
    let changes: [Change; 7] = [
        |c| c["paths"]["/pets"]["patch"] = json!({"operationId": "x", "responses": {}}),
        |c| c["paths"]["/pets"]["get"]["responses"]["418"] = json!({"description": "x"}),
        |c| schema(c, "Pet")["properties"]["colour"] = json!({"type": "string"}),
        |c| schema(c, "NewPet")["properties"]["colour"] = json!({"type": "string"}),
        |c| c["components"]["parameters"]["Limit"]["schema"]["maximum"] = json!(200),
        |c| remove(&mut c["paths"], "/store/orders"), // experimental
        |c| {
            replace_sort(
                c,
                json!({"type": "string", "pattern": "^(asc|desc|,)+$", "default": "asc"}),
            )
        },
    ];
    for change in changes {
        let mut changed = released();
        change(&mut changed);
        assert_ne!(changed, released());
        assert_eq!(
            breaking_changes(&released(), &changed),
            Vec::<String>::new()
        );
    }
}

/// Within `/v1`, errors may gain codes and members. That is additive only while the
/// contract excludes none.
#[test]
fn errors_are_open() {
    let open = contract();
    let mut closed = contract();
    let error = schema(&mut closed, "Error");
    assert_eq!(error["properties"]["code"]["enum"], Value::Null);
    let known = error["properties"]["code"]["examples"].clone();
    error["properties"]["code"]["enum"] = known;
    error["additionalProperties"] = json!(false);

    let breaking = breaking_changes(&open, &closed);
    for expected in [
        "get /pets response 401 application/json code: newly restricted to an enum",
        "get /pets response 401 application/json: additional members newly forbidden",
    ] {
        assert!(
            breaking.iter().any(|found| found == expected),
            "{expected}: {breaking:?}"
        );
    }
    assert_eq!(breaking_changes(&closed, &open), Vec::<String>::new());
}
