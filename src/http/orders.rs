//! The operations of the store area.

use http::request::Parts;
use hyper::body::Incoming;

use super::{
    App, Response,
    auth::Permit,
    error::{ApiError, NO_SUCH_ORDER},
    extract,
    render::{self, Rendered, View},
};
use crate::order::{NewOrder, PlaceOrder, Transition};

pub async fn list_orders(app: &App, _: Permit<'_>, head: &Parts) -> Result<Response, ApiError> {
    let query = extract::list_query(head)?;
    let read = || async {
        let page = app.store.order_list(query).await?;
        Ok(Rendered::page(&app.base, &query, &page))
    };
    let page = app.rendered(View::Orders(query), read).await?;
    Ok(page.answer(&head.headers))
}

pub async fn place_order(
    app: &App,
    mut permit: Permit<'_>,
    head: &Parts,
    body: Incoming,
) -> Result<Response, ApiError> {
    let (claim, named) = extract::named_object::<PlaceOrder>(head, &mut permit, body).await?;
    let new = NewOrder::new(claim.pet_id, permit.now, app.hold);
    let placed = app.store.order_place(new, named).await?;
    render::once(placed, |placed| match placed {
        Ok(order) => render::created(app, "store/orders", order.id.get(), &order),
        Err(refused) => ApiError::from(refused).answer(),
    })
}

pub async fn get_order(
    app: &App,
    _: Permit<'_>,
    head: &Parts,
    id: &str,
) -> Result<Response, ApiError> {
    let id = extract::order_id(id).ok_or(ApiError::NotFound(NO_SUCH_ORDER))?;
    let read = || async {
        Ok(match app.store.order_get(id).await? {
            // Other orders that are placed do not change this one.
            Some(order) => Rendered::lasting(render::json(&order, None)),
            None => Rendered::passing(ApiError::NotFound(NO_SUCH_ORDER).answer()),
        })
    };
    let order = app.rendered(View::Order(id), read).await?;
    Ok(order.answer(&head.headers))
}

pub async fn complete_order(
    app: &App,
    permit: Permit<'_>,
    head: &Parts,
    body: Incoming,
    id: &str,
) -> Result<Response, ApiError> {
    close_order(app, permit, head, body, id, Transition::Complete).await
}

pub async fn cancel_order(
    app: &App,
    permit: Permit<'_>,
    head: &Parts,
    body: Incoming,
    id: &str,
) -> Result<Response, ApiError> {
    close_order(app, permit, head, body, id, Transition::Cancel).await
}

async fn close_order(
    app: &App,
    mut permit: Permit<'_>,
    head: &Parts,
    body: Incoming,
    id: &str,
    how: Transition,
) -> Result<Response, ApiError> {
    // Nothing is asked of the body, but another one is another request.
    let body = extract::bytes(&mut permit, body).await?;
    let named = extract::named(head, &permit, &body)?;
    let id = extract::order_id(id).ok_or(ApiError::NotFound(NO_SUCH_ORDER))?;
    let closed = app.store.order_close(id, how, permit.now, named).await?;
    render::once(closed, |closed| match closed {
        Ok(order) => render::plain(&order),
        Err(refused) => ApiError::from(refused).answer(),
    })
}

pub async fn get_inventory(app: &App, _: Permit<'_>, head: &Parts) -> Result<Response, ApiError> {
    let read = || async {
        let inventory = app.store.pet_inventory().await?;
        Ok(Rendered::passing(render::json(&inventory, None)))
    };
    let inventory = app.rendered(View::Inventory, read).await?;
    Ok(inventory.answer(&head.headers))
}
