//! Aims commands at limits: reserves of few customers through few channels, and changes of limits that are in force.

use super::World;
use stockhold_domain::{
    Command, DeleteLimit, Label, Limit, LimitTerms, LimitedUnits, OptionalTerms, Patch, Precondition,
    Reserve, ReserveTerms, SetLimit, Transfer,
};
use stockhold_model::Random;
use stockhold_model::maker::label;

/// Customers. They are few, so that most of them soon have as much as a limit allows.
const CUSTOMERS: [&str; 3] = ["ann", "bob", "cy"];
const CHANNELS: [&str; 2] = ["web", "app"];
const OWNERS: [&str; 2] = ["owner", "another"];
/// One of this many commands passes limits by.
const OVERRIDES: u64 = 10;
/// Largest number of units by which a limit is raised above what is used.
const RAISED: u64 = 6;

/// The field of a command that says whether limits are passed by.
pub(super) fn aim_override(command: &mut Command, random: &mut Random) {
    let field = match command {
        Command::Reserve(command) => &mut command.override_limits,
        Command::Amend(command) => &mut command.override_limits,
        Command::Transfer(command) => &mut command.override_limits,
        Command::Merge(command) => &mut command.override_limits,
        Command::Confirm(command) => &mut command.override_limits,
        _ => return,
    };
    *field = random.one_in(OVERRIDES);
}

/// A few reserves name no customer, which a limit per customer refuses.
pub(super) fn aim_reserve(reserve: &mut Reserve, random: &mut Random) {
    let optional = reserve.terms.optional.as_deref().cloned().unwrap_or_default();
    let customer_id = (!random.one_in(6)).then(|| label(random.pick(&CUSTOMERS)));
    let channel = random.one_in(2).then(|| label(random.pick(&CHANNELS)));
    reserve.terms =
        ReserveTerms::new(label(random.pick(&OWNERS)), OptionalTerms { customer_id, channel, ..optional });
}

/// Half of the transfers go to one of the customers that reserve.
pub(super) fn aim_customer(transfer: &mut Transfer, random: &mut Random) {
    if random.one_in(2) {
        transfer.customer_id = Patch::Set(label(random.pick(&CUSTOMERS)));
    }
}

impl World {
    /// Most changes of a limit lower or raise one that is in force, around what is used, and some change what it counts.
    pub(super) fn aim_limit(&self, set: &mut SetLimit, random: &mut Random) {
        let Some((id, limit, terms)) = self.limit_in_force(random).filter(|_| !random.one_in(3)) else {
            return;
        };
        let used = self.most_used(limit, terms);
        let counts = match terms.counts {
            LimitedUnits::Held if random.one_in(6) => LimitedUnits::HeldAndSold,
            LimitedUnits::HeldAndSold if random.one_in(6) => LimitedUnits::Held,
            counts => counts,
        };
        let most = match random.below(4) {
            0 => used.saturating_sub(1 + random.below(2)),
            1 => used,
            _ => used + 1 + random.below(RAISED),
        };
        set.id = id.clone();
        set.terms = LimitTerms { limit: most, counts, ..terms.clone() };
        set.expected = expected(limit, random);
    }

    pub(super) fn aim_delete_limit(&self, delete: &mut DeleteLimit, random: &mut Random) {
        if let Some((id, limit, _)) = self.limit_in_force(random) {
            delete.id = id.clone();
            delete.expected = expected(limit, random);
        }
    }

    fn limit_in_force(&self, random: &mut Random) -> Option<(&Label, &Limit, &LimitTerms)> {
        let limits = self.checker.durable().limits.iter();
        let found: Vec<_> =
            limits.filter_map(|limit| Some((&limit.id, limit, limit.terms.as_deref()?))).collect();
        if found.is_empty() { None } else { Some(random.pick(&found)) }
    }

    /// The most units that one subject has under a limit.
    fn most_used(&self, limit: &Limit, terms: &LimitTerms) -> u64 {
        let counters = self.checker.durable().counters.of_limit(limit, None);
        counters.map(|(_, counter)| counter.used(terms.counts)).max().unwrap_or(0)
    }
}

/// Half of the changes expect a version, and a few of those an old one.
fn expected(limit: &Limit, random: &mut Random) -> Option<Precondition> {
    let version = limit.version - u64::from(random.one_in(8));
    random.one_in(2).then(|| Precondition::version(version))
}
