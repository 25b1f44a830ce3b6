//! The tables that commands change, and the keys of their rows.

use std::collections::BTreeSet;

use compact_str::CompactString;

use super::{
    event_row::EventRow,
    rows::{ForEachTable, Keyed, LoggedChange, RowChange, Rows, Stored},
    table::Table,
    tables::{ApiKeyRow, DeliveryRow, IdempotencyRecord, PhotoPart, SettingsRow, StoredPhoto},
};
use domain::{
    category::{Category, CategoryId},
    import::{Import, ImportId},
    order::{Order, OrderId},
    pet::{Microchip, Pet, PetId},
    photo::{PhotoId, PhotoSize},
    register::DeletedPet,
    webhook::{WebhookId, delivery::StoredWebhook},
};

/// Declares the tables that commands change: the name of each in the working set, and the type
/// of its rows.
macro_rules! tables {
    ($($table:ident: $type:ident,)+) => {
        pub(super) const TABLE_NAMES: &[&str] = &[$(<$type as Table>::NAME,)+];

        /// The rows of all tables.
        #[derive(Default)]
        pub(super) struct Tables {
            $(pub(super) $table: Rows<$type>,)+
        }

        /// Finds the rows of one table among those of all.
        pub(super) struct TableOf<T: Keyed> {
            pub(super) rows: fn(&Tables) -> &Rows<T>,
            pub(super) rows_mut: fn(&mut Tables) -> &mut Rows<T>,
        }

        /// A visitor of the keys of every table.
        pub(super) trait ForEachKeys<'a> {
            type Error;

            fn visit<T: Stored>(
                &mut self,
                keys: &'a [T::Key],
                table: TableOf<T>,
            ) -> Result<(), Self::Error>;
        }

        /// The rows that commands read, and the new ids that they need.
        #[derive(Default)]
        pub(super) struct Keys {
            $(pub(super) $table: Vec<<$type as Keyed>::Key>,)+
            /// Folded names, to find the categories that have them.
            pub(super) category_names: Vec<String>,
            /// Categories, to find those that a pet has.
            pub(super) used_categories: Vec<CategoryId>,
            /// Microchips, to find the pets that have them and are not sold.
            pub(super) microchips: Vec<Microchip>,
            /// Pets that a command may make unsold. Other unsold pets with their microchips are
            /// read too.
            pub(super) unsold_pets: Vec<PetId>,
            /// Orders that a command may return, which makes their pets unsold.
            pub(super) returned_orders: Vec<OrderId>,
            /// Pets that may lose photos: those that they show are loaded, too.
            pub(super) photos_of: Vec<PetId>,
            /// True for a command that makes any number of changes. Its group is not run as one
            /// that only creates pets.
            pub(super) has_many_changes: bool,
            /// True if the number of webhooks is read. On PostgreSQL, an advisory lock keeps it
            /// unchanged until the commit.
            pub(super) counts_webhooks: bool,
            /// The number of new ids of each [`Sequence`].
            pub(super) new_ids: [usize; Sequence::ALL.len()],
        }

        impl Keys {
            /// Returns true if nothing is read, and each command creates one row.
            pub(super) fn is_empty(&self) -> bool {
                $(self.$table.is_empty() &&)+
                !self.has_many_changes
                    && self.category_names.is_empty()
                    && self.used_categories.is_empty()
                    && self.microchips.is_empty()
                    && !self.counts_webhooks
            }

            /// Returns true if both name the same row of a table.
            pub(super) fn overlaps(&self, other: &Self) -> bool {
                $(share_a_key(&self.$table, &other.$table) ||)+ false
            }

            /// Returns true if a command that changes these rows has to wait for a later group.
            pub(super) fn must_wait(&self, tables: &Tables) -> bool {
                $(self.$table.iter().any(|key| tables.$table.must_wait(key)) ||)+ false
            }

            /// Visits the keys of every table, in the order in which rows are locked.
            pub(super) fn each<'a, V: ForEachKeys<'a>>(
                &'a self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                $(visitor.visit(&self.$table, TableOf {
                    rows: |tables| &tables.$table,
                    rows_mut: |tables| &mut tables.$table,
                })?;)+
                Ok(())
            }
        }

        /// A change of a row. Boxed, because some rows are large.
        pub(super) enum Change {
            $($type(Box<RowChange<$type>>),)+
        }

        $(impl From<RowChange<$type>> for Change {
            fn from(change: RowChange<$type>) -> Self {
                Self::$type(Box::new(change))
            }
        })+

        impl Tables {
            pub(super) fn apply(
                &mut self,
                change: Change,
                keeps_before: bool,
            ) -> Option<LoggedChange> {
                match change {
                    $(Change::$type(change) => self.$table.change(*change, keeps_before),)+
                }
            }

            /// Visits every table, in the order in which rows are written.
            pub(super) fn each<'a, V: ForEachTable<'a>>(
                &'a self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                $(visitor.visit(&self.$table)?;)+
                Ok(())
            }
        }
    };
}

// Photos come after pets, whose locks protect them. Records come last: once a row is locked, the
// record of the transaction that had locked it before is visible.
tables! {
    pets: Pet,
    photos: StoredPhoto,
    photo_parts: PhotoPart,
    deleted_pets: DeletedPet,
    orders: Order,
    categories: Category,
    settings: SettingsRow,
    imports: Import,
    api_keys: ApiKeyRow,
    webhooks: StoredWebhook,
    deliveries: DeliveryRow,
    records: IdempotencyRecord,
}

/// Declares the key of each table.
macro_rules! keyed {
    ($($type:ty: $key:ty = |$row:ident| $value:expr;)+) => {$(
        impl Keyed for $type {
            type Key = $key;

            fn key(&self) -> $key {
                let $row = self;
                $value
            }
        }
    )+};
}

keyed! {
    Pet: PetId = |pet| pet.id;
    StoredPhoto: PhotoId = |photo| photo.id;
    PhotoPart: (PhotoId, (PhotoSize, i64)) = |part| (part.photo_id, (part.size, part.part));
    DeletedPet: PetId = |deleted| deleted.id;
    Order: OrderId = |order| order.id;
    Category: CategoryId = |category| category.id;
    SettingsRow: i64 = |_row| SettingsRow::ID;
    Import: ImportId = |import| import.id;
    ApiKeyRow: i64 = |row| row.key.id;
    StoredWebhook: WebhookId = |stored| stored.webhook.id;
    DeliveryRow: (WebhookId, i64) = |row| (row.webhook_id, row.sequence);
    IdempotencyRecord: (i64, CompactString) = |record| (record.api_key_id, record.key.clone());
    EventRow: i64 = |event| event.sequence;
}

/// The source of the ids of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequence {
    Pets,
    Photos,
    Orders,
    ApiKeys,
    Webhooks,
}

impl Sequence {
    pub(super) const ALL: [Self; 5] = [
        Self::Pets,
        Self::Photos,
        Self::Orders,
        Self::ApiKeys,
        Self::Webhooks,
    ];

    /// Returns the sequence of a table, if it has one.
    pub(super) fn of<T: Table>() -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|sequence| sequence.table() == T::NAME)
    }

    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Pets => Pet::NAME,
            Self::Photos => StoredPhoto::NAME,
            Self::Orders => Order::NAME,
            Self::ApiKeys => ApiKeyRow::NAME,
            Self::Webhooks => StoredWebhook::NAME,
        }
    }
}

fn share_a_key<K: Ord>(some: &[K], others: &[K]) -> bool {
    let some: BTreeSet<&K> = some.iter().collect();
    !some.is_empty() && others.iter().any(|key| some.contains(key))
}

impl Keys {
    /// Asks for new ids.
    pub(super) fn draw(&mut self, sequence: Sequence, count: usize) {
        self.new_ids[sequence as usize] += count;
    }
}
