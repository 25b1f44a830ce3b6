//! The operations of the store area.

use http::request::Parts;

use super::{
    Answer, App,
    auth::Permit,
    error::ApiError,
    extract,
    render::{Rendered, View},
};

pub async fn list_orders(app: &App, _: Permit, head: &Parts) -> Result<Answer, ApiError> {
    let query = extract::list_query(head)?;
    let read = async {
        let page = app.store.order_list(query).await?;
        Ok(Rendered::page(&app.base, &query, &page))
    };
    let page = app.rendered(View::Orders(query), read).await?;
    Ok(page.answer(&head.headers))
}
