//! What the access of a caller says of a command.

use crate::access::{Access, AccessDenied, Restrictions};
use crate::basket::{Basket, RequestedLine};
use crate::command::{Amend, Command, Patch};
use crate::hold::{Hold, Status};
use crate::scope::Scope;
use crate::unit_selection::UnitSelection;

impl Access {
    /// Why the command is refused whatever the state is.
    pub fn denies_command(&self, command: &Command) -> Option<AccessDenied> {
        match self {
            Self::Unrestricted => None,
            Self::Restricted(restrictions) => restrictions.denies_command(command),
            Self::Holder { id, .. } => {
                let is_theirs =
                    matches!(command, Command::Extend(_) | Command::Release(_) | Command::Amend(_))
                        && command.reservation() == Some(*id);
                (!is_theirs).then_some(AccessDenied::NotForHolders)
            }
        }
    }

    /// Why the command is refused that changes this reservation or takes its units.
    pub fn denies_change(&self, command: &Command, hold: &Hold) -> Option<AccessDenied> {
        self.denies_answer(command, hold).or_else(|| match (self, command) {
            (Self::Holder { .. }, Command::Amend(amend)) => {
                (!only_gives_back(amend, hold)).then_some(AccessDenied::NotForHolders)
            }
            (Self::Unrestricted | Self::Restricted(_) | Self::Holder { .. }, _) => None,
        })
    }

    /// Why the answer to a command that took effect before does not show this reservation.
    pub fn denies_answer(&self, command: &Command, hold: &Hold) -> Option<AccessDenied> {
        match (self.denies_hold(hold), command) {
            // A repeated release changes nothing.
            (Some(AccessDenied::Ended), Command::Release(_)) if hold.status != Status::Confirmed => None,
            (denied, _) => denied,
        }
    }
}

impl Restrictions {
    fn denies_command(&self, command: &Command) -> Option<AccessDenied> {
        match command {
            Command::Reserve(reserve) => {
                self.denies_basket(&reserve.basket).or_else(|| self.denies_channel(reserve.terms.channel()))
            }
            Command::Amend(amend) => amend.basket.as_ref().and_then(|basket| self.denies_basket(basket)),
            Command::SetStock(set) => self.denies_item(&set.item),
            Command::AdjustStock(adjust) => self.denies_item(&adjust.item),
            Command::DeleteItem(delete) => self.denies_item(&delete.item),
            Command::AddUnits(add) => self.denies_item(&add.item),
            Command::RetireUnit(retire) => self.denies_item(&retire.item),
            Command::SetPool(set) => self.denies_item(&set.item),
            Command::DeletePool(delete) => self.denies_item(&delete.item),
            Command::SetUnitPool(set) => self.denies_item(&set.item),
            Command::SetSale(set) => self.denies_scope(&set.scope),
            Command::SetLimit(_) | Command::DeleteLimit(_) | Command::Sweep => {
                self.denies_scope(&Scope::Everything)
            }
            // The reservations that they name are judged. What a record is about, the service knows: it judges that.
            Command::Confirm(_)
            | Command::Release(_)
            | Command::Extend(_)
            | Command::Transfer(_)
            | Command::Split(_)
            | Command::Merge(_)
            | Command::OpenPayment(_)
            | Command::ClosePayment(_)
            | Command::StartCheckout(_)
            | Command::AdvancePayment(_)
            | Command::Refund(_)
            | Command::Fulfil(_)
            | Command::Return(_)
            | Command::SetRecord(_) => None,
        }
    }

    /// Why lines are refused: they may take from a location that is not allowed.
    fn denies_basket(&self, basket: &Basket) -> Option<AccessDenied> {
        basket.items().find_map(|item| self.denies_item(item))
    }
}

/// Whether an amend only gives units back or moves the deadline.
fn only_gives_back(amend: &Amend, hold: &Hold) -> bool {
    let fits = |(number, line): (usize, &RequestedLine)| {
        let Some(own) = hold.lines.iter().find(|own| own.item == line.item) else { return false };
        match amend.basket.as_ref().and_then(|basket| basket.selection(number)) {
            None => line.quantity <= u64::from(own.quantity),
            Some(UnitSelection::Named(ids)) => {
                ids.iter().all(|id| own.units().iter().any(|unit| unit.id == *id))
            }
            Some(UnitSelection::BestAvailable(_)) => false,
        }
    };
    let lines = amend.basket.iter().flat_map(|basket| basket.lines().iter().enumerate());
    amend.metadata == Patch::Keep && !amend.override_limits && lines.into_iter().all(fits)
}
