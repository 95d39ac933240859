//! A pool of units that has lived, against one that is made of the same units at once.

use stockhold_domain::{Attributes, Best, Label, Place, Pool, ReservationId, Unit, UnitStatus};

const ROWS: u64 = 6;
const SEATS: u64 = 9;

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn seat(row: u64, number: u64) -> Unit {
    let section = if row < ROWS / 2 { "stalls" } else { "balcony" };
    Unit {
        id: label(&format!("{row}-{number}")),
        place: Place {
            // Sections stand in the order of claims by turns, so that rows are not in that order.
            position: (row % 3) * 1_000 + row * 20 + number,
            section: Some(label(section)),
            row: Some(label(&row.to_string())),
            number: None,
            attributes: Attributes::default(),
        },
        status: UnitStatus::Available,
        version: 1,
    }
}

fn best(wanted: usize, adjacent: bool, least: Option<u32>, section: Option<&str>) -> (usize, Best) {
    let sections = section.map(label).into_iter().collect();
    (wanted, Best { adjacent, sections, min_together: least, attributes: Attributes::default() })
}

#[test]
fn best_available_is_the_same_after_units_have_gone() {
    let mut pool = Pool::default();
    pool.add((0..ROWS).flat_map(|row| (0..SEATS).map(move |number| seat(row, number))).collect());
    let holder = ReservationId::from_u128(7);
    let wishes = [
        best(2, true, None, None),
        best(4, true, None, Some("balcony")),
        best(5, false, Some(2), None),
        best(3, true, None, Some("stalls")),
        best(1, true, None, None),
    ];
    let mut random: u64 = 1;
    let mut chosen = 0;
    while pool.len() > 8 {
        // A linear congruential step (Knuth's constants) is enough to pick units.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let nth = usize::try_from(random >> 33).unwrap() % pool.len();
        let unit = pool.iter().nth(nth).unwrap().clone();
        match (random >> 60, unit.status) {
            (0..6, UnitStatus::Available) => pool.retire(&unit.id),
            (_, UnitStatus::Available) => pool.set(&unit.id, UnitStatus::Held(holder), unit.version + 1),
            (_, _) => pool.set(&unit.id, UnitStatus::Available, unit.version + 1),
        }
        let mut anew = Pool::default();
        anew.add(pool.iter().cloned().collect());
        for (wanted, wish) in &wishes {
            let found: Vec<&Unit> = pool.best(wish, *wanted, *wanted);
            assert_eq!(found, anew.best(wish, *wanted, *wanted), "{wish:?} of {} units", pool.len());
            chosen += found.len();
        }
    }
    assert!(chosen > 100, "{chosen} seats were chosen");
}
