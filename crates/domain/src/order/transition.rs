//! Transitions: completing, cancelling and returning an order.

use jiff::Timestamp;

use super::{Order, OrderRejection, OrderStatus};
use crate::{clock::truncate_to_microseconds, pet::PetStatus};

/// A change of the status of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    Complete,
    Cancel,
    Return,
}

/// The circumstances of a transition.
#[derive(Debug, Clone, Copy)]
pub struct TransitionContext {
    pub now: Timestamp,
    /// The time that decides whether the reservation has expired.
    pub expiry_time: Timestamp,
    /// The API key that makes the transition, if one does.
    pub api_key_id: Option<i64>,
    /// The category of the pet, unless the pet was deleted.
    pub category_id: Option<i64>,
}

impl Transition {
    /// Returns the status that the order must have.
    fn required_status(self) -> OrderStatus {
        match self {
            Self::Complete | Self::Cancel => OrderStatus::Placed,
            Self::Return => OrderStatus::Completed,
        }
    }

    /// Returns the resulting status of the order.
    fn order_status(self) -> OrderStatus {
        match self {
            Self::Complete => OrderStatus::Completed,
            Self::Cancel => OrderStatus::Cancelled,
            Self::Return => OrderStatus::Returned,
        }
    }

    /// Returns the resulting status of the pet.
    pub fn pet_status(self) -> PetStatus {
        match self {
            Self::Complete => PetStatus::Sold,
            Self::Cancel | Self::Return => PetStatus::Available,
        }
    }

    /// Returns the rejection for an order that does not allow the transition.
    pub fn rejection(self) -> OrderRejection {
        match self {
            Self::Complete | Self::Cancel => OrderRejection::OrderNotOpen,
            Self::Return => OrderRejection::OrderNotReturnable,
        }
    }
}

impl Order {
    /// Applies a transition. An order whose reservation has expired can no longer be completed.
    pub fn apply(
        self,
        transition: Transition,
        context: &TransitionContext,
    ) -> Result<Self, OrderRejection> {
        let expired = self
            .expires_at
            .is_some_and(|expiry| context.expiry_time >= expiry);
        if self.status != transition.required_status()
            || (transition == Transition::Complete && expired)
        {
            return Err(transition.rejection());
        }
        let updated_at = self.updated_at.max(truncate_to_microseconds(context.now));
        let changed = Self {
            status: transition.order_status(),
            updated_at,
            ..self
        };
        Ok(match transition {
            Transition::Complete => Self {
                completed_at: Some(updated_at),
                completed_by: context.api_key_id,
                category_id: context.category_id,
                ..changed
            },
            Transition::Return => Self {
                returned_at: Some(updated_at),
                ..changed
            },
            Transition::Cancel => changed,
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::{
        super::{OrderId, PlaceOrderRequest},
        *,
    };
    use crate::pet::PetId;

    impl Order {
        fn apply_at(self, transition: Transition, now: Timestamp) -> Result<Self, OrderRejection> {
            let context = TransitionContext {
                now,
                expiry_time: now,
                api_key_id: Some(5),
                category_id: Some(7),
            };
            self.apply(transition, &context)
        }
    }

    #[test]
    fn an_expired_order_is_only_cancelled_and_a_completed_one_only_returned() {
        let second = Timestamp::constant;
        let reserve_for = SignedDuration::from_secs(10);
        let pet_id = PetId::parse("1").unwrap();
        let request = PlaceOrderRequest::new(pet_id);
        let placed = request.into_order(OrderId::from_store(1), second(100, 0), Some(reserve_for));
        for (transition, at, status) in [
            (Transition::Complete, 109, Ok(OrderStatus::Completed)),
            (Transition::Complete, 110, Err(OrderRejection::OrderNotOpen)),
            (Transition::Cancel, 110, Ok(OrderStatus::Cancelled)),
        ] {
            let applied = placed.clone().apply_at(transition, second(at, 0));
            assert_eq!(applied.map(|order| order.status), status, "{transition:?}");
        }
        // The clock of a replica may be behind.
        let cancelled = placed
            .clone()
            .apply_at(Transition::Cancel, second(99, 0))
            .unwrap();
        assert_eq!(cancelled.updated_at, placed.updated_at);
        assert_eq!(cancelled.clone().into_placed(), placed);
        let again = cancelled.apply_at(Transition::Cancel, second(100, 0));
        assert_eq!(again, Err(OrderRejection::OrderNotOpen));
        let not_returnable = Err(OrderRejection::OrderNotReturnable);
        let open = placed.clone().apply_at(Transition::Return, second(101, 0));
        assert_eq!(open, not_returnable);
        let completed = placed
            .apply_at(Transition::Complete, second(102, 0))
            .unwrap();
        let returned = completed
            .clone()
            .apply_at(Transition::Return, second(103, 0))
            .unwrap();
        assert_eq!(returned.status, OrderStatus::Returned);
        assert_eq!(returned.completed_at, Some(second(102, 0)));
        assert_eq!(returned.returned_at, Some(second(103, 0)));
        assert_eq!(
            (returned.completed_by, returned.category_id),
            (Some(5), Some(7))
        );
        // A replay shows the order as it was.
        assert_eq!(
            returned.clone().into_changed_by(Transition::Complete),
            completed
        );
        assert_eq!(
            returned.clone().into_changed_by(Transition::Return),
            returned
        );
        assert_eq!(
            returned.apply_at(Transition::Return, second(104, 0)),
            not_returnable
        );
    }
}
