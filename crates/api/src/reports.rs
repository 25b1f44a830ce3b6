//! Handlers of the report of sales and the register of animals.

use std::sync::Arc;

use super::{
    cache::CachedRead,
    cached_response::{CachedResponse, Invalidation},
    error::ApiError,
    request::{ApiRequest, RequestHead},
    response,
    state::Api,
};
use domain::{
    invalid::Invalid,
    page::ListQuery,
    register::RegisterFilter,
    sales::{SalesQuery, TooManyTotals},
};
use server::Response;
use store::sales::SCAN_SIZE;

/// Responds with a report. Each further [`SCAN_SIZE`] orders that it scans count as one more
/// request, like the pages of events. If the rate limit of the key is reached, the next request
/// continues, because the days that were scanned are kept, except for one that was not finished.
pub async fn get_sales(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query =
        SalesQuery::parse(request.query(), api.clock.now()).map_err(ApiError::InvalidParameter)?;
    let queue = api.keys().scan_queue(&request.key_hash());
    let turn = match queue.try_make_report() {
        Some(turn) => turn,
        None => request.wait(queue.make_report()).await,
    };
    let started = api.reports.start(query, turn).await?;
    let mut pending = started.map_err(too_many_totals)?;
    let mut orders = 0;
    let report = loop {
        if let Some(report) = pending.finished() {
            break report;
        }
        let scanned = request.wait(api.reports.scan(&mut pending, &queue)).await?;
        let charged = orders / SCAN_SIZE;
        orders += scanned.map_err(too_many_totals)?;
        for _ in charged..orders / SCAN_SIZE {
            request.charge_as(api.keys(), 2)?;
        }
    };
    let content = response::private_json(report, None);
    let response = CachedResponse::compressible(content, Invalidation::OnAnyWrite);
    response.respond(request.headers())
}

fn too_many_totals(too_many: TooManyTotals) -> ApiError {
    ApiError::InvalidParameter(Invalid::from(too_many))
}

/// Reads the register for every request: records of deleted animals are purged and erased without
/// a new version of the store, which validates cached pages.
pub fn list_register<'a>(
    api: &'a Api,
    request: &RequestHead<'_>,
) -> Result<CachedRead<'a>, ApiError> {
    let query = RegisterFilter::parse(request.query(), api.clock.now())
        .and_then(|filter| ListQuery::parse_with(filter, request.query()))
        .map_err(ApiError::InvalidParameter)?;
    Ok(CachedRead::Pending(Box::pin(async move {
        let page = api.store.register_list(&query).await?;
        Ok(Arc::new(api.links.page("store/register", &query, &page)))
    })))
}
