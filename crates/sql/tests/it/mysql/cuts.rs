//! What MySQL's stores do about connections that are cut.

use super::bench::Bench;
use crate::shared::cuts::Scene;
use crate::shared::proxy::Cut;
use stockhold_domain::Outcome;

#[test]
fn cut_when_the_batch_begins_another_connection_takes_its_place_and_nobody_notices() {
    let mut bench = Bench::new();
    let mut scene = Scene::new(&mut bench, 60);
    let (envelope, outcome) = scene.cut(Cut::AtBegin);
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Replayed(_)), "{again:?}");
}
