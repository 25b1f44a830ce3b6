//! Events as rows of their table, and rows of other tables that a trigger has logged.

use jiff::Timestamp;
use serde_json::{Map, Value as Json};

use super::{
    rows::to_json,
    table::{Column, Columns, CorruptValue, Kind, Record, Row, Table, Value},
};
use domain::{
    category::Category,
    event::{Event, EventData, EventType},
    order::Order,
    pet::{Pet, batch::BatchId},
};

/// An event as it is stored. `data` is the resource as JSON. If another program made the
/// change, a trigger of PostgreSQL has logged the whole row instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventRow {
    pub(super) sequence: i64,
    pub(super) at: Timestamp,
    pub(super) kind: EventType,
    pub(super) api_key_id: Option<i64>,
    pub(super) resource_id: i64,
    pub(super) is_row: bool,
    pub(super) data: String,
    pub(super) batch_id: Option<BatchId>,
    /// The resource before an update of a batch, as JSON, so that it can be undone.
    pub(super) before: Option<String>,
}

table! {
    EventRow: "events" {
        sequence,
        at,
        kind as "type",
        api_key_id,
        resource_id,
        is_row,
        data,
        batch_id,
        before,
    }
}

impl Record for Event {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let row = EventRow::read(columns)?;
        let data = if row.is_row {
            let resource = resource_of_row(row.kind, &row.data);
            // A row that cannot be read must not stop the log.
            let resource = resource.unwrap_or_else(|_| format!(r#"{{"id":{}}}"#, row.resource_id));
            EventData::of_row(row.data, resource)
        } else {
            EventData::of_resource(row.data)
        };
        Ok(Self {
            sequence: row.sequence,
            at: row.at,
            kind: row.kind,
            api_key_id: row.api_key_id,
            resource_id: row.resource_id,
            data,
            batch_id: row.batch_id,
        })
    }
}

/// Converts a database row, given as JSON, to its resource, as JSON.
fn resource_of_row(kind: EventType, row: &str) -> Result<String, CorruptValue> {
    use EventType::*;
    let json = match kind {
        PetCreated | PetUpdated | PetDeleted => to_json(&from_json::<Pet>(row)?),
        OrderPlaced | OrderUpdated | OrderCompleted | OrderCancelled | OrderReturned => {
            to_json(&from_json::<Order>(row)?)
        }
        CategoryUpdated | CategoryDeleted => to_json(&from_json::<Category>(row)?),
        // No trigger logs these: a row has the hash of the secret.
        KeyCreated | KeyRotated | KeyRevoked => return Err(CorruptValue),
    };
    Ok(json)
}

/// Leaves out the values that cannot be read.
fn from_json<T: Table>(row: &str) -> Result<T, CorruptValue> {
    let mut row = JsonRow {
        members: serde_json::from_str(row).map_err(|_| CorruptValue)?,
        columns: T::columns(""),
    };
    loop {
        match T::from_row(&row) {
            Ok(resource) => return Ok(resource),
            Err(CorruptColumn(column)) => {
                let removed = row.members.remove(row.columns[column].name);
                removed.ok_or(CorruptValue)?;
            }
        }
    }
}

/// The column whose value cannot be read.
struct CorruptColumn(usize);

/// A row of a table as a JSON object. A column that was added later is null.
struct JsonRow {
    members: Map<String, Json>,
    columns: Vec<Column>,
}

impl Row for JsonRow {
    type Error = CorruptColumn;

    fn value(&self, column: usize, _: Kind) -> Result<Value<'_>, CorruptColumn> {
        match self.members.get(self.columns[column].name) {
            None | Some(Json::Null) => Ok(Value::Null),
            Some(Json::Bool(bool)) => Ok(Value::Bool(*bool)),
            Some(Json::Number(number)) => {
                number.as_i64().map(Value::Int).ok_or(CorruptColumn(column))
            }
            Some(Json::String(text)) => Ok(Value::text(text.as_str())),
            Some(Json::Array(_) | Json::Object(_)) => Err(CorruptColumn(column)),
        }
    }

    fn corrupt(column: usize, _: impl std::error::Error + Send + Sync + 'static) -> CorruptColumn {
        CorruptColumn(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_be_read_are_left_out() {
        let row = r#"{"id":1,"name":"Rex","category_id":2,"birth_date":"2026-8-2","sex":7,
            "price_amount":5,"price_currency":"euro","metadata":"{","color":"black"}"#;
        assert_eq!(
            resource_of_row(EventType::PetUpdated, row).unwrap(),
            r#"{"id":1,"name":"Rex","categoryId":2,"color":"black"}"#
        );
        // A member that a resource always has.
        for row in [r#"{"id":1,"name":"Rex"}"#, "[]", ""] {
            assert!(resource_of_row(EventType::PetUpdated, row).is_err());
        }
    }
}
