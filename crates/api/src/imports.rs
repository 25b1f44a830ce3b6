//! The handler that finds the import of a file.

use super::{
    error::ApiError,
    request::ApiRequest,
    response::{self, to_json},
    state::Api,
};
use domain::import::ImportQuery;
use server::Response;

/// Reads the record for every request: it can change without a new version of the store, which
/// validates cached responses.
pub async fn list_imports(api: &Api, request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = ImportQuery::parse(request.query()).map_err(ApiError::InvalidParameter)?;
    let import = api.store.import_get(query.file).await?;
    let body = to_json(&import.as_slice());
    Ok(response::no_store_page(body, None, request.headers()))
}
