//! Orders as they are exported.

use std::borrow::Cow;

use super::text_of;
use domain::{
    members::{CellMember, Choice},
    order::{Order, Reference},
    party::Buyer,
    price::Price,
};

/// The columns of an order that every table has.
pub const REQUIRED_ORDER_COLUMNS: usize = 6;

/// Returns the columns of an order.
pub fn order_columns() -> Vec<Cow<'static, str>> {
    let mut columns: Vec<Cow<_>> = [
        "id",
        "petId",
        "status",
        "createdAt",
        "updatedAt",
        "expiresAt",
        "completedAt",
        "returnedAt",
    ]
    .map(Cow::Borrowed)
    .into();
    columns.extend(Price::columns("price", &[]));
    columns.push("reference".into());
    columns.extend(Buyer::columns("buyer", &[]));
    columns
}

pub fn order_cells(order: &Order) -> Vec<String> {
    let mut cells = vec![
        order.id.get().to_string(),
        order.pet_id.get().to_string(),
        order.status.as_str().into(),
        order.created_at.to_string(),
        order.updated_at.to_string(),
    ];
    for time in [order.expires_at, order.completed_at, order.returned_at] {
        cells.push(time.map_or(String::new(), |time| time.to_string()));
    }
    let mut put = |cell| cells.push(text_of(cell));
    Price::write_cells(order.price.as_ref(), &[], &mut put);
    Reference::write_cells(order.reference.as_ref(), &[], &mut put);
    Buyer::write_cells(order.buyer.as_ref(), &[], &mut put);
    cells
}
