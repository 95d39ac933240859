//! A unit index: what it counts, in which order it has them, and that one that has lived is as one that is made of the
//! same units at once.

use stockhold_domain::{
    Attribute, Attributes, BestAvailable, ClaimSource, Label, Place, ReservationId, SeatStates, Unit,
    UnitIndex, UnitStatus,
};

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
        pool: None,
    }
}

fn best(wanted: usize, adjacent: bool, least: Option<u32>, section: Option<&str>) -> (usize, BestAvailable) {
    let sections = section.map(label).into_iter().collect();
    (wanted, BestAvailable { adjacent, sections, min_together: least, attributes: Attributes::default() })
}

/// The same, with some at the position of the one before them.
fn tied(row: u64, number: u64) -> Unit {
    let plain = seat(row, number);
    let position = plain.place.position - u64::from(number % 4 == 2);
    Unit { place: Place { position, ..plain.place }, ..plain }
}

#[test]
fn a_unit_index_is_the_same_after_units_have_gone() {
    for seat in [seat, tied] {
        let all = (0..ROWS).flat_map(|row| (0..SEATS).map(move |number| seat(row, number)));
        as_a_new_unit_index(all.collect(), |number| seat(ROWS - 1, SEATS + number));
    }
}

/// Units move, go and, `behind` the others, come: what is left of them is to be as a unit index that never had others.
fn as_a_new_unit_index(units: Vec<Unit>, behind: impl Fn(u64) -> Unit) {
    let mut unit_index = UnitIndex::default();
    unit_index.add(units);
    let mut came = 0;
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
    while unit_index.len() > 8 {
        // A linear congruential step (Knuth's constants) is enough to pick units.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let nth = usize::try_from(random >> 33).unwrap() % unit_index.len();
        let unit = unit_index.iter().nth(nth).unwrap().clone();
        match (random >> 60, unit.status) {
            (0..6, UnitStatus::Available) => unit_index.retire(&unit.id),
            (6..8, _) => {
                unit_index.add(vec![behind(came)]);
                came += 1;
            }
            (_, UnitStatus::Available) => {
                unit_index.set(&unit.id, UnitStatus::Held(holder), unit.version + 1, None);
            }
            (_, _) => unit_index.set(&unit.id, UnitStatus::Available, unit.version + 1, None),
        }
        let mut anew = UnitIndex::default();
        anew.add(unit_index.iter().cloned().collect());
        assert_eq!(unit_index.states(), anew.states());
        for (wanted, wish) in &wishes {
            let found: Vec<&Unit> = unit_index.best(wish, *wanted, *wanted, &[], GENERAL);
            assert_eq!(
                found,
                anew.best(wish, *wanted, *wanted, &[], GENERAL),
                "{wish:?} of {} units",
                unit_index.len()
            );
            chosen += found.len();
        }
    }
    assert!(chosen > 100 && came > 5, "{chosen} seats were chosen, {came} came");
}

#[test]
fn who_stood_between_two_neighbours_goes_and_they_are_side_by_side() {
    let (three, wish) = best(3, true, None, None);
    for gone in ["b", "c"] {
        let mut unit_index = UnitIndex::default();
        unit_index.add(vec![plain("a", 1), plain("b", 2), plain("c", 2), plain("d", 3)]);
        assert_eq!(unit_index.best(&wish, three, three, &[], GENERAL).len(), 2, "two and two");
        unit_index.retire(&label(gone));
        assert_eq!(unit_index.best(&wish, three, three, &[], GENERAL).len(), three, "without {gone}");
    }
}

const GENERAL: ClaimSource<'_> = ClaimSource { pool: None, general: Some(usize::MAX) };
const HOLDER: ReservationId = ReservationId::from_u128(7);
const HELD: UnitStatus = UnitStatus::Held(HOLDER);
const SOLD: UnitStatus = UnitStatus::Sold(HOLDER);

fn plain(id: &str, position: u64) -> Unit {
    let place = Place { position, ..Place::default() };
    Unit { id: label(id), place, status: UnitStatus::Available, version: 1, pool: None }
}

/// Units `u0`, `u1`, … at the positions of their numbers.
fn row_of(count: u64) -> UnitIndex {
    let mut unit_index = UnitIndex::default();
    unit_index.add((0..count).map(|number| plain(&format!("u{number}"), number)).collect());
    unit_index
}

fn ids<'a>(units: impl Iterator<Item = &'a Unit>) -> Vec<&'a str> {
    units.map(|unit| unit.id.as_str()).collect()
}

fn counts(unit_index: &UnitIndex) -> (usize, u64, u64) {
    (unit_index.len(), unit_index.held(), unit_index.sold())
}

#[test]
fn a_pool_counts_what_is_held_and_what_is_sold() {
    let mut unit_index = UnitIndex::default();
    assert!(unit_index.is_empty());
    unit_index.add((0..5).map(|number| plain(&format!("u{number}"), number)).collect());
    assert!(!unit_index.is_empty());
    assert_eq!(counts(&unit_index), (5, 0, 0));
    for (unit, status, expected) in [
        ("u0", HELD, (5, 1, 0)),
        ("u1", HELD, (5, 2, 0)),
        ("u2", HELD, (5, 3, 0)),
        ("u0", SOLD, (5, 2, 1)),
        ("u1", SOLD, (5, 1, 2)),
        ("u2", UnitStatus::Available, (5, 0, 2)),
        ("u0", UnitStatus::Available, (5, 0, 1)),
        ("ghost", HELD, (5, 0, 1)),
    ] {
        unit_index.set(&label(unit), status, 2, None);
        assert_eq!(counts(&unit_index), expected, "{unit} {status:?}");
    }
    for number in [0, 2, 3, 4] {
        unit_index.retire(&label(&format!("u{number}")));
    }
    assert_eq!(counts(&unit_index), (1, 0, 1));
    assert_eq!(ids(unit_index.iter()), ["u1"]);
    assert!(!unit_index.is_empty());
}

#[test]
fn units_come_in_as_they_stand() {
    let standing = |id, position, status, version| Unit { status, version, ..plain(id, position) };
    let all = vec![
        standing("a", 1, HELD, 4),
        standing("b", 2, SOLD, 3),
        standing("c", 3, UnitStatus::Available, 9),
        standing("d", 4, SOLD, 5),
    ];
    let mut unit_index = UnitIndex::default();
    unit_index.add(all.clone());
    assert_eq!(unit_index.iter().cloned().collect::<Vec<_>>(), all);
    assert_eq!(counts(&unit_index), (4, 1, 2));
    assert_eq!(ids(unit_index.first_free(None, 9)), ["c"]);
    assert_eq!(
        unit_index.states(),
        SeatStates { count: 4, moves: 21, available: vec![0b0100], set_aside: vec![0], sold: vec![0b1010] }
    );
    // The same when others come before them and all are put in order anew.
    unit_index.add(vec![plain("0", 0)]);
    assert_eq!(counts(&unit_index), (5, 1, 2));
    assert_eq!(
        unit_index.states(),
        SeatStates { count: 5, moves: 22, available: vec![0b01001], set_aside: vec![0], sold: vec![0b10100] }
    );
}

#[test]
fn pools_are_equal_when_their_units_are() {
    let (mut one, other) = (row_of(3), row_of(3));
    assert_eq!(one, other);
    one.set(&label("u1"), HELD, 2, None);
    assert_ne!(one, other);
    one.set(&label("u1"), UnitStatus::Available, 1, None);
    assert_eq!(one, other);
    one.retire(&label("u2"));
    assert_ne!(one, other);
    assert_eq!(one, row_of(2));
}

#[test]
fn units_stand_in_the_order_of_their_claims_whenever_they_came() {
    let mut unit_index = UnitIndex::default();
    for (id, position, expected) in [
        ("m", 20, &["m"][..]),
        ("n", 30, &["m", "n"]),
        ("z", 10, &["z", "m", "n"]),
        ("a", 25, &["z", "m", "a", "n"]),
        ("o", 30, &["z", "m", "a", "n", "o"]),
        ("c", 30, &["z", "m", "a", "c", "n", "o"]),
        ("b", 40, &["z", "m", "a", "c", "n", "o", "b"]),
    ] {
        unit_index.add(vec![plain(id, position)]);
        assert_eq!(ids(unit_index.iter()), expected);
        assert_eq!(ids(unit_index.first_free(None, 9)), expected);
    }
    assert!(unit_index.iter().all(|unit| unit_index.get(&unit.id) == Some(unit)));
    assert_eq!(unit_index.last_position(), 40);
    unit_index.retire(&label("b"));
    assert_eq!(unit_index.last_position(), 30);
    unit_index.add(vec![plain("b", 5), plain("d", 50)]);
    assert_eq!(ids(unit_index.iter()), ["b", "z", "m", "a", "c", "n", "o", "d"]);
    assert!(unit_index.iter().all(|unit| unit_index.get(&unit.id) == Some(unit)));
}

#[test]
fn a_page_goes_on_behind_the_unit_it_is_told() {
    let mut unit_index = UnitIndex::default();
    unit_index.add(vec![plain("a", 1), plain("b", 1), plain("c", 2), plain("d", 5), plain("e", 5)]);
    let after = |unit_index: &UnitIndex, position, id: &str| {
        ids(unit_index.after(Some((position, &label(id))))).join("")
    };
    assert_eq!(ids(unit_index.after(None)).join(""), "abcde");
    for (position, id, expected) in [
        (0, "z", "abcde"),
        (1, "a", "bcde"),
        (1, "aa", "bcde"),
        (1, "b", "cde"),
        (3, "a", "de"),
        (5, "d", "e"),
        (5, "e", ""),
        (6, "a", ""),
    ] {
        assert_eq!(after(&unit_index, position, id), expected, "after {id} at {position}");
    }
    // It also goes on behind one that has gone since, and without it.
    unit_index.retire(&label("c"));
    unit_index.retire(&label("d"));
    assert_eq!(ids(unit_index.after(None)).join(""), "abe");
    assert_eq!(after(&unit_index, 1, "a"), "be");
    assert_eq!(after(&unit_index, 2, "c"), "e");
    assert_eq!(after(&unit_index, 5, "d"), "e");
}

#[test]
fn a_seat_map_says_where_each_unit_stands() {
    let empty =
        SeatStates { count: 0, moves: 0, available: Vec::new(), set_aside: Vec::new(), sold: Vec::new() };
    assert_eq!(UnitIndex::default().states(), empty);

    let mut single = row_of(1);
    single.set(&label("u0"), SOLD, 3, None);
    assert_eq!(
        single.states(),
        SeatStates { count: 1, moves: 3, available: vec![0], set_aside: vec![0], sold: vec![1] }
    );

    let mut unit_index = row_of(66);
    unit_index.set(&label("u1"), HELD, 2, None);
    unit_index.set(&label("u3"), SOLD, 3, None);
    unit_index.set(&label("u65"), SOLD, 5, None);
    let available = vec![!0b1010, 0b01];
    assert_eq!(
        unit_index.states(),
        SeatStates { count: 66, moves: 73, available, set_aside: vec![0; 2], sold: vec![0b1000, 0b10] }
    );

    // Those behind a unit that goes move up, and it takes its version along.
    unit_index.set(&label("u0"), UnitStatus::Available, 4, None);
    unit_index.retire(&label("u0"));
    let available = vec![!0b101, 0b0];
    assert_eq!(
        unit_index.states(),
        SeatStates { count: 65, moves: 72, available, set_aside: vec![0; 2], sold: vec![0b100, 0b1] }
    );
}

#[test]
fn units_that_come_later_are_in_the_layout_and_among_the_best() {
    let (pair, wish) = best(2, true, None, None);
    let mut unit_index = UnitIndex::default();
    unit_index.add(vec![seat(0, 0)]);
    assert_eq!(ids(unit_index.best(&wish, pair, pair, &[], GENERAL).into_iter()), ["0-0"]);
    assert_eq!(unit_index.layout().len(), 1);
    unit_index.add(vec![seat(0, 1), seat(0, 2)]);
    assert_eq!(unit_index.best(&wish, pair, pair, &[], GENERAL).len(), pair);
    let layout = unit_index.layout();
    assert_eq!(layout.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["0-0", "0-1", "0-2"]);
    assert_eq!(layout[2].1, seat(0, 2).place);
    unit_index.retire(&label("0-0"));
    assert_eq!(unit_index.layout().len(), 2);
}

#[test]
fn neighbours_share_the_texts_of_their_place() {
    let wide = |id: &str, position| {
        let attributes = Attributes::new(vec![(label("wide"), Attribute::Flag(true))]);
        let place =
            Place { position, section: Some(label("s")), row: Some(label("r")), number: None, attributes };
        Unit { place, ..plain(id, position) }
    };
    let mut unit_index = UnitIndex::default();
    unit_index.add(vec![wide("a", 1), wide("b", 2)]);
    unit_index.add(vec![wide("c", 3)]);
    let texts = |unit: &Unit| {
        let Place { section, row, attributes, .. } = &unit.place;
        let text = |label: &Option<Label>| label.as_ref().unwrap().as_str().as_ptr();
        (text(section), text(row), attributes.all().as_ptr())
    };
    let first = texts(unit_index.iter().next().unwrap());
    assert!(unit_index.iter().all(|unit| texts(unit) == first));
    // One that differs keeps its own.
    let mut other = wide("d", 4);
    other.place.row = Some(label("q"));
    unit_index.add(vec![other.clone()]);
    assert_eq!(unit_index.get(&other.id), Some(&other));
}

#[test]
fn states_end_with_the_last_unit_where_those_that_are_left_fill_whole_words() {
    let mut unit_index = UnitIndex::default();
    unit_index.add((0..129).map(|n| plain(&n.to_string(), n)).collect());
    unit_index.retire(&label("7"));
    let SeatStates { count, available, sold, .. } = unit_index.states();
    assert_eq!((count, available, sold), (128, vec![u64::MAX; 2], vec![0; 2]));
}

const VIP: &str = "vip";

fn claim(pool: &Label, general: Option<usize>) -> ClaimSource<'_> {
    ClaimSource { pool: Some(pool), general }
}

/// One row of ten seats of which these are in the pool, and the ids that a claim of some of them gets.
fn claimed(
    in_pool: &[u64],
    wish: &(usize, BestAvailable),
    general: Option<usize>,
    own: &[stockhold_domain::LineUnit],
) -> String {
    let vip = label(VIP);
    let mut unit_index = UnitIndex::default();
    let pool = |number| in_pool.contains(&number).then(|| vip.clone());
    unit_index.add(
        (0..10).map(|number| Unit { pool: pool(number), ..plain(&number.to_string(), number) }).collect(),
    );
    for unit in own {
        unit_index.set(&unit.id, HELD, unit.version, unit.pool.as_ref());
    }
    let (wanted, wish) = wish;
    let found = unit_index.best(wish, *wanted, *wanted, own, claim(&vip, general));
    ids(found.into_iter()).concat()
}

#[test]
fn the_best_of_a_pool_are_its_own_and_then_those_of_both() {
    let plenty = Some(usize::MAX);
    let any = |count| best(count, false, None, None);
    let together = |count| best(count, true, None, None);
    assert_eq!(claimed(&[3, 7], &any(2), plenty, &[]), "37");
    assert_eq!(claimed(&[3, 7], &any(4), plenty, &[]), "3701", "general stock comes after the pool");
    assert_eq!(claimed(&[3, 7], &any(4), Some(1), &[]), "370", "no more than is available of it");
    assert_eq!(claimed(&[3, 7], &any(4), None, &[]), "37");
    assert_eq!(claimed(&[3, 4, 7], &together(2), plenty, &[]), "34");
    assert_eq!(claimed(&[3, 5], &together(2), None, &[]), "3", "as many as there are together");
    assert_eq!(claimed(&[3, 5], &together(2), plenty, &[]), "01", "the best place of both");
    assert_eq!(claimed(&[3, 5], &together(10), plenty, &[]), "0123456789");
    assert_eq!(claimed(&[3, 5], &together(10), Some(7), &[]), "3", "too much of general stock");
    assert_eq!(claimed(&[1, 2, 5, 6], &best(4, false, Some(2), None), None, &[]), "1256");
    let own = stockhold_domain::LineUnit {
        id: label("9"),
        version: 2,
        fulfilled: false,
        returned: false,
        pool: None,
    };
    assert_eq!(claimed(&[8], &together(2), None, core::slice::from_ref(&own)), "89", "its own seat counts");
    assert_eq!(claimed(&[3], &any(3), Some(2), &[own]), "390");
}

#[test]
fn a_unit_is_free_in_its_pool_only() {
    let (vip, press) = (label(VIP), label("press"));
    let mut unit_index = row_of(4);
    let move_to = |unit_index: &mut UnitIndex, number: u64, version, pool: Option<&Label>| {
        let moved = stockhold_domain::PooledUnit { id: label(&format!("u{number}")), version };
        unit_index.set_pool(&[moved], pool);
    };
    move_to(&mut unit_index, 1, 2, Some(&vip));
    move_to(&mut unit_index, 2, 2, Some(&press));
    assert_eq!(ids(unit_index.first_free(None, 9)), ["u0", "u3"]);
    assert_eq!(ids(unit_index.first_free(Some(&vip), 9)), ["u1"]);
    let SeatStates { available, set_aside, moves, .. } = unit_index.states();
    assert_eq!((available, set_aside, moves), (vec![0b1001], vec![0b0110], 6));
    // It keeps the pool while it is held.
    unit_index.set(&label("u1"), HELD, 3, Some(&vip));
    assert_eq!(ids(unit_index.first_free(Some(&vip), 9)), [""; 0]);
    assert_eq!(unit_index.get(&label("u1")).unwrap().pool.as_ref(), Some(&vip));
    unit_index.set(&label("u1"), UnitStatus::Available, 4, None);
    move_to(&mut unit_index, 2, 3, Some(&vip));
    assert_eq!(ids(unit_index.first_free(None, 9)), ["u0", "u1", "u3"]);
    assert_eq!(ids(unit_index.first_free(Some(&press), 9)), [""; 0]);
    unit_index.retire(&label("u2"));
    assert_eq!(ids(unit_index.first_free(Some(&vip), 9)), [""; 0]);
    assert_eq!(ids(unit_index.first_free(None, 9)), ["u0", "u1", "u3"]);
    // Units that are put in order anew keep their pools.
    move_to(&mut unit_index, 0, 2, Some(&vip));
    unit_index.add(vec![plain("first", 0)]);
    assert_eq!(ids(unit_index.first_free(Some(&vip), 9)), ["u0"]);
    assert_eq!(ids(unit_index.of_sections(&[label("stalls")])), [""; 0]);
}
