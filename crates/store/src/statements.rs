//! Every statement under a name, to be printed and explained.

use std::{convert::Infallible, marker::PhantomData};

use super::{
    event_row::EventRow,
    row_keys::Tables,
    rows::{ForEachTable, Keyed, Rows, Stored},
    sql::Sql,
    table::Kind,
};

/// A statement with a readable name.
pub(super) struct NamedSql {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) kinds: Vec<Kind>,
}

impl NamedSql {
    pub(super) fn of(sql: &Sql) -> Self {
        Self {
            name: sql.name.replace("petstore_store::", ""),
            text: sql.text().into(),
            kinds: sql.kinds.to_vec(),
        }
    }
}

/// The statements of a database that are assembled for each table.
pub(super) trait ExplainTables {
    fn named<T: Keyed>() -> Vec<NamedSql>;
}

/// Returns the statements of every table that commands write.
pub(super) fn table_statements<E: ExplainTables>() -> Vec<NamedSql> {
    struct Collect<E>(Vec<NamedSql>, PhantomData<E>);
    impl<'a, E: ExplainTables> ForEachTable<'a> for Collect<E> {
        type Error = Infallible;

        fn visit<T: Stored>(&mut self, _: &'a Rows<T>) -> Result<(), Infallible> {
            self.0.extend(E::named::<T>());
            Ok(())
        }
    }
    let mut all = Collect::<E>(E::named::<EventRow>(), PhantomData);
    let Ok(()) = Tables::default().each(&mut all);
    all.0
}
