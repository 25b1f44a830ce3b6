//! Handlers of the operations on orders and the inventory.

use super::{
    cache::{CacheKey, CachedRead},
    cached_response::{CachedResponse, Invalidation},
    error::{ApiError, NO_SUCH_ORDER},
    path::PathId,
    preconditions::{UnmetPrecondition, retry, unless_missing},
    request::{ApiRequest, RequestHead},
    response,
    state::Api,
};
use domain::{
    api_key::{Scope, Scopes},
    order::{
        Order, OrderChange, OrderFilter, OrderId, OrderRejection, PlaceOrderRequest, Transition,
    },
    pet::FilteredInventory,
};
use server::Response;

pub fn list_orders<'a>(
    api: &'a Api,
    request: &RequestHead<'_>,
) -> Result<CachedRead<'a>, ApiError> {
    let query = request.list_query::<OrderFilter>()?;
    let key = CacheKey::Orders(query.clone());
    Ok(api.cache.get_or_read(key, || async move {
        let page = api.store.order_list(query.clone()).await?;
        Ok(api.links.page("store/orders", &query, &page))
    }))
}

pub async fn place_order(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let (place, idempotency) = request
        .json_with_idempotency_key::<PlaceOrderRequest>()
        .await?;
    request.preconditions().evaluate_post(true)?;
    let placed = api
        .store
        .order_place(request.api_key_id(), place, api.reserve_for, idempotency)
        .await?;
    response::idempotent(placed, |placed| match placed {
        Ok(order) => {
            let order = visible(order, request.scopes());
            api.links.created("store/orders", order.id.get(), &order)
        }
        Err(rejection) => ApiError::from(rejection).response(),
    })
}

/// Returns an order as a key with these scopes may see it: the buyer needs the scope to read
/// orders.
fn visible(order: Order, scopes: Scopes) -> Order {
    if scopes.has(Scope::OrdersRead) {
        order
    } else {
        order.without_buyer()
    }
}

pub fn get_order<'a>(
    api: &'a Api,
    _: &RequestHead<'_>,
    id: PathId<OrderId>,
) -> Result<CachedRead<'a>, ApiError> {
    let id = id?;
    let read = || async move {
        Ok(match api.store.order_get(id).await? {
            Some(order) => CachedResponse::new(response::resource(&order), Invalidation::OnUpdate),
            None => {
                let not_found = ApiError::NotFound(NO_SUCH_ORDER).response();
                CachedResponse::new(not_found, Invalidation::OnAnyWrite)
            }
        })
    };
    Ok(api.cache.get_or_read(CacheKey::Order(id), read))
}

pub async fn update_order(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<OrderId>,
) -> Result<Response, ApiError> {
    let change = request.merge_patch::<OrderChange>().await?;
    if !request.scopes().has(Scope::OrdersRead) {
        change.require_buyer_name()?;
    }
    let id = id?;
    let key = request.api_key_id();
    let updated = retry(CHANGED_TOO_OFTEN, || async {
        let expected = expected_order(api, id, &request).await?;
        let updated = api.store.order_update(key, id, change.clone(), expected);
        match updated.await? {
            Err(OrderRejection::Outdated) => Ok(None),
            updated => Ok(Some(updated?)),
        }
    });
    let updated = visible(updated.await?, request.scopes());
    Ok(response::resource(&updated))
}

const CHANGED_TOO_OFTEN: &str =
    "the order is being changed too often; nothing was changed, retry later";

/// Returns the order, if the preconditions depend on it. It meets them, and must not change
/// before the request is executed.
async fn expected_order(
    api: &Api,
    id: OrderId,
    request: &ApiRequest<'_>,
) -> Result<Option<Order>, ApiError> {
    let etag = |order: &Order| response::etag(&visible(order.clone(), request.scopes()));
    let preconditions = request.preconditions();
    let expected = preconditions.expected(find(api, id), etag, |unmet| match unmet {
        UnmetPrecondition::IfMatch => ApiError::ORDER_CHANGED,
        UnmetPrecondition::IfNoneMatch => ApiError::ORDER_EXISTS,
    });
    expected.await
}

async fn find(api: &Api, id: OrderId) -> Result<Order, ApiError> {
    let found = api.store.order_get(id).await?;
    found.ok_or(ApiError::NotFound(NO_SUCH_ORDER))
}

pub async fn complete_order(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<OrderId>,
) -> Result<Response, ApiError> {
    transition(api, request, id, Transition::Complete).await
}

pub async fn cancel_order(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<OrderId>,
) -> Result<Response, ApiError> {
    transition(api, request, id, Transition::Cancel).await
}

pub async fn return_order(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<OrderId>,
) -> Result<Response, ApiError> {
    transition(api, request, id, Transition::Return).await
}

async fn transition(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<OrderId>,
    transition: Transition,
) -> Result<Response, ApiError> {
    let idempotency = request.idempotency_key().await?;
    let id = id?;
    let met = request.preconditions().evaluate_post(false);
    unless_missing(met, find(api, id)).await?;
    let scopes = request.scopes();
    let changed = api
        .store
        .order_transition(request.api_key_id(), id, transition, idempotency)
        .await?;
    response::idempotent(changed, |changed| match changed {
        Ok(order) => response::json(&visible(order, scopes)),
        Err(rejection) => ApiError::from(rejection).response(),
    })
}

pub fn get_inventory<'a>(
    api: &'a Api,
    request: &RequestHead<'_>,
) -> Result<CachedRead<'a>, ApiError> {
    let filter =
        FilteredInventory::parse_filter(request.query()).map_err(ApiError::InvalidParameter)?;
    let key = CacheKey::Inventory(filter.clone());
    let read = || async move {
        let response = match filter {
            None => response::resource(&api.store.counts().await?.pets),
            Some(filter) => response::resource(&api.store.pet_count(filter).await?),
        };
        Ok(CachedResponse::new(response, Invalidation::OnAnyWrite))
    };
    Ok(api.cache.get_or_read(key, read))
}
