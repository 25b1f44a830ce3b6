//! The settings of the shop: the command that changes them, and their read.

use super::{
    Error, Store, command::Command, draft::Draft, row_keys::Keys, rows::Stored, table::columns,
    tables::SettingsRow,
};
use domain::settings::{Settings, SettingsChange, SettingsRejection, UpdatedSettings};

statements! {
    GET() = format!("SELECT {} FROM settings WHERE id = 1", columns::<SettingsRow>());
}

struct UpdateSettings {
    change: SettingsChange,
    expected: Option<Settings>,
}

impl Command for UpdateSettings {
    type Output = UpdatedSettings;
    type Rejection = SettingsRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.settings.push(SettingsRow::ID);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<UpdatedSettings, SettingsRejection> {
        let row = draft.tables.settings.get(&SettingsRow::ID);
        let before = row.map(|row| row.settings.clone()).unwrap_or_default();
        let settings = self.change.decide(&before, self.expected.as_ref())?;
        let changed = settings.differences(&before);
        if !changed.is_empty() {
            draft.put(SettingsRow::new(settings.clone()));
        }
        Ok(UpdatedSettings { settings, changed })
    }
}

/// The primary key protects the first change, which is decided because there is no row.
impl Stored for SettingsRow {
    fn must_reach_index(before: Option<&Self>, _: Option<&Self>) -> bool {
        before.is_none()
    }
}

impl Store {
    /// Changes the settings and returns them. With `expected`, they must still have that value.
    pub async fn settings_update(
        &self,
        api_key_id: i64,
        change: SettingsChange,
        expected: Option<Settings>,
    ) -> Result<Result<UpdatedSettings, SettingsRejection>, Error> {
        self.execute_once(Some(api_key_id), UpdateSettings { change, expected })
            .await
    }

    pub async fn settings_get(&self) -> Result<Settings, Error> {
        let row: Option<SettingsRow> = self.find(&GET, Vec::new()).await?;
        Ok(row.map(|row| row.settings).unwrap_or_default())
    }
}
