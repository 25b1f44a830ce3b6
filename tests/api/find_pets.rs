//! `GET /pets`: finding pets by id, category, name and status, in both directions.

use std::collections::BTreeSet;

use domain::{
    page::{Cursor, Filter, Position},
    pet::PetFilter,
};
use form_urlencoded::Serializer;
use futures_util::future::join_all;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use support::Backend;

use crate::harness::Server;

support::cases! {
    DATABASES: [
        every_combination_of_filters_finds_exactly_its_pets,
        names_are_found_ignoring_case,
        short_pages_lead_to_all_items,
        changes_during_a_walk_hide_no_pet,
        a_cursor_belongs_to_its_query,
        ids_and_categories_are_found,
        invalid_filters_get_400,
    ],
}

/// Parts of names, each with its folded form. None of them changes its neighbours.
const PARTS: &[(&str, &str)] = &[
    ("Rex", "rex"),
    ("rEX", "rex"),
    ("e", "e"),
    ("é", "é"),
    ("É", "é"),
    ("E\u{301}", "é"),
    ("ß", "ss"),
    ("ẞ", "ss"),
    ("SS", "ss"),
    ("s", "s"),
    ("Σ", "σ"),
    ("ς", "σ"),
    ("İ", "i\u{307}"),
    ("ı", "ı"),
    ("I", "i"),
    ("ﬃ", "ffi"),
    ("q\u{307}\u{323}", "q\u{323}\u{307}"),
    ("q\u{323}\u{307}", "q\u{323}\u{307}"),
    ("%", "%"),
    ("_", "_"),
    ("\\", "\\"),
    ("a b", "a b"),
    ("\u{d7ff}", "\u{d7ff}"),
    ("\u{10ffff}", "\u{10ffff}"),
    ("🐕", "🐕"),
    ("Жучка", "жучка"),
];

const STATUSES: [Option<&str>; 4] = [None, Some("available"), Some("pending"), Some("sold")];
const CATEGORIES: [i64; 4] = [i64::MIN, -1, 0, i64::MAX];

/// The test's record of a pet, from which it computes the expected lists.
struct Model {
    id: i64,
    /// The folded name.
    key: String,
    category: i64,
    status: Option<&'static str>,
}

/// The pets whose names start with a few parts, concatenated.
fn name_of(parts: &[usize]) -> (String, String) {
    parts.iter().map(|part| PARTS[*part]).unzip()
}

fn query(pairs: &[(&str, String)]) -> String {
    let mut query = Serializer::new(String::from("/v1/pets?"));
    query.extend_pairs(pairs);
    query.finish().replacen("?&", "?", 1)
}

fn ids(pets: &[Value]) -> Vec<i64> {
    pets.iter().map(|pet| pet["id"].as_i64().unwrap()).collect()
}

/// Every combination of filters, in both directions, compared with a naive search.
async fn every_combination_of_filters_finds_exactly_its_pets(backend: Backend) {
    let server = Server::start(backend).await;
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut pets = Vec::new();
    for _ in 0..4 {
        let batch: Vec<_> = (0..50)
            .map(|n| {
                let count = random.random_range(1..4);
                let parts: Vec<_> = (0..count)
                    .map(|_| random.random_range(0..PARTS.len()))
                    .collect();
                let (mut name, mut key) = name_of(&parts);
                // Only the first 64 characters decide, and then the id.
                if n % 10 == 0 {
                    name += &"X".repeat(100);
                    key += &"x".repeat(100);
                }
                let category = CATEGORIES[random.random_range(0..4)];
                let status = STATUSES[random.random_range(0..4)];
                (name, key, category, status)
            })
            .collect();
        let creates = batch
            .into_iter()
            .map(async |(name, key, category, status)| {
                let mut pet = json!({"name": name, "categoryId": category});
                if let Some(status) = status {
                    pet["status"] = status.into();
                }
                Model {
                    id: server.create(pet).await,
                    key: key.chars().take(64).collect(),
                    category,
                    status,
                }
            });
        pets.extend(join_all(creates).await);
    }
    let mut walks = Vec::new();
    for filters in 0..32 {
        for _ in 0..2 {
            let mut found: Vec<_> = pets.iter().collect();
            let mut pairs = Vec::new();
            if filters & 1 != 0 {
                let chosen = random.random_range(1..8);
                let mut statuses: Vec<_> = (0..3)
                    .filter(|status| chosen >> status & 1 == 1)
                    .filter_map(|status| STATUSES[status + 1])
                    .collect();
                statuses.reverse();
                found.retain(|pet| pet.status.is_some_and(|it| statuses.contains(&it)));
                pairs.push(("status", statuses.join(",")));
            }
            if filters & 2 != 0 {
                let category = CATEGORIES[random.random_range(0..4)];
                found.retain(|pet| pet.category == category);
                pairs.push(("categoryId", category.to_string()));
            }
            if filters & 4 != 0 {
                let (prefix, key) = name_of(&[random.random_range(0..PARTS.len())]);
                found.retain(|pet| pet.key.starts_with(&key));
                pairs.push(("name", prefix));
            }
            if filters & 8 != 0 {
                let ids: Vec<_> = (0..100).map(|_| random.random_range(1..250)).collect();
                found.retain(|pet| ids.contains(&pet.id));
                let ids: Vec<_> = ids.iter().map(i64::to_string).collect();
                pairs.push(("id", ids.join(",")));
            }
            found.sort_by(|a, b| match filters & 4 {
                0 => a.id.cmp(&b.id),
                _ => (&a.key, a.id).cmp(&(&b.key, b.id)),
            });
            if filters & 16 != 0 {
                found.reverse();
                pairs.push(("sort", "desc".into()));
            }
            let limit: usize = [1, 7, 20, 100][random.random_range(0..4)];
            let limit = limit.max(found.len() / 6).min(100);
            pairs.push(("limit", limit.to_string()));
            let expected: Vec<_> = found.iter().map(|pet| pet.id).collect();
            walks.push((query(&pairs), expected));
        }
    }
    for some in walks.chunks(16) {
        let some = some.iter().map(async |(path, expected)| {
            let found = ids(&server.walk(path).await);
            assert_eq!(found, *expected, "seed {seed}: {path}");
        });
        join_all(some).await;
    }
}

/// Case is ignored, accents are not, and nothing is a wildcard.
async fn names_are_found_ignoring_case(backend: Backend) {
    let server = Server::start(backend).await;
    let long = "y".repeat(255);
    let names = [
        "Éclair",
        "e\u{301}clair",
        "Eclair",
        "Straße",
        "STRASSE",
        "ΟΔΟΣ",
        "οδος",
        "İstanbul",
        "istanbul",
        "ıstanbul",
        "100%",
        "100_",
        "a\\b",
        "\u{10ffff}",
        "🐕 Rex",
        "  two",
        &long,
    ];
    for name in names {
        server.create(json!({"name": name, "categoryId": 1})).await;
    }
    let y64 = "y".repeat(64);
    let cases: &[(&str, &[&str])] = &[
        ("é", &["e\u{301}clair", "Éclair"]),
        ("É", &["e\u{301}clair", "Éclair"]),
        ("E\u{301}CL", &["e\u{301}clair", "Éclair"]),
        ("e", &["Eclair"]),
        ("strass", &["STRASSE", "Straße"]),
        ("STRAẞE", &["STRASSE", "Straße"]),
        ("οδοΣ", &["ΟΔΟΣ", "οδος"]),
        ("οδος", &["ΟΔΟΣ", "οδος"]),
        ("i", &["istanbul", "İstanbul"]),
        ("İ", &["İstanbul"]),
        ("ı", &["ıstanbul"]),
        ("100", &["100%", "100_"]),
        ("100%", &["100%"]),
        ("100_", &["100_"]),
        ("1_0", &[]),
        ("%", &[]),
        ("A\\", &["a\\b"]),
        ("\u{10ffff}", &["\u{10ffff}"]),
        ("\u{10fffe}", &[]),
        ("🐕", &["🐕 Rex"]),
        ("🐕 REX", &["🐕 Rex"]),
        (" ", &["  two"]),
        ("two", &[]),
        (&y64, &[&long]),
        ("rexx", &[]),
    ];
    for (prefix, expected) in cases {
        let path = query(&[("name", prefix.to_string())]);
        let page = server.get(&path).await.json();
        let pets = page.as_array().unwrap().iter();
        let found: BTreeSet<_> = pets.map(|pet| pet["name"].as_str().unwrap()).collect();
        assert_eq!(
            found,
            BTreeSet::from_iter(expected.iter().copied()),
            "{path}"
        );
    }
    // The name is folded, so it is found by a new name at once, and no longer by the old.
    server.patch("/v1/pets/1", r#"{"name":"ZOË"}"#).await;
    let found = server.get(&query(&[("name", "zoë".into())])).await.json();
    assert_eq!(found[0]["name"], "ZOË");
    let found = server.walk(&query(&[("name", "éclair".into())])).await;
    assert_eq!(ids(&found), [2]);
}

/// 2,500 pets and 2,500 orders of one pet; of each, every 399th has a rare status.
const MANY: &str = "
    INSERT INTO pets (name, search_name, category_id, status)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
    SELECT 'Rex', 'rex', CASE WHEN i % 399 = 0 THEN 7 ELSE 1 END,
           CASE WHEN i % 399 = 0 THEN 'sold' ELSE 'available' END
    FROM n;
    INSERT INTO orders (pet_id, status, created_at, updated_at)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
    SELECT 1, CASE WHEN i % 399 = 0 THEN 'returned' ELSE 'cancelled' END, 0, 0
    FROM n;";

/// A page examines at most 1,000 rows. Links lead to the rest.
async fn short_pages_lead_to_all_items(backend: Backend) {
    let server = Server::start_with(backend, |config| config.sql = MANY).await;
    let rare: Vec<_> = (1..=6).map(|n| n * 399).collect();
    for (filter, expected, is_short) in [
        ("pets?name=re&status=sold", &*rare, true),
        ("pets?name=REX&categoryId=7", &rare, true),
        ("pets?name=rex&categoryId=7&status=sold", &rare, true),
        ("pets?name=rex&categoryId=7&status=pending", &[], true),
        ("pets?name=x&status=sold", &[], false),
        ("pets?name=rex&status=sold&id=399,400,401", &[399], false),
        ("pets?status=sold&categoryId=7", &rare, false),
        ("pets?status=sold,pending&categoryId=7", &rare, false),
        ("pets?status=pending,sold", &rare, false),
        ("pets?name=re&status=sold,pending", &rare, true),
        ("store/orders?petId=1&status=returned", &rare, true),
        ("store/orders?petId=1&status=completed", &[], true),
        ("store/orders?petId=2&status=returned", &[], false),
    ] {
        for (sort, limit) in [("asc", 1), ("asc", 100), ("desc", 2), ("desc", 100)] {
            let path = format!("/v1/{filter}&sort={sort}&limit={limit}");
            let mut found = Vec::new();
            let mut pages = 0;
            let mut short = 0;
            let mut next = Some(path.clone());
            while let Some(path) = next {
                let page = server.get(&path).await;
                let items = ids(page.json().as_array().unwrap());
                assert!(items.len() <= limit, "{path}");
                next = page.next();
                pages += 1;
                short += usize::from(next.is_some() && items.len() < limit);
                found.extend(items);
            }
            let mut expected = expected.to_vec();
            if sort == "desc" {
                expected.reverse();
            }
            assert_eq!(found, expected, "{path}");
            assert!(limit < 100 || (short > 0) == is_short, "{path}");
            // Three times 1,000, and one for each that is full.
            assert!(
                pages <= 3 + expected.len() / limit + 1,
                "{path}: {pages} pages"
            );
        }
    }
    // With many matches, such a page is full.
    for path in [
        "/v1/pets?name=rex&status=available&limit=100",
        "/v1/store/orders?petId=1&status=cancelled&limit=100",
    ] {
        let page = server.get(path).await.json();
        assert_eq!(page.as_array().unwrap().len(), 100, "{path}");
        let all = ids(&server.walk(path).await);
        assert_eq!(all.len(), 2494, "{path}");
        assert!(all.is_sorted_by(|a, b| a < b), "{path}");
    }
}

/// A walk visits every pet that exists and keeps its name throughout, once.
async fn changes_during_a_walk_hide_no_pet(backend: Backend) {
    let server = Server::start(backend).await;
    for filter in [
        "",
        "&name=w",
        "&categoryId=1",
        "&name=w&categoryId=1",
        "&status=sold",
    ] {
        for sort in ["asc", "desc"] {
            let new = |n: usize| {
                let name = format!("W{:02}", n * 37 % 100);
                server.create(json!({"name": name, "categoryId": 1, "status": "sold"}))
            };
            let created = join_all((0..24).map(new)).await;
            // The first third is deleted and the second third renamed, all the way.
            let (deleted, rest) = created.split_at(8);
            let (renamed, kept) = rest.split_at(8);
            let mut next = Some(format!("/v1/pets?limit=4&sort={sort}{filter}"));
            let mut seen = Vec::new();
            let mut step = 0;
            while let Some(path) = next {
                let page = server.get(&path).await;
                seen.extend(ids(page.json().as_array().unwrap()));
                next = page.next();
                if let (Some(delete), Some(rename)) = (deleted.get(step), renamed.get(step)) {
                    let gone = server.delete(&format!("/v1/pets/{delete}")).await;
                    assert_eq!(gone.status, 204);
                    let name = ["A", "Z", "Wa", "W"][step % 4];
                    let change = json!({"name": name}).to_string();
                    server.patch(&format!("/v1/pets/{rename}"), change).await;
                    new(step).await;
                }
                step += 1;
            }
            for id in kept {
                let count = seen.iter().filter(|seen| *seen == id).count();
                assert_eq!(count, 1, "{id} of {seen:?}: {filter} {sort}");
            }
            let rest = ids(&server.walk("/v1/pets?limit=100").await);
            let paths: Vec<_> = rest.iter().map(|id| format!("/v1/pets/{id}")).collect();
            join_all(paths.iter().map(|path| server.delete(path))).await;
        }
    }
}

async fn a_cursor_belongs_to_its_query(backend: Backend) {
    let server = Server::start(backend).await;
    for _ in 0..3 {
        let pet = json!({"name": "Rex", "categoryId": 1, "status": "sold"});
        server.create(pet).await;
    }
    let queries = [
        "limit=1",
        "limit=1&sort=desc",
        "limit=1&status=sold",
        "limit=1&categoryId=1",
        "limit=1&name=rex",
        "limit=1&name=re",
        "limit=1&id=1,2",
        "limit=1&id=1,2,3",
        "limit=1&name=rex&status=sold",
        "limit=1&name=rex&categoryId=1&status=sold&id=1,2,3&sort=desc",
    ];
    let mut cursors = Vec::new();
    for query in queries {
        let next = server.get(&format!("/v1/pets?{query}")).await.next();
        let (_, cursor) = next.as_ref().unwrap().split_once("cursor=").unwrap();
        cursors.push(cursor.to_string());
    }
    for (from, cursor) in queries.iter().zip(&cursors) {
        for query in queries {
            let path = format!("/v1/pets?{query}&cursor={cursor}");
            let page = server.get(&path).await;
            if query == *from {
                assert_eq!(page.status, 200, "{query}");
                continue;
            }
            page.assert_error(400, "invalid_parameter");
            let message = "cursor: belongs to another query";
            assert!(page.text().contains(message), "{}", page.text());
        }
    }
    // Another limit, or another spelling of the same query, is no other query.
    for (query, cursor) in [
        ("limit=50", &cursors[0]),
        ("sort=asc&unknown=1", &cursors[0]),
        ("name=REX&limit=2", &cursors[4]),
        ("name=%52ex", &cursors[4]),
        ("id=2,1,2", &cursors[6]),
        (
            "sort=desc&id=3,1,2&status=sold&categoryId=1&name=rEx",
            &cursors[9],
        ),
    ] {
        let page = server
            .get(&format!("/v1/pets?{query}&cursor={cursor}"))
            .await;
        assert_eq!(page.status, 200, "{query}: {}", page.text());
    }
    // A forged position is refused, too, if no name can be there.
    let forged = Cursor::parse(&cursors[4], PetFilter::LIST).unwrap();
    let position = Position {
        key: "re\0".into(),
        ..forged.position
    };
    let forged = Cursor { position, ..forged }.encode(PetFilter::LIST);
    let page = server
        .get(&format!("/v1/pets?name=rex&cursor={forged}"))
        .await;
    page.assert_error(400, "invalid_parameter");
    let other_list = format!("/v1/store/orders?cursor={}", cursors[0]);
    let page = server.get(&other_list).await;
    page.assert_error(400, "invalid_parameter");
}

async fn ids_and_categories_are_found(backend: Backend) {
    let server = Server::start(backend).await;
    for category in [i64::MIN, -1, 0, i64::MAX, -1] {
        server
            .create(json!({"name": "A", "categoryId": category}))
            .await;
    }
    let many: Vec<_> = (1..=100).map(|id| id.to_string()).collect();
    for (query, expected) in [
        ("id=3", &[3][..]),
        ("id=5,3,3,9", &[3, 5]),
        ("id=5,3&sort=desc", &[5, 3]),
        ("id=9007199254740991", &[]),
        (&format!("id={}", many.join(",")), &[1, 2, 3, 4, 5]),
        ("categoryId=-9223372036854775808", &[1]),
        ("categoryId=-1", &[2, 5]),
        ("categoryId=-1&sort=desc", &[5, 2]),
        ("categoryId=0", &[3]),
        ("categoryId=9223372036854775807", &[4]),
        ("categoryId=7", &[]),
        ("id=1,2,4&categoryId=-1", &[2]),
        ("sort=desc", &[5, 4, 3, 2, 1]),
        ("sort=asc", &[1, 2, 3, 4, 5]),
    ] {
        let found = server.walk(&format!("/v1/pets?{query}")).await;
        assert_eq!(ids(&found), expected, "{query}");
    }
    // An id that does not exist yet is found once it does.
    assert_eq!(server.get("/v1/pets?id=6").await.json(), json!([]));
    server.create_pets(1).await;
    assert_eq!(server.get("/v1/pets?id=6").await.json()[0]["id"], 6);
}

async fn invalid_filters_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    let too_many: Vec<_> = (1..=101).map(|id| id.to_string()).collect();
    let too_many = [
        format!("id={}", too_many.join(",")),
        format!("id=1{}", ",1".repeat(100)),
    ];
    let too_long = [
        format!("name={}", "a".repeat(65)),
        // Folded, each becomes two characters.
        format!("name={}", "%C3%9F".repeat(33)),
    ];
    let queries = [
        "id=",
        "id",
        "id=0",
        "id=-1",
        "id=+1",
        "id=01",
        "id=1.0",
        "id=one",
        "id=1,",
        "id=,1",
        "id=1,,2",
        "id=1;2",
        "id=1,%202",
        "id=1%202",
        "id=9007199254740992",
        "id=9223372036854775808",
        "id=1&id=1",
        "id=1&id=2",
        "categoryId=",
        "categoryId",
        "categoryId=one",
        "categoryId=%2B1",
        "categoryId=01",
        "categoryId=-0",
        "categoryId=-",
        "categoryId=1.0",
        "categoryId=1,2",
        "categoryId=9223372036854775808",
        "categoryId=-9223372036854775809",
        "categoryId=1&categoryId=1",
        "name=",
        "name",
        "name=%00",
        "name=a%0A",
        "name=%7F",
        "name=%C2%85",
        "name=a&name=a",
        "sort=",
        "sort",
        "sort=ASC",
        "sort=-id",
        "sort=desc,asc",
        "sort=asc&sort=asc",
    ];
    let queries = queries.into_iter().map(|query| (query, "/v1/pets"));
    let long = too_many.iter().chain(&too_long);
    let long = long.map(|query| (query.as_str(), "/v1/pets"));
    let of_orders = [
        "petId=",
        "petId=0",
        "petId=-1",
        "petId=one",
        "petId=01",
        "petId=1,2",
        "petId=9007199254740992",
        "petId=1&petId=1",
        "sort=up",
        "sort=asc&sort=desc",
    ];
    let of_orders = of_orders.map(|query| (query, "/v1/store/orders"));
    for (query, path) in queries.chain(long).chain(of_orders) {
        let response = server.get(&format!("{path}?{query}")).await;
        response.assert_error(400, "invalid_parameter");
        let message = response.json()["message"].as_str().unwrap().to_string();
        let field = query.split('=').next().unwrap();
        assert!(
            message.starts_with(&format!("{field}: ")),
            "{query}: {message}"
        );
    }
    // 64 characters after folding are allowed.
    let longest = query(&[("name", "ß".repeat(32))]);
    assert_eq!(server.get(&longest).await.json(), json!([]));
}
