//! Typed input from a request, or an error that describes its fault.

mod content;
mod image;

use std::{borrow::Cow, net::IpAddr, ops::Deref, time::Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use http_body_util::BodyExt;
use hyper::body::Body;
use sha2::{Digest, Sha256};

use super::{
    admission::InFlight,
    auth::Authorization,
    context::{RequestContext, Wait},
    error::{ApiError, BodyLimit},
    key_cache::KeyCache,
    operation::Operation,
    preconditions::Preconditions,
    rate_limit::{LimitKind, Quota},
    unknown_parameters::UnknownParameters,
};
use content::check_content;
use domain::{
    api_key::{KeyHash, Scopes},
    event::{EventFilter, EventTypes, VisibleEvents},
    idempotency::{IdempotencyKey, IdempotentRequest},
    invalid::{Invalid, join_messages, quoted},
    json::{FromObject, KnownMember, Object, Value},
    page::{Filter, ListQuery},
};
pub use image::hash;
use server::{Client, MAX_BODY_BYTES, MAX_LARGE_BODY_BYTES, RequestBody, header_values};

/// The media types of a request body.
const JSON: &[&str] = &["application/json"];
/// The media types of a merge patch (RFC 7396).
const MERGE_PATCH: &[&str] = &["application/merge-patch+json", "application/json"];

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request without its body.
pub struct RequestHead<'a> {
    pub head: &'a Parts,
    pub operation: &'static Operation,
    pub authorization: Authorization,
    /// True if unknown parameters and members are rejected.
    is_strict: bool,
}

impl<'a> RequestHead<'a> {
    pub fn new(
        head: &'a Parts,
        operation: &'static Operation,
        authorization: Authorization,
        is_strict: bool,
    ) -> Self {
        Self {
            head,
            operation,
            authorization,
            is_strict,
        }
    }

    pub fn headers(&self) -> &'a HeaderMap {
        &self.head.headers
    }

    pub fn key_hash(&self) -> KeyHash {
        self.authorization.caller().hash
    }

    /// Returns the query parameters that the operation does not have.
    pub fn unknown_parameters(&self) -> UnknownParameters<'a> {
        UnknownParameters::find(self.head.uri.query(), self.operation.query_parameters)
    }

    /// With strict handling, rejects query parameters that would be ignored.
    pub fn reject_unknown_parameters(&self) -> Result<(), ApiError> {
        if !self.is_strict {
            return Ok(());
        }
        let unknown = self.unknown_parameters();
        let known = self.operation.query_parameters;
        match describe_unknown("query parameter", unknown.names().collect(), known) {
            Some(message) => Err(ApiError::UnknownParameter(message)),
            None => Ok(()),
        }
    }

    /// Reads the query parameters of a list. Unknown ones are ignored.
    pub fn list_query<F: Filter + Default>(&self) -> Result<ListQuery<F>, ApiError> {
        ListQuery::parse(self.query()).map_err(ApiError::InvalidParameter)
    }

    /// Returns the query string, which is empty if there is none.
    pub fn query(&self) -> &str {
        self.head.uri.query().unwrap_or("")
    }

    pub fn preconditions(&self) -> Preconditions<'a> {
        Preconditions::new(&self.head.headers)
    }
}

/// The permission to run the handler of an operation.
pub struct Permission<'a> {
    pub operation: &'static Operation,
    pub authorization: Authorization,
    pub in_flight: InFlight<'a>,
}

/// A request that is authorized and holds an in-flight permit.
pub struct ApiRequest<'a> {
    head: RequestHead<'a>,
    in_flight: InFlight<'a>,
    body: Option<RequestBody<'a>>,
    wait: &'a mut Wait,
    quota: &'a mut Option<Quota>,
    started: Instant,
    pub request_id: &'a HeaderValue,
    /// The address that the request came from.
    pub client: IpAddr,
    /// The client as the transport knows it.
    transport: Client<'a>,
}

impl<'a> Deref for ApiRequest<'a> {
    type Target = RequestHead<'a>;

    fn deref(&self) -> &Self::Target {
        &self.head
    }
}

impl<'a> ApiRequest<'a> {
    pub fn new(
        permission: Permission<'a>,
        head: &'a Parts,
        body: RequestBody<'a>,
        context: &'a mut RequestContext,
        transport: Client<'a>,
    ) -> Self {
        let Permission {
            operation,
            authorization,
            in_flight,
        } = permission;
        Self {
            head: RequestHead::new(head, operation, authorization, context.is_strict),
            in_flight,
            body: Some(body),
            wait: &mut context.wait,
            quota: &mut context.quota,
            started: context.started,
            request_id: &context.request_id,
            client: context.client,
            transport,
        }
    }

    /// Returns the API key of the caller.
    pub fn api_key_id(&self) -> i64 {
        self.authorization.caller().api_key_id
    }

    /// Returns the events that the caller asks for, if it may see them.
    pub fn visible_events(&self, filter: EventFilter) -> Result<VisibleEvents, ApiError> {
        let visible = filter.visible_to(self.scopes());
        visible.map_err(|scope| ApiError::InsufficientScope(scope.as_slice()))
    }

    pub fn scopes(&self) -> Scopes {
        self.authorization.caller().scopes
    }

    /// Checks that the caller may read all events of these types.
    pub fn ensure_readable(&self, types: EventTypes) -> Result<(), ApiError> {
        match EventTypes::visible_to(Some(types), self.scopes()) {
            Ok(_) => Ok(()),
            Err(scope) => Err(ApiError::InsufficientScope(scope.as_slice())),
        }
    }

    /// Charges a request that counts as several to the rate limit of its key.
    pub fn charge_as(&mut self, keys: &KeyCache, requests: u32) -> Result<(), ApiError> {
        let charged = keys.charge_more(&self.key_hash(), self.started, requests.saturating_sub(1));
        let Some(quota) = charged else {
            return Ok(());
        };
        *self.quota = Some(quota);
        ApiError::ensure_granted(quota, LimitKind::ApiKey)
    }

    /// Releases the in-flight permit. From then on, the request does not count as in flight.
    pub fn release(&mut self) {
        self.in_flight.release();
    }

    /// Waits for a future that may take a long time. From then on, the request does not count as
    /// in flight.
    pub async fn wait<T>(&mut self, future: impl Future<Output = T>) -> T {
        self.release();
        *self.wait = Wait::Since(Instant::now());
        let result = future.await;
        self.wait.end();
        result
    }

    /// Reads a JSON object, and the idempotency key if there is one.
    pub async fn json_with_idempotency_key<T: FromObject>(
        &mut self,
    ) -> Result<(T, Option<IdempotentRequest>), ApiError> {
        let mut body = self.body_of_type(JSON).await?;
        if body.is_empty() && T::IS_OPTIONAL {
            body = Bytes::from_static(b"{}");
        }
        let object = Object::parse(&body)?;
        let value = self.read_object(&object)?;
        let idempotency = self.parse_idempotency_key(|| match T::PERSONAL {
            Some(personal) => object.without(personal, &body),
            None => Cow::Borrowed(&*body),
        })?;
        Ok((value, idempotency))
    }

    /// Reads a JSON object.
    pub async fn json<T: FromObject>(&mut self) -> Result<T, ApiError> {
        let body = self.body_of_type(JSON).await?;
        self.read_object(&Object::parse(&body)?)
    }

    /// Reads a JSON merge patch (RFC 7396).
    pub async fn merge_patch<T: FromObject>(&mut self) -> Result<T, ApiError> {
        let body = self.body_of_type(MERGE_PATCH).await?;
        self.read_object(&Object::parse(&body)?)
    }

    fn read_object<T: FromObject>(&self, object: &Object) -> Result<T, ApiError> {
        self.read_members(object).map_err(ApiError::InvalidBody)
    }

    /// Reads an object in the body. Returns a message if it is invalid.
    pub fn read_members<T: FromObject>(&self, object: &Object) -> Result<T, String> {
        match (T::from_object(object), self.unknown(object, T::MEMBERS)) {
            (Ok(value), None) => Ok(value),
            (Ok(_), Some(unknown)) => Err(unknown),
            (Err(invalid), None) => Err(join_messages(&invalid)),
            (Err(invalid), Some(unknown)) => Err(format!("{}; {unknown}", join_messages(&invalid))),
        }
    }

    /// With strict handling, describes the members of an object that would be ignored.
    pub fn unknown(&self, object: &Object, known: &[KnownMember]) -> Option<String> {
        if self.is_strict {
            unknown_members(object, known)
        } else {
            None
        }
    }

    /// Reads a JSON body that may be large.
    pub async fn large_json(&mut self) -> Result<Bytes, ApiError> {
        self.check_type(JSON)?;
        self.body_up_to(BodyLimit::Large).await
    }

    /// Reads the idempotency key of an operation without input. The body is not
    /// interpreted, but it is part of the request's fingerprint.
    pub async fn idempotency_key(&mut self) -> Result<Option<IdempotentRequest>, ApiError> {
        let body = self.body().await?;
        self.parse_idempotency_key(|| Cow::Borrowed(&*body))
    }

    async fn body_of_type(&mut self, types: &'static [&'static str]) -> Result<Bytes, ApiError> {
        self.check_type(types)?;
        self.body().await
    }

    fn check_type(&self, types: &'static [&'static str]) -> Result<(), ApiError> {
        check_content(self.headers(), types, ApiError::UnsupportedMediaType)
    }

    async fn body(&mut self) -> Result<Bytes, ApiError> {
        self.body_up_to(BodyLimit::Normal).await
    }

    async fn body_up_to(&mut self, limit: BodyLimit) -> Result<Bytes, ApiError> {
        let Some(body) = self.body.take() else {
            return Ok(Bytes::new());
        };
        let size = body.size_hint();
        // The transport accounts for the memory of a body by its declared length.
        let max_bytes = match limit {
            BodyLimit::Large if size.exact().is_some() => MAX_LARGE_BODY_BYTES,
            _ => MAX_BODY_BYTES,
        };
        if size.lower() > max_bytes as u64 {
            return Err(ApiError::BodyTooLarge(limit));
        }
        let body = collect(body, 0, max_bytes, limit);
        self.in_flight.receive(body, self.wait).await?
    }

    /// Returns the idempotency key, with the fingerprint of the request and of `body`.
    pub fn parse_idempotency_key<'b>(
        &self,
        body: impl FnOnce() -> Cow<'b, [u8]>,
    ) -> Result<Option<IdempotentRequest>, ApiError> {
        let Some(key) = self.idempotency_key_alone()? else {
            return Ok(None);
        };
        let fingerprint = self.start_fingerprint().chain_update(body());
        Ok(Some(IdempotentRequest {
            api_key_id: self.api_key_id(),
            key,
            fingerprint: fingerprint.finalize().into(),
        }))
    }

    /// Returns the idempotency key, without the fingerprint of the request.
    pub fn idempotency_key_alone(&self) -> Result<Option<IdempotencyKey>, ApiError> {
        let mut keys = header_values(self.headers(), IDEMPOTENCY_KEY);
        let Some(key) = keys.next() else {
            return Ok(None);
        };
        let invalid =
            |reason: &str| ApiError::InvalidParameter(Invalid::new("Idempotency-Key", reason));
        if keys.next().is_some() {
            return Err(invalid("must not be repeated"));
        }
        let key = IdempotencyKey::parse(key.as_bytes()).ok_or_else(|| {
            let max = IdempotencyKey::MAX_CHARS;
            invalid(&format!(
                "must be 1 to {max} visible ASCII characters, without spaces"
            ))
        })?;
        Ok(Some(key))
    }

    /// Returns the fingerprint of the request as far as its body.
    fn start_fingerprint(&self) -> Sha256 {
        Sha256::new()
            .chain_update(self.head.head.method.as_str())
            .chain_update([0])
            .chain_update(self.head.head.uri.path())
            .chain_update([0])
    }
}

/// Collects a body into one buffer. `BodyExt::collect` would keep every frame: 32 bytes
/// for a chunk of one. A buffer for `expected` bytes does not grow, which would double it.
async fn collect(
    mut body: RequestBody<'_>,
    expected: usize,
    max_bytes: usize,
    limit: BodyLimit,
) -> Result<Bytes, ApiError> {
    let mut collected = Vec::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::InvalidRequest("body: incomplete or malformed"))?;
        let data = frame.into_data().unwrap_or_default(); // or trailers
        if collected.len() + data.len() > max_bytes {
            return Err(ApiError::BodyTooLarge(limit));
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.into())
}

/// Describes the members that would be ignored, also those of objects in the object.
fn unknown_members(object: &Object, known: &[KnownMember]) -> Option<String> {
    let names: Vec<_> = known.iter().map(|member| member.name).collect();
    let mut unknown = Vec::from_iter(describe_unknown("member", object.names(), &names));
    for member in known.iter().filter(|member| !member.members.is_empty()) {
        if let Some(nested) = object.get(member.name).and_then(Value::as_object) {
            let described = describe_unknown("member", nested.names(), member.members);
            unknown.extend(described.map(|described| format!("{}: {described}", member.name)));
        }
    }
    (!unknown.is_empty()).then(|| unknown.join("; "))
}

/// Describes the unknown names, if there are any, and lists the known ones.
fn describe_unknown(kind: &str, names: Vec<&str>, known: &[&str]) -> Option<String> {
    let unknown: Vec<_> = names
        .into_iter()
        .filter(|name| !known.contains(name))
        .map(quoted)
        .collect();
    let known = if known.is_empty() {
        "none".into()
    } else {
        known.join(", ")
    };
    let names = unknown.join(", ");
    match unknown.len() {
        0 => None,
        1 => Some(format!("unknown {kind} {names}; known: {known}")),
        _ => Some(format!("unknown {kind}s {names}; known: {known}")),
    }
}
