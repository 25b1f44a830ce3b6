//! Handlers of the operations on the settings of the shop.

use std::sync::Arc;

use super::{
    cache::CachedRead,
    cached_response::{CachedResponse, Invalidation},
    error::ApiError,
    preconditions::{UnmetPrecondition, retry},
    request::{ApiRequest, RequestHead},
    response,
    state::Api,
};
use domain::settings::SettingsChange;
use server::Response;
use telemetry::audit_log;

/// Reads the settings from the store each time: their changes are not in the event log, so the
/// version of the store cannot validate a cached response.
pub fn get_settings<'a>(api: &'a Api, _: &RequestHead<'_>) -> Result<CachedRead<'a>, ApiError> {
    Ok(CachedRead::Pending(Box::pin(async move {
        let settings = response::resource(&api.store.settings_get().await?);
        let read = CachedResponse::new(settings, Invalidation::OnAnyWrite);
        Ok(Arc::new(read))
    })))
}

pub async fn update_settings(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let change = request.merge_patch::<SettingsChange>().await?;
    let key = request.api_key_id();
    let find = || async { Ok(api.store.settings_get().await?) };
    let updated = retry(CHANGED_TOO_OFTEN, || async {
        let preconditions = request.preconditions();
        let expected = preconditions.expected(find(), response::etag, |unmet| match unmet {
            UnmetPrecondition::IfMatch => ApiError::SETTINGS_CHANGED,
            UnmetPrecondition::IfNoneMatch => ApiError::SETTINGS_EXIST,
        });
        let updated = api
            .store
            .settings_update(key, change.clone(), expected.await?);
        // Outdated is the only rejection.
        Ok(updated.await?.ok())
    });
    let updated = updated.await?;
    if !updated.changed.is_empty() {
        audit_log::settings_changed(key, &updated.changed);
    }
    Ok(response::resource(&updated.settings))
}

const CHANGED_TOO_OFTEN: &str =
    "the settings are being changed too often; nothing was changed, retry later";
