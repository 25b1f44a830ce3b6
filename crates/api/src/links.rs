//! Links in responses: to the next page, to a new resource, to the successor of a deprecated
//! operation.

use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use super::{
    cached_response::{CachedResponse, Invalidation},
    openapi::PublicUrl,
    operation::{DEPRECATED_SINCE, REMOVAL_HTTP_DATE},
    response::{json, private_json},
};
use domain::page::{Filter, ListQuery, Page, Position, Sort};
use server::Response;

/// The header of RFC 9745.
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// The header of RFC 8594.
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// The URLs that responses refer to.
pub struct Links {
    /// The public URL, or just its path.
    base: String,
    deprecation: HeaderValue,
}

impl Links {
    /// Creates the links. Without docs, the contract documents the deprecation.
    pub fn new(public_url: Option<&PublicUrl>, docs: bool) -> Self {
        let base = public_url.map_or("/v1".into(), PublicUrl::to_string);
        let root = base.strip_suffix("/v1").unwrap_or_default();
        let (documentation, media_type) = if docs {
            (format!("{root}/docs"), "text/html")
        } else {
            (format!("{base}/openapi.yaml"), "application/yaml")
        };
        let deprecation = format!(
            "<{base}/pets>; rel=\"successor-version\", \
             <{documentation}>; rel=\"deprecation\"; type=\"{media_type}\""
        );
        Self {
            // Leaked, because clones of a static value share no reference count.
            deprecation: HeaderValue::from_static(deprecation.leak()),
            base,
        }
    }

    /// Returns the link to the next page of the list at `path`, if there is one (RFC 8288).
    pub fn next_page<F: Filter>(
        &self,
        path: &str,
        query: &ListQuery<F>,
        next: Option<&Position>,
    ) -> Option<HeaderValue> {
        Some(self.next_link(path, &query.next(next?.clone())))
    }

    /// Returns a page of the list at `path`, with a link to the next one.
    pub fn page<F: Filter, T: Serialize>(
        &self,
        path: &str,
        query: &ListQuery<F>,
        page: &Page<T>,
    ) -> CachedResponse {
        let link = self.next_page(path, query, page.next.as_ref());
        // New items have the highest id, so an insert does not change a page that has a
        // next one.
        let is_before_new_items = query.sort == Sort::Asc && link.is_some();
        let invalidation = if query.filter.is_sorted_by_id() && is_before_new_items {
            Invalidation::OnUpdate
        } else {
            Invalidation::OnAnyWrite
        };
        CachedResponse::compressible(private_json(&page.items, link), invalidation)
    }

    /// Returns the link to the next page of the event log.
    pub fn events(&self, query: &str) -> HeaderValue {
        self.next_link("events", query)
    }

    fn next_link(&self, path: &str, query: &str) -> HeaderValue {
        let link = ["<", &self.base, "/", path, "?", query, ">; rel=\"next\""].concat();
        HeaderValue::try_from(link).expect("links are printable ASCII")
    }

    /// Responds with 201 and the location of the new resource.
    pub fn created(&self, path: &str, id: i64, resource: &impl Serialize) -> Response {
        let url = [&self.base, "/", path, "/", &id.to_string()].concat();
        let location = HeaderValue::try_from(url).expect("URLs are printable ASCII");
        let mut response = json(resource);
        *response.status_mut() = StatusCode::CREATED;
        response.headers_mut().insert(header::LOCATION, location);
        response
    }

    /// Announces the removal of a deprecated operation (RFC 9745, RFC 8594).
    pub fn deprecated(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        headers.insert(DEPRECATION, HeaderValue::from_static(DEPRECATED_SINCE));
        headers.insert(SUNSET, HeaderValue::from_static(REMOVAL_HTTP_DATE));
        headers.insert(header::LINK, self.deprecation.clone());
        response
    }
}
