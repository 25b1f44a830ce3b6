//! Orders: the commands that change them, and reads.

use jiff::SignedDuration;

use super::{
    Error, Store,
    command::{Command, Lane, RecordedResult, Reply},
    draft::Draft,
    list::Select,
    row_keys::{Keys, Sequence},
    rows::{LoggedChange, Stored},
    table::{Value, columns},
};
use domain::{
    event::EventType,
    idempotency::{Idempotent, IdempotentRequest},
    order::{
        Order, OrderChange, OrderFilter, OrderId, OrderRejection, PlaceOrderRequest, Transition,
        TransitionContext,
    },
    page::{ListQuery, Page},
    pet::{Pet, PetStatus},
};

/// The maximum number of orders that expire at a time.
const EXPIRE_BATCH_SIZE: i64 = 100;

type OrderResult = Result<Order, OrderRejection>;

statements! {
    GET(Int) = format!("SELECT {} FROM orders WHERE id = $1", columns::<Order>());
}

struct PlaceOrder {
    request: PlaceOrderRequest,
    reserve_for: Option<SignedDuration>,
}

impl Command for PlaceOrder {
    type Output = Order;
    type Rejection = OrderRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.pets.push(self.request.pet_id);
        keys.draw(Sequence::Orders, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> OrderResult {
        let pet = draft
            .tables
            .pets
            .get(&self.request.pet_id)
            .ok_or(OrderRejection::NoSuchPet)?;
        if pet.status != Some(PetStatus::Available) || draft.claims.contains_key(&pet.id) {
            return Err(OrderRejection::PetNotAvailable);
        }
        let reserved = Pet {
            status: Some(PetStatus::Pending),
            ..pet.clone()
        };
        let mut request = self.request.clone();
        request.price = request.price.or_else(|| pet.price.clone());
        let now = draft.times.now;
        let id = OrderId::from_store(draft.new_id(Sequence::Orders));
        let order = request.into_order(id, now, self.reserve_for);
        draft.put(order.clone());
        draft.put(reserved);
        Ok(order)
    }

    fn recorded(order: &Order) -> RecordedResult {
        RecordedResult::of_id(order.id.get())
    }
}

struct TransitionOrder {
    id: OrderId,
    transition: Transition,
    api_key_id: Option<i64>,
}

impl Command for TransitionOrder {
    type Output = Order;
    type Rejection = OrderRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.orders.push(self.id);
        if self.transition == Transition::Return {
            keys.returned_orders.push(self.id);
        }
    }

    fn decide(&self, draft: &mut Draft<'_>) -> OrderResult {
        let before = draft
            .tables
            .orders
            .get(&self.id)
            .ok_or(OrderRejection::NoSuchOrder)?
            .clone();
        let pet = draft.tables.pets.get(&before.pet_id).cloned();
        let context = TransitionContext {
            now: draft.times.now,
            expiry_time: draft.times.expiry(self.id),
            api_key_id: self.api_key_id,
            category_id: pet.as_ref().map(|pet| pet.category_id),
        };
        let after = before.apply(self.transition, &context)?;
        // The pet may have been deleted after it was sold.
        if pet.is_none() && self.transition == Transition::Return {
            return Err(self.transition.rejection());
        }
        let pet = pet.map(|pet| Pet {
            status: Some(self.transition.pet_status()),
            ..pet
        });
        if let Some(holder) = pet.as_ref().and_then(|pet| draft.microchip_holder(pet)) {
            return Err(OrderRejection::MicrochipTaken(holder));
        }
        draft.put(after.clone());
        if let Some(pet) = pet {
            draft.put(pet);
        }
        Ok(after)
    }

    fn recorded(order: &Order) -> RecordedResult {
        RecordedResult::of_id(order.id.get())
    }
}

struct UpdateOrder {
    id: OrderId,
    change: OrderChange,
    expected: Option<Order>,
}

impl Command for UpdateOrder {
    type Output = Order;
    type Rejection = OrderRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.orders.push(self.id);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> OrderResult {
        let before = draft.tables.orders.get(&self.id);
        let before = before.ok_or(OrderRejection::NoSuchOrder)?;
        let now = draft.times.now;
        let after = self.change.decide(before, self.expected.as_ref(), now)?;
        if after != *before {
            draft.put(after.clone());
        }
        Ok(after)
    }
}

/// Cancels an order whose reservation has expired.
struct ExpireOrder(OrderId);

impl Command for ExpireOrder {
    const LANE: Lane = Lane::Bulk;

    type Output = Order;
    type Rejection = OrderRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.orders.push(self.0);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> OrderResult {
        let order = draft.tables.orders.get(&self.0);
        let expires_at = order.and_then(|order| order.expires_at);
        if expires_at.is_none_or(|expiry| expiry > draft.times.expiry(self.0)) {
            return Err(OrderRejection::OrderNotOpen);
        }
        let cancel = TransitionOrder {
            id: self.0,
            transition: Transition::Cancel,
            api_key_id: None,
        };
        cancel.decide(draft)
    }
}

/// The pet of an order changes with it, so that it never counts as appended. The buyer is not
/// logged.
impl Stored for Order {
    fn event(before: Option<&Self>, after: Option<&Self>) -> Option<LoggedChange> {
        let order = after?;
        let is_correction = before.is_some_and(|before| before.status == order.status);
        let kind = if is_correction {
            EventType::OrderUpdated
        } else {
            EventType::of_order(order.status)
        };
        let shown = order.clone().without_buyer();
        Some(LoggedChange::new(kind, order.id.get(), &shown))
    }
}

impl Store {
    /// Places an order on an available pet, which becomes pending. The reservation
    /// expires after `reserve_for`, if ever.
    pub async fn order_place(
        &self,
        api_key_id: i64,
        request: PlaceOrderRequest,
        reserve_for: Option<SignedDuration>,
        idempotent: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let place = PlaceOrder {
            request,
            reserve_for,
        };
        let reply = self.execute(Some(api_key_id), place, idempotent).await?;
        self.order_result(reply, Order::into_placed).await
    }

    /// Completes or cancels an open order, or returns a completed one, and updates the
    /// status of its pet. An order whose reservation has expired can no longer be
    /// completed.
    pub async fn order_transition(
        &self,
        api_key_id: i64,
        id: OrderId,
        transition: Transition,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let command = TransitionOrder {
            id,
            transition,
            api_key_id: Some(api_key_id),
        };
        let reply = self.execute(Some(api_key_id), command, request).await?;
        self.order_result(reply, |order| order.into_changed_by(transition))
            .await
    }

    /// Corrects the details of a sale, or erases the buyer, and returns the order. With
    /// `expected`, the order must still have that value.
    pub async fn order_update(
        &self,
        api_key_id: i64,
        id: OrderId,
        change: OrderChange,
        expected: Option<Order>,
    ) -> Result<OrderResult, Error> {
        let update = UpdateOrder {
            id,
            change,
            expected,
        };
        self.execute_once(Some(api_key_id), update).await
    }

    /// Returns the order that was changed. For a retry it is read, and `as_recorded` restores
    /// it as it was after the first request.
    async fn order_result(
        &self,
        reply: Reply<Order, OrderRejection>,
        as_recorded: impl FnOnce(Order) -> Order,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let read = async |id| {
            let order = self.order_get(OrderId::from_store(id)).await?;
            Ok(order.map(as_recorded).ok_or(OrderRejection::NoSuchOrder))
        };
        reply.or_replay(read).await
    }

    /// Cancels a batch of the orders whose reservation has expired. Returns their number; 0
    /// if none are left.
    pub async fn order_expire(&self) -> Result<u64, Error> {
        let expired = on_database!(self, db => db.expired_orders(EXPIRE_BATCH_SIZE).await)?;
        let commands = expired.into_iter().map(ExpireOrder);
        Ok(self.execute_all(commands).await?.len() as u64)
    }

    pub async fn order_get(&self, id: OrderId) -> Result<Option<Order>, Error> {
        self.find(&GET, vec![Value::Int(id.get())]).await
    }

    pub async fn order_list(&self, query: ListQuery<OrderFilter>) -> Result<Page<Order>, Error> {
        let select = Select::orders(&query, self.dialect());
        self.list(select, query).await
    }
}
