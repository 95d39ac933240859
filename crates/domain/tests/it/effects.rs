//! What a batch has to commit, and how large it has become.

use crate::said::said;
use crate::table::{Played, check, id, instant, item};
use stockhold_domain::{Effects, KeyTarget};

const SHOP: &str = "
    0 stock a 9                  -> created total=9 available=9 v=1
    0 stock b 9                  -> created total=9 available=9 v=1
    0 stock hall - units         -> created total=0 available=0 v=1
    0 add hall x,y,z             -> added 3 unchanged 0 total=3 v=2
";

/// Runs a command in a batch of its own.
fn batch(played: &mut Played, command: &str) -> Effects {
    let mut effects = Effects::default();
    played.run_in(command, instant("0"), &mut effects);
    effects
}

#[test]
fn there_is_nothing_to_commit_without_an_event_or_a_key() {
    let mut played = check(SHOP);
    assert!(Effects::default().is_empty());
    for (command, events, keys) in [
        ("reserve r a=10", 0, 0),
        ("reserve r a=10 key=k", 0, 0),
        ("reserve r a=1 ttl=5", 1, 0),
        ("reserve s a=1 ttl=5 key=k", 1, 1),
        ("reserve s a=1 ttl=5 key=k", 0, 0),
        ("confirm r", 1, 0),
        ("confirm r", 0, 0),
        ("confirm r key=c", 0, 1),
        ("adjust a 1 key=d", 1, 1),
        ("stock b 10 key=e", 1, 0),
    ] {
        let effects = batch(&mut played, command);
        assert_eq!((effects.events.len(), effects.keys.len()), (events, keys), "{command}");
        assert_eq!(effects.is_empty(), events + keys == 0, "{command}");
    }
}

#[test]
fn a_key_is_committed_with_what_it_stands_for() {
    let mut played = check(SHOP);
    let effects = batch(&mut played, "reserve r a=1 ttl=5 key=k");
    assert_eq!(effects.keys[0].target, KeyTarget::Reservation(id("r")));
    assert_eq!(Some(&effects.keys[0]), played.shop.keys.get(&effects.keys[0].hash));
    let effects = batch(&mut played, "adjust a 1 key=d");
    assert_eq!(effects.keys[0].target, KeyTarget::Item(item("a")));
    assert_eq!(Some(&effects.keys[0]), played.shop.keys.get(&effects.keys[0].hash));
}

#[test]
fn a_batch_weighs_its_lines_and_its_units_with_ids() {
    let mut played = check(SHOP);
    let mut effects = Effects::default();
    for (command, weight) in [
        ("reserve r a=5 ttl=5", 1),
        ("reserve s a=1,b=7 ttl=5", 2),
        ("reserve t hall=[x+y],b=1 ttl=5", 4),
        ("extend t 9", 4),
        ("confirm t", 4),
        ("return t units=x", 4),
        ("release s", 2),
        ("add hall u,v,w", 3),
        ("retire hall u", 1),
        ("stock a 20", 0),
        ("adjust a 1", 0),
        ("pause a", 0),
        ("record api_key/k one expect=0", 0),
    ] {
        let (events, lines) = (effects.events.len(), effects.lines());
        let outcome = played.run_in(command, instant("0"), &mut effects);
        assert_eq!(effects.events.len(), events + 1, "{command}: {}", said(&outcome));
        assert_eq!(effects.lines() - lines, weight, "{command}");
        assert_eq!(effects.events[events].transition.weight(), u64::from(weight), "{command}");
    }
    let hold = &played.shop.holds[&id("t")];
    assert_eq!((hold.quantity(), hold.weight()), (3, 4));
    let hold = &played.shop.holds[&id("s")];
    assert_eq!((hold.quantity(), hold.weight()), (8, 2));
}
