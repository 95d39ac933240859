//! A reservation that changes hands, in the model.

use super::{Model, invalid, limits};
use stockhold_domain::{
    Hold, HoldTerms, Instant, Label, OptionalTerms, Patch, Rejection, ReserveTerms, SubjectKind, Transfer,
};

impl Model {
    pub(super) fn transfer(&mut self, asked: &Transfer, now: Instant) -> Result<Hold, Rejection> {
        let nothing = (Patch::Keep, Patch::Keep);
        if asked.owner_id.is_none() && (asked.customer_id.clone(), asked.session_id.clone()) == nothing {
            return Err(invalid(""));
        }
        let hold = self.changeable(asked.id, asked.expected.as_ref(), now)?;
        let set = |before: Option<Label>, patch: &Patch<Label>| match patch {
            Patch::Keep => before,
            Patch::Clear => None,
            Patch::Set(id) => Some(id.clone()),
        };
        let OptionalTerms { channel, pool, customer_id, session_id, metadata } =
            hold.terms.reserve.optional.as_deref().cloned().unwrap_or_default();
        let optional = OptionalTerms {
            channel,
            pool,
            customer_id: set(customer_id, &asked.customer_id),
            session_id: set(session_id, &asked.session_id),
            metadata,
        };
        let owner = asked.owner_id.clone().unwrap_or(hold.terms.reserve.owner_id.clone());
        let reserve = ReserveTerms::new(owner, optional);
        if reserve == hold.terms.reserve {
            return Ok(hold);
        }
        let kinds = |kind: Option<SubjectKind>| match kind {
            None => false,
            Some(SubjectKind::Owner) => reserve.owner_id != hold.terms.reserve.owner_id,
            Some(SubjectKind::Customer) => {
                let of = |terms: &ReserveTerms| terms.optional.as_ref().and_then(|o| o.customer_id.clone());
                of(&reserve) != of(&hold.terms.reserve)
            }
        };
        let all = hold.lines.iter().map(|line| (line.item.clone(), u64::from(line.quantity))).collect();
        let wanted = self.wanted(all, &reserve, asked.override_limits, &kinds)?;
        self.expect_limits(&wanted, &[], asked.override_limits)?;
        let mut lines = hold.lines.to_vec();
        for (line, wanted) in lines.iter_mut().zip(&wanted) {
            let mut counted = line.details().counted.clone();
            counted.retain(|count| !kinds(count.key.subject.kind()));
            limits::count_line(line, &counted, 0, &wanted.keys);
        }
        let (created_at, max_expires_at) = (hold.terms.created_at, hold.terms.max_expires_at);
        let mut after = hold;
        after.lines = lines.into();
        after.terms = HoldTerms { reserve, created_at, max_expires_at }.into();
        after.details.get_or_insert_default().transfers += 1;
        after.version += 1;
        for line in &*after.lines {
            self.record(&line.item).at = now;
        }
        self.keep(&after);
        Ok(after)
    }
}
