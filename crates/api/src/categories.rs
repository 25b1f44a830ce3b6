//! Handlers of the operations on categories.

use http::StatusCode;

use super::{
    cache::{CacheKey, CachedRead},
    error::{ApiError, NO_SUCH_CATEGORY},
    path::PathId,
    preconditions::{MAX_ATTEMPTS, Preconditions, UnmetPrecondition, contention},
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
    let NewCategory { name } = request.json().await?;
    let id = id?;
    let preconditions = request.preconditions();
    for _ in 0..MAX_ATTEMPTS {
        let expected = if preconditions.is_empty() {
            ExpectedCategory::Any
        } else {
            let category = api.store.category_get(id).await?;
            evaluate(preconditions, category.as_ref())?;
            category.into()
        };
        match api
            .store
            .category_put(request.api_key_id(), id, name.clone(), expected)
            .await?
        {
            // It changed since it was read; the precondition may still hold.
            Err(CategoryRejection::Outdated) => {}
            Err(rejection) => return Err(rejection.into()),
            Ok(upsert) => {
                let mut response = response::resource(&Category { id, name });
                if upsert == CategoryUpsert::Create {
                    *response.status_mut() = StatusCode::CREATED;
                }
                return Ok(response);
            }
        }
    }
    Err(contention(CHANGED_TOO_OFTEN))
}

pub async fn delete_category(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<CategoryId>,
) -> Result<Response, ApiError> {
    let id = id?;
    let preconditions = request.preconditions();
    for _ in 0..MAX_ATTEMPTS {
        let expected = if preconditions.depend_on_state() {
            let found = api.store.category_get(id).await?;
            let category = found.ok_or(ApiError::NotFound(NO_SUCH_CATEGORY))?;
            evaluate(preconditions, Some(&category))?;
            Some(category)
        } else {
            None
        };
        match api
            .store
            .category_delete(request.api_key_id(), id, expected)
            .await?
        {
            Err(CategoryRejection::Outdated) => {}
            Err(rejection) => return Err(rejection.into()),
            Ok(()) => return Ok(response::no_content()),
        }
    }
    Err(contention(CHANGED_TOO_OFTEN))
}

fn evaluate(preconditions: Preconditions<'_>, category: Option<&Category>) -> Result<(), ApiError> {
    let evaluated = match category {
        Some(category) => preconditions.evaluate(&response::etag(category)),
        None => preconditions.evaluate_absent(),
    };
    evaluated.map_err(|unmet| match unmet {
        UnmetPrecondition::IfMatch => ApiError::CATEGORY_CHANGED,
        UnmetPrecondition::IfNoneMatch => ApiError::CATEGORY_EXISTS,
    })
}

const CHANGED_TOO_OFTEN: &str =
    "the category is being changed too often; nothing was changed, retry later";
