//! `GET /pets?q=`: finding pets by the start of their words.

use domain::page::Sort;
use form_urlencoded::Serializer;
use futures_util::future::join_all;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use support::{Backend, random, rounds};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        searches_find_what_a_naive_search_finds,
        words_are_found_by_their_start,
        a_search_combines_with_all_filters,
        pages_of_a_search_lead_to_all_pets,
        rare_pets_are_found_among_many,
        changes_are_found_at_once,
        invalid_searches_get_400,
        counts_follow_category_and_search,
    ],
}

/// Parts of words, each with its simplified form. None of them changes its neighbours.
const PARTS: &[(&str, &str)] = &[
    ("Rex", "rex"),
    ("rEX", "rex"),
    ("ti", "ti"),
    ("Ti", "ti"),
    ("ger", "ger"),
    ("Ümläut", "umlaut"),
    ("U\u{308}MLAUT", "umlaut"),
    ("Straße", "strasse"),
    ("STRASSE", "strasse"),
    ("Çiğdem", "cigdem"),
    ("İnci", "inci"),
    ("ışık", "ısık"),
    ("Σίσυφος", "σισυφοσ"),
    ("ΣΊΣΥΦΟΣ", "σισυφοσ"),
    ("Жучка", "жучка"),
    ("ЁЛКА", "елка"),
    ("елка", "елка"),
    ("小白", "小白"),
    ("犬", "犬"),
    ("مُحَمَّد", "محمد"),
    ("محمد", "محمد"),
    ("한", "\u{1112}\u{1161}\u{11ab}"),
    ("하", "\u{1112}\u{1161}"),
    ("ﬃ", "ffi"),
    ("ＡＢ", "ab"),
    ("ab", "ab"),
    ("7", "7"),
    ("１２", "12"),
    ("𝒳", "x"),
];

/// Texts between two words.
const SEPARATORS: [&str; 8] = [" ", "-", "  ", "_", "🐕", "'", " 🐈‍⬛ ", "、"];

/// The test's record of a pet, from which it computes the expected lists.
struct Model {
    id: i64,
    words: Vec<String>,
    category: i64,
    status: Option<&'static str>,
}

impl Model {
    fn matches(&self, terms: &[String]) -> bool {
        terms.iter().all(|term| {
            let mut words = self.words.iter();
            *term == self.id.to_string() || words.any(|word| word.starts_with(term))
        })
    }
}

/// One or two words in a row, as they are written and simplified.
fn text(random: &mut StdRng) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut words = Vec::new();
    for _ in 0..random.random_range(1..4) {
        let mut written = String::new();
        let mut word = String::new();
        for _ in 0..random.random_range(1..3) {
            let (part, simplified) = PARTS.choose(random).unwrap();
            written += part;
            word += simplified;
        }
        // Many different words that start alike.
        if random.random_range(0..3) == 0 {
            let number = random.random_range(0..100_000).to_string();
            written += &number;
            word += &number;
        }
        if !text.is_empty() {
            text += SEPARATORS.choose(random).unwrap();
        }
        text += &written;
        words.push(word);
    }
    (text, words)
}

/// The start of a word, as it could be typed.
fn term(random: &mut StdRng, pets: &[Model]) -> String {
    let pet = pets.choose(random).unwrap();
    if random.random_range(0..8) == 0 {
        return pet.id.to_string();
    }
    let word: Vec<_> = pet.words.choose(random).unwrap().chars().collect();
    let length = random.random_range(1..=word.len().min(9));
    word[..length].iter().collect()
}

/// The digits of a text that is the number of a microchip in groups.
fn grouped_microchip(typed: &str) -> Option<String> {
    let digits = typed.replace([' ', '-'], "");
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && matches!(digits.len(), 9 | 10 | 15)).then_some(digits)
}

fn query(pairs: &[(&str, String)]) -> String {
    let mut query = Serializer::new(String::from("/v1/pets?"));
    query.extend_pairs(pairs);
    query.finish().replacen("?&", "?", 1)
}

fn ids(pets: &[Value]) -> Vec<i64> {
    pets.iter().map(|pet| pet["id"].as_i64().unwrap()).collect()
}

async fn found(server: &Server, pairs: &[(&str, &str)]) -> Vec<i64> {
    let pairs: Vec<_> = pairs.iter().map(|(n, v)| (*n, v.to_string())).collect();
    ids(&server.walk(&query(&pairs)).await)
}

const STATUSES: [&str; 3] = ["available", "pending", "sold"];

/// Creates a pet with random words, and returns the record of it.
async fn create_random(server: &Server, number: usize, mut random: StdRng) -> Model {
    let (name, mut words) = text(&mut random);
    let category = random.random_range(1..4);
    let status = STATUSES.get(random.random_range(0..4)).copied();
    let mut pet = json!({"name": name, "categoryId": category});
    if let Some(status) = status {
        pet["status"] = status.into();
    }
    if number.is_multiple_of(3) {
        let (breed, of_breed) = text(&mut random);
        pet["breed"] = breed.into();
        words.extend(of_breed);
    }
    if number.is_multiple_of(5) {
        let microchip = format!("{:015}", number * 7919);
        pet["microchip"] = microchip.as_str().into();
        words.push(microchip);
    }
    Model {
        id: server.create(pet).await,
        words,
        category,
        status,
    }
}

/// Random names in several scripts, and searches for the starts of their words.
async fn searches_find_what_a_naive_search_finds(backend: Backend) {
    use rand::SeedableRng;
    let server = Server::start(backend).await;
    let mut random = random("search");
    let mut pets = Vec::new();
    let count = rounds(3_000, 100_000);
    while pets.len() < count {
        let creates: Vec<_> = (0..100)
            .map(|n| create_random(&server, pets.len() + n, StdRng::from_rng(&mut random)))
            .collect();
        pets.extend(join_all(creates).await);
    }
    pets.sort_by_key(|pet| pet.id);
    let mut walks = Vec::new();
    for _ in 0..rounds(200, 2_000) {
        let terms: Vec<_> = (0..random.random_range(1..4))
            .map(|_| term(&mut random, &pets))
            .collect();
        let typed = terms.join(SEPARATORS.choose(&mut random).unwrap());
        let terms = grouped_microchip(&typed).map_or(terms, |microchip| vec![microchip]);
        let mut found: Vec<_> = pets.iter().filter(|pet| pet.matches(&terms)).collect();
        let mut pairs = vec![("q", typed)];
        if random.random_range(0..3) == 0 {
            let statuses: Vec<_> = STATUSES
                .into_iter()
                .filter(|_| random.random_range(0..2) == 0)
                .collect();
            if !statuses.is_empty() {
                found.retain(|pet| pet.status.is_some_and(|it| statuses.contains(&it)));
                pairs.push(("status", statuses.join(",")));
            }
        }
        if random.random_range(0..3) == 0 {
            let category = random.random_range(1..4);
            found.retain(|pet| pet.category == category);
            pairs.push(("categoryId", category.to_string()));
        }
        let sort = [None, Some(Sort::Asc), Some(Sort::Desc)][random.random_range(0..3)];
        if sort != Some(Sort::Asc) {
            found.reverse();
        }
        pairs.extend(sort.map(|sort| match sort {
            Sort::Asc => ("sort", "asc".into()),
            Sort::Desc => ("sort", "desc".into()),
        }));
        let limit: usize = [1, 7, 20, 100][random.random_range(0..4)];
        let limit = limit.max(found.len() / 6).min(100);
        pairs.push(("limit", limit.to_string()));
        let expected: Vec<_> = found.iter().map(|pet| pet.id).collect();
        walks.push((query(&pairs), expected));
    }
    assert!(walks.iter().any(|(_, expected)| expected.len() > 500));
    for some in walks.chunks(16) {
        let some = some.iter().map(async |(path, expected)| {
            assert_eq!(ids(&server.walk(path).await), *expected, "{path}");
        });
        join_all(some).await;
    }
}

async fn words_are_found_by_their_start(backend: Backend) {
    let server = Server::start(backend).await;
    for pet in [
        json!({"name": "Ümläut-Tiger", "categoryId": 1}),
        json!({"name": "Tigger", "categoryId": 1, "breed": "Maine Coon"}),
        json!({"name": "Tiger tigerlily", "categoryId": 1, "microchip": "985112004567890"}),
        json!({"name": "🐕", "categoryId": 1}),
    ] {
        server.create(pet).await;
    }
    for (q, expected) in [
        ("tiger", &[3_i64, 1] as &[_]),
        ("TI", &[3, 2, 1]),
        ("umlaut", &[1]),
        ("ÜMLÄUT", &[1]),
        ("u\u{308}m", &[1]),
        ("tiger-umlaut", &[1]),
        ("umlaut rex", &[]),
        ("iger", &[]),
        ("coon", &[2]),
        ("tig maine", &[2]),
        ("tig tige tiger", &[3, 1]),
        ("985112004567890", &[3]),
        ("985 112 004 567 890", &[3]),
        (" 985-112-004567-890 ", &[3]),
        ("985\u{a0}112\u{a0}004\u{a0}567\u{a0}890", &[3]),
        ("985 112 004 567 891", &[]),
        ("tiger 985112004567890", &[3]),
        ("985", &[3]),
        ("985-112", &[]),
        ("2", &[2]),
        ("2 tigger", &[2]),
        ("1", &[1]),
        ("01", &[]),
        ("9007199254740991", &[]),
        ("99999999999999999999", &[]),
        ("4", &[4]),
    ] {
        assert_eq!(found(&server, &[("q", q)]).await, expected, "{q}");
    }
}

async fn a_search_combines_with_all_filters(backend: Backend) {
    let server = Server::start(backend).await;
    for (name, status, category) in [
        ("Rex Tiger", "available", 1),
        ("Tiger", "sold", 1),
        ("Big Tiger", "pending", 2),
        ("Rex", "available", 1),
    ] {
        let pet = json!({"name": name, "status": status, "categoryId": category});
        server.create(pet).await;
    }
    let chipped = json!({"name": "Chip Tiger", "categoryId": 3, "microchip": "123456789"});
    server.create(chipped).await;
    for (filters, expected) in [
        (&[] as &[(&str, &str)], &[5_i64, 3, 2, 1] as &[_]),
        (&[("sort", "asc")], &[1, 2, 3, 5]),
        (&[("status", "sold")], &[2]),
        (&[("status", "pending,available")], &[3, 1]),
        (&[("categoryId", "1")], &[2, 1]),
        (&[("categoryId", "1"), ("status", "sold,pending")], &[2]),
        (&[("id", "1,3,4")], &[3, 1]),
        (&[("microchip", "123456789")], &[5]),
        (&[("microchip", "123456780")], &[]),
        // By name.
        (&[("name", "b")], &[3]),
        (&[("name", "t")], &[2]),
        (&[("name", "r"), ("sort", "desc")], &[1]),
    ] {
        let pairs = [&[("q", "tiger")], filters].concat();
        assert_eq!(found(&server, &pairs).await, expected, "{filters:?}");
    }
}

/// 2,500 pets that have several words which start alike; some have a word that is rare.
const MANY: &str = "
    INSERT INTO pets (name, search_name, search_words, category_id, status)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
    SELECT CASE WHEN i % 399 = 0 THEN 'Rex Rexina No' || i || ' Rare'
                                 ELSE 'Rex Rexina No' || i END,
           'rex',
           CASE WHEN i % 399 = 0 THEN 'rex rexina no' || i || ' rare'
                                 ELSE 'rex rexina no' || i END,
           CASE WHEN i % 399 = 0 THEN 7 ELSE 1 END,
           CASE WHEN i % 399 = 0 THEN 'sold' ELSE 'available' END
    FROM n;";

/// Pages are full and overlap in nothing, also of pets that have a term more than once, and links
/// repeat the search as it was typed.
async fn pages_of_a_search_lead_to_all_pets(backend: Backend) {
    let server = Server::start_with(backend, |config| config.sql = MANY).await;
    for (q, sort) in [
        ("rex", "desc"),
        ("re", "asc"),
        ("no", "desc"),
        ("RÉX no", "asc"),
    ] {
        let mut next = Some(query(&[
            ("q", q.into()),
            ("sort", sort.into()),
            ("limit", "100".into()),
        ]));
        let mut found = Vec::new();
        while let Some(path) = next {
            let page = server.get(&path).await;
            let items = ids(page.json().as_array().unwrap());
            next = page.next();
            assert!(items.len() == 100 || next.is_none(), "{path}");
            let typed = Serializer::new(String::new()).append_pair("q", q).finish();
            assert!(next.as_ref().is_none_or(|it| it.contains(&typed)));
            found.extend(items);
        }
        let mut expected: Vec<_> = (1..=2500).collect();
        if sort == "desc" {
            expected.reverse();
        }
        assert_eq!(found, expected, "{q}");
    }
    // A cursor belongs to its search.
    let page = server.get("/v1/pets?q=rex&limit=1").await;
    let other = page.next().unwrap().replace("q=rex", "q=rexina");
    let rejected = server.get(&other).await;
    assert_eq!(rejected.status, 400);
    assert!(rejected.text().contains("belongs to another query"));
}

/// A filter or a term that few pets match leads to them at once.
async fn rare_pets_are_found_among_many(backend: Backend) {
    let server = Server::start_with(backend, |config| config.sql = MANY).await;
    let rare: Vec<_> = (1..=6).rev().map(|n| n * 399).collect();
    for filters in [
        "q=rare",
        "q=rex+rare",
        "q=no+rexina+rare",
        "q=rex&categoryId=7",
        "q=rex&status=sold",
        "q=rex&status=sold,pending",
        "q=rex&status=sold,pending&categoryId=7",
        "q=no&categoryId=7",
    ] {
        let page = server.get(&format!("/v1/pets?{filters}")).await;
        assert_eq!(ids(page.json().as_array().unwrap()), rare, "{filters}");
        assert_eq!(page.next(), None, "{filters}");
    }
}

async fn changes_are_found_at_once(backend: Backend) {
    let server = Server::start(backend).await;
    let search = async |q: &str| found(&server, &[("q", q)]).await;
    assert_eq!(search("rex").await, [] as [i64; 0]);
    let pet = json!({"name": "Rex Rex", "categoryId": 1, "breed": "Rex Collie"});
    server.create(pet).await;
    assert_eq!(search("rex").await, [1]);
    let patch = r#"{"name":"Max Collie","microchip":"123456789"}"#;
    assert_eq!(server.patch("/v1/pets/1", patch).await.status, 200);
    for q in ["rex", "max", "collie", "1234", "max rex"] {
        assert_eq!(search(q).await, [1], "{q}");
    }
    let patch = r#"{"breed":null,"microchip":"123456780"}"#;
    assert_eq!(server.patch("/v1/pets/1", patch).await.status, 200);
    assert_eq!(search("collie").await, [1]);
    assert_eq!(search("12345678").await, [1]);
    for q in ["rex", "123456789"] {
        assert_eq!(search(q).await, [] as [i64; 0], "{q}");
    }
    assert_eq!(
        server.patch("/v1/pets/1", r#"{"name":"🐕"}"#).await.status,
        200
    );
    assert_eq!(search("max").await, [] as [i64; 0]);
    assert_eq!(server.delete("/v1/pets/1").await.status, 204);
    for q in ["1", "123456780"] {
        assert_eq!(search(q).await, [] as [i64; 0], "{q}");
    }
    assert_eq!(server.database.query("SELECT count(*) FROM pet_words"), "0");
}

async fn invalid_searches_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    let long = "x".repeat(101);
    for (q, message) in [
        ("", "q: must be 1 to 100 characters long, got 0"),
        (
            " ",
            "q: must contain a word of letters or digits, got \" \"",
        ),
        (
            "🐕!",
            "q: must contain a word of letters or digits, got \"🐕!\"",
        ),
        ("a\nb", "q: must not contain control characters, got U+000A"),
        (&long, "q: must be 1 to 100 characters long, got 101"),
        (
            "a b c d e f g h i",
            "q: must be at most 8 different words, got 9",
        ),
    ] {
        let response = server.get(&query(&[("q", q.into())])).await;
        let error = json!({"code": "invalid_parameter", "message": message, "status": 400});
        assert_eq!(response.json(), error);
    }
    let repeated = server.get("/v1/pets?q=a&q=b").await;
    assert_eq!(repeated.json()["message"], "q: must not be repeated");
}

/// `GET /store/inventory` with filters counts up to 1,000 pets, and says if there may be more.
async fn counts_follow_category_and_search(backend: Backend) {
    let server = Server::start_with(backend, |config| config.sql = MANY).await;
    let counts = |available: i64, sold: i64| {
        let total = available + sold;
        json!({"available": available, "pending": 0, "sold": sold, "total": total})
    };
    let mut newest = counts(997, 3);
    newest["atLeast"] = true.into();
    for (filters, expected) in [
        ("", counts(2494, 6)),
        ("?limit=1&status=sold", counts(2494, 6)),
        ("?q=rare", counts(0, 6)),
        ("?q=no1000", counts(1, 0)),
        ("?q=x", counts(0, 0)),
        ("?categoryId=7", counts(0, 6)),
        ("?categoryId=7&q=rex", counts(0, 6)),
        ("?categoryId=1&q=rare", counts(0, 0)),
        ("?q=rex", newest.clone()),
        ("?q=no", newest),
    ] {
        let response = server.get(&format!("/v1/store/inventory{filters}")).await;
        assert_eq!(response.json(), expected, "{filters}");
    }
    // The limit itself is counted in full.
    let thousand = "UPDATE pets SET category_id = 9 WHERE id <= 1000 AND category_id = 1;
                    UPDATE pets SET category_id = 9 WHERE id = 399 OR id = 798";
    server.database.execute(thousand);
    server.create(json!({"name": "Rex", "categoryId": 1})).await;
    let response = server.get("/v1/store/inventory?categoryId=9").await;
    assert_eq!(response.json(), counts(998, 2));
    for (filters, field) in [
        ("?q=", "q"),
        ("?q=a&q=b", "q"),
        ("?categoryId=x", "categoryId"),
    ] {
        let response = server.get(&format!("/v1/store/inventory{filters}")).await;
        assert_eq!(response.status, 400, "{filters}");
        let message = response.json()["message"].as_str().unwrap().to_string();
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
    }
}
