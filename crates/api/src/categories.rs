//! Handlers of the operations on categories.

use http::StatusCode;

use super::{
    cache::{CacheKey, CachedRead},
    error::{ApiError, NO_SUCH_CATEGORY},
    path::PathId,
    preconditions::{Preconditions, UnmetPrecondition, retry},
    request::{ApiRequest, RequestHead},
    response,
    state::Api,
};
use domain::category::{
    Category, CategoryFilter, CategoryId, CategoryRejection, CategoryUpsert, ExpectedCategory,
    NewCategory,
};
use server::Response;

pub fn list_categories<'a>(
    api: &'a Api,
    request: &RequestHead<'_>,
) -> Result<CachedRead<'a>, ApiError> {
    let query = request.list_query::<CategoryFilter>()?;
    let key = CacheKey::Categories(query.clone());
    Ok(api.cache.get_or_read(key, || async move {
        let page = api.store.category_list(query.clone()).await?;
        Ok(api.links.page("categories", &query, &page))
    }))
}

pub async fn put_category(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<CategoryId>,
) -> Result<Response, ApiError> {
    let NewCategory { name, batch_id } = request.json().await?;
    let id = id?;
    let category = Category { id, name };
    let preconditions = request.preconditions();
    let key = request.api_key_id();
    let upsert = retry(CHANGED_TOO_OFTEN, || async {
        let expected = if preconditions.is_empty() {
            ExpectedCategory::Any
        } else {
            let stored = api.store.category_get(id).await?;
            evaluate(preconditions, stored.as_ref())?;
            stored.into()
        };
        let put = api
            .store
            .category_put(key, category.clone(), batch_id.clone(), expected);
        match put.await? {
            Err(CategoryRejection::Outdated) => Ok(None),
            upsert => Ok(Some(upsert?)),
        }
    });
    let is_new = upsert.await? == CategoryUpsert::Create;
    let mut response = response::resource(&category);
    if is_new {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

pub async fn delete_category(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<CategoryId>,
) -> Result<Response, ApiError> {
    let id = id?;
    let preconditions = request.preconditions();
    let key = request.api_key_id();
    let find = || async {
        let found = api.store.category_get(id).await?;
        found.ok_or(ApiError::NotFound(NO_SUCH_CATEGORY))
    };
    let deleted = retry(CHANGED_TOO_OFTEN, || async {
        let expected = preconditions.expected(find(), response::etag, unmet_error);
        let deleted = api.store.category_delete(key, id, expected.await?);
        match deleted.await? {
            Err(CategoryRejection::Outdated) => Ok(None),
            deleted => Ok(Some(deleted?)),
        }
    });
    deleted.await?;
    Ok(response::no_content())
}

fn evaluate(preconditions: Preconditions<'_>, category: Option<&Category>) -> Result<(), ApiError> {
    let evaluated = match category {
        Some(category) => preconditions.evaluate(&response::etag(category)),
        None => preconditions.evaluate_absent(),
    };
    evaluated.map_err(unmet_error)
}

fn unmet_error(unmet: UnmetPrecondition) -> ApiError {
    match unmet {
        UnmetPrecondition::IfMatch => ApiError::CATEGORY_CHANGED,
        UnmetPrecondition::IfNoneMatch => ApiError::CATEGORY_EXISTS,
    }
}

const CHANGED_TOO_OFTEN: &str =
    "the category is being changed too often; nothing was changed, retry later";
