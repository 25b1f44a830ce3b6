//! The path that a client may have meant by one that does not exist.

use std::cmp::min;

use strsim::osa_distance;

/// The longest path that is compared with others.
const MAX_BYTES: usize = 100;
/// The most segments of it, so that one request compares little.
const MAX_SEGMENTS: usize = 8;
/// The cost of a segment that is missing or too many.
const SEGMENT_COST: usize = 3;
/// The highest cost at which a path is similar.
const MAX_COST: usize = 4;

/// Returns the most similar path, if one is similar enough: with other spelling, or with a
/// segment more or less. A segment in braces stands for any.
pub fn find<'a>(path: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let segments = split(path);
    if path.len() > MAX_BYTES || segments.len() > MAX_SEGMENTS {
        return None;
    }
    let costs = known.filter_map(|known| Some((cost(&segments, &split(known))?, known)));
    let (_, nearest) = costs.min_by_key(|(cost, _)| *cost)?;
    Some(nearest)
}

fn split(path: &str) -> Vec<&str> {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .collect()
}

/// Returns the cost of turning one path into another, by the algorithm of Wagner and Fischer, if
/// they are similar and have a word in common.
fn cost(path: &[&str], known: &[&str]) -> Option<usize> {
    let mut previous: Vec<_> = (0..=known.len()).map(|n| n * SEGMENT_COST).collect();
    let mut shares_word = false;
    for (n, segment) in path.iter().enumerate() {
        let mut current = vec![(n + 1) * SEGMENT_COST];
        for (k, word) in known.iter().enumerate() {
            let difference = difference(segment, word);
            // The version alone says nothing.
            shares_word |= difference.is_some() && !word.starts_with('{') && *word != "v1";
            let removed = min(previous[k + 1], current[k]) + SEGMENT_COST;
            current.push(difference.map_or(removed, |cost| min(removed, previous[k] + cost)));
        }
        previous = current;
    }
    let cost = *previous.last()?;
    (shares_word && cost <= MAX_COST).then_some(cost)
}

/// Returns the number of letters in which a segment differs from a word, ignoring case, if there
/// are few: at most two, and at most a third of the word.
fn difference(segment: &str, word: &str) -> Option<usize> {
    if word.starts_with('{') {
        return Some(0);
    }
    let most = min(2, word.len().div_ceil(3));
    if segment.len().abs_diff(word.len()) > most {
        return None;
    }
    let difference = osa_distance(&segment.to_ascii_lowercase(), word);
    (difference <= most).then_some(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_path_leads_to_the_nearest_one() {
        let known = [
            "/v1/pets",
            "/v1/pets/{petId}",
            "/v1/store/orders",
            "/v1/store/orders/{orderId}",
            "/v1/store/orders/{orderId}/complete",
            "/v1/store/inventory",
            "/v1/keys/current",
            "/v1/keys/{keyId}/rotate",
            "/v1/openapi.yaml",
            "/docs",
        ];
        for (path, expected) in [
            ("/v1/pet", Some("/v1/pets")),
            ("/v1/pest", Some("/v1/pets")),
            ("/V1/Pets", Some("/v1/pets")),
            ("/v1/pets/", Some("/v1/pets")),
            ("/v2/pets", Some("/v1/pets")),
            ("/pets", Some("/v1/pets")),
            ("/pets/5", Some("/v1/pets/{petId}")),
            ("/api/v1/pets", Some("/v1/pets")),
            ("/v1/pet/5", Some("/v1/pets/{petId}")),
            ("/v1/orders", Some("/v1/store/orders")),
            ("/v1/orders/5", Some("/v1/store/orders/{orderId}")),
            (
                "/v1/store/order/5/complet",
                Some("/v1/store/orders/{orderId}/complete"),
            ),
            ("/v1/inventory", Some("/v1/store/inventory")),
            ("/v1/keys/7/rotat", Some("/v1/keys/{keyId}/rotate")),
            ("/openapi.yml", Some("/v1/openapi.yaml")),
            ("/v1/openapi.yml", Some("/v1/openapi.yaml")),
            ("/openapi.yaml", Some("/v1/openapi.yaml")),
            ("/doc", Some("/docs")),
            ("/", None),
            ("/v1", None),
            ("/v1/", None),
            ("/v1/customers", None),
            ("/favicon.ico", None),
            ("/v1/a/b/c/d/e/f/g/h/i/pets", None),
        ] {
            assert_eq!(find(path, known.into_iter()), expected, "{path}");
        }
        let long = format!("/v1/pets/{}", "x".repeat(16_000));
        assert_eq!(find(&long, known.into_iter()), None);
    }
}
