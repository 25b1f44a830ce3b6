//! Entries of the register.

use std::borrow::Cow;

use jiff::{Timestamp, tz::TimeZone};

use super::{super::formula, text_of};
use domain::{
    category::{CategoryName, CategoryNames},
    date::PastDate,
    members::{CellMember, Choice},
    order::Reference,
    party::{Buyer, Source},
    period::day_of,
    pet::{Microchip, PetName, Sex},
    price::Price,
    register::{EntryKind, RegisterEntry},
    text::Text,
};

/// The columns of an entry of the register.
pub fn register_columns() -> Vec<Cow<'static, str>> {
    let mut columns: Vec<Cow<_>> = [
        "entry",
        "petId",
        "name",
        "categoryId",
        "category",
        "breed",
        "sex",
        "birthDate",
        "color",
        "microchip",
        "acquiredOn",
    ]
    .map(Cow::Borrowed)
    .into();
    columns.extend(Source::columns("source", &[]));
    columns.extend(["deletedOn", "orderId", "soldOn"].map(Cow::Borrowed));
    columns.extend(Price::columns("price", &[]));
    columns.extend(Buyer::columns("buyer", &[]));
    columns.extend(["reference", "returnedOn"].map(Cow::Borrowed));
    columns
}

/// Returns the cells of an entry of the register. Times are days of the time zone.
pub fn register_cells(
    kind: EntryKind,
    entry: &RegisterEntry,
    names: &CategoryNames,
    zone: &TimeZone,
) -> Vec<String> {
    let day =
        |time: Option<Timestamp>| time.map_or(String::new(), |time| day_of(time, zone).to_string());
    let pet = entry.pet.as_ref();
    let sale = entry.sale.as_ref();
    let category = pet.map(|pet| pet.category_id);
    let mut cells = vec![kind.as_str().into(), entry.pet_id.get().to_string()];
    let mut put = |cell| cells.push(text_of(cell));
    PetName::write_cells(pet.map(|pet| &pet.name), &[], &mut put);
    i64::write_cells(category.as_ref(), &[], &mut put);
    let category = category.and_then(|id| names.name(id));
    cells.push(formula::escape(category.map_or("", CategoryName::as_str)));
    let mut put = |cell| cells.push(text_of(cell));
    Text::<100>::write_cells(pet.and_then(|pet| pet.breed.as_ref()), &[], &mut put);
    Sex::write_cells(pet.and_then(|pet| pet.sex.as_ref()), &[], &mut put);
    PastDate::write_cells(pet.and_then(|pet| pet.birth_date.as_ref()), &[], &mut put);
    Text::<100>::write_cells(pet.and_then(|pet| pet.color.as_ref()), &[], &mut put);
    Microchip::write_cells(pet.and_then(|pet| pet.microchip.as_ref()), &[], &mut put);
    PastDate::write_cells(pet.and_then(|pet| pet.acquired_on.as_ref()), &[], &mut put);
    Source::write_cells(pet.and_then(|pet| pet.source.as_ref()), &[], &mut put);
    cells.push(day(entry.deleted_at));
    cells.push(sale.map_or(String::new(), |sale| sale.order_id.get().to_string()));
    cells.push(day(sale.map(|sale| sale.sold_at)));
    let mut put = |cell| cells.push(text_of(cell));
    Price::write_cells(sale.and_then(|sale| sale.price.as_ref()), &[], &mut put);
    Buyer::write_cells(sale.and_then(|sale| sale.buyer.as_ref()), &[], &mut put);
    Reference::write_cells(sale.and_then(|sale| sale.reference.as_ref()), &[], &mut put);
    cells.push(day(sale.and_then(|sale| sale.returned_at)));
    cells
}

#[cfg(test)]
mod tests {
    use domain::{order::OrderId, pet::PetId, register::RegisteredSale};

    use super::*;

    /// Clocks there were set back from one minute past midnight, so the day that had started was
    /// shown as the one before again.
    #[test]
    fn a_day_is_that_of_the_period() {
        let sold_at: Timestamp = "2010-11-07T03:00:00Z".parse().unwrap();
        let zone = TimeZone::get("America/St_Johns").unwrap();
        assert_eq!(zone.to_datetime(sold_at).date().to_string(), "2010-11-06");
        let entry = RegisterEntry {
            pet_id: PetId::from_store(1),
            pet: None,
            deleted_at: None,
            sale: Some(RegisteredSale {
                order_id: OrderId::from_store(1),
                sold_at,
                returned_at: Some(sold_at),
                price: None,
                buyer: None,
                reference: None,
            }),
        };
        let cells = register_cells(EntryKind::Sold, &entry, &CategoryNames::default(), &zone);
        let days = cells.iter().filter(|cell| *cell == "2010-11-07");
        assert_eq!(days.count(), 2, "{cells:?}");
    }
}
