//! A store that keeps counted stock only.

use crate::shop::Shop;
use crate::table::{check, instant, item, said};
use stockhold_domain::{
    Effects, Event, Hold, HoldLimits, Instant, Item, ItemKey, KeyHash, KeyRecord, Lookup, NotLoaded,
    ReservationId, State, decide,
};

/// A shop that has said nothing of units.
struct Counted(Shop);

impl State for Counted {
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item> {
        self.0.item(key)
    }

    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold> {
        self.0.hold(id)
    }

    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord> {
        self.0.key(hash)
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, NotLoaded> {
        State::paused(&self.0, location)
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        self.0.earliest(item)
    }

    fn apply(&mut self, event: &Event) {
        self.0.apply(event);
    }

    fn remember(&mut self, key: &KeyRecord) {
        self.0.remember(key);
    }
}

#[test]
fn no_item_whose_units_have_ids_is_made_where_none_are_kept() {
    let mut played = check("");
    let mut state = Counted(Shop::default());
    for (command, expected) in [
        ("stock hall - units", "invalid_request /mode"),
        ("stock a 3 counted", "created total=3 available=3 v=1"),
        ("stock b 3", "created total=3 available=3 v=1"),
        ("reserve r a=1,b=2 ttl=5", "active until 5000 a=1 b=2"),
    ] {
        let envelope = played.envelope(command);
        let mut effects = Effects::default();
        let outcome = decide(&mut state, &HoldLimits::default(), &envelope, instant("0"), &mut effects);
        assert_eq!(said(&outcome.unwrap()), expected, "{command}");
    }
    assert!(!state.0.items.contains_key(&item("hall")));
}
