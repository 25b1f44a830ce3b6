//! The operations of the store area.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::HeaderMap;

use super::{
    App,
    auth::{Caller, OrdersRead},
    error::ApiError,
    render::{Rendered, View},
};
use crate::{order::OrderStatus, page::ListQuery};

pub async fn list_orders(
    _: Caller<OrdersRead>,
    State(app): State<Arc<App>>,
    query: ListQuery<OrderStatus>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let read = async {
        let page = app.store.order_list(query).await?;
        Ok(Rendered::page(&app.base, &query, &page))
    };
    let page = app.rendered(View::Orders(query), read).await?;
    Ok(page.private_answer(&headers))
}
