//! A pool of units: what it counts, in which order it has them, and that one that has lived is as one that is made of the
//! same units at once.

use stockhold_domain::{
    Attribute, Attributes, BestAvailable, Label, Place, Pool, ReservationId, SeatStates, Unit, UnitStatus,
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
fn a_pool_is_the_same_after_units_have_gone() {
    for seat in [seat, tied] {
        let all = (0..ROWS).flat_map(|row| (0..SEATS).map(move |number| seat(row, number)));
        as_a_new_pool(all.collect(), |number| seat(ROWS - 1, SEATS + number));
    }
}

/// Units move, go and, `behind` the others, come: what is left of them is to be as a pool that never had others.
fn as_a_new_pool(units: Vec<Unit>, behind: impl Fn(u64) -> Unit) {
    let mut pool = Pool::default();
    pool.add(units);
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
    while pool.len() > 8 {
        // A linear congruential step (Knuth's constants) is enough to pick units.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let nth = usize::try_from(random >> 33).unwrap() % pool.len();
        let unit = pool.iter().nth(nth).unwrap().clone();
        match (random >> 60, unit.status) {
            (0..6, UnitStatus::Available) => pool.retire(&unit.id),
            (6..8, _) => {
                pool.add(vec![behind(came)]);
                came += 1;
            }
            (_, UnitStatus::Available) => pool.set(&unit.id, UnitStatus::Held(holder), unit.version + 1),
            (_, _) => pool.set(&unit.id, UnitStatus::Available, unit.version + 1),
        }
        let mut anew = Pool::default();
        anew.add(pool.iter().cloned().collect());
        assert_eq!(pool.states(), anew.states());
        for (wanted, wish) in &wishes {
            let found: Vec<&Unit> = pool.best(wish, *wanted, *wanted, &[]);
            assert_eq!(found, anew.best(wish, *wanted, *wanted, &[]), "{wish:?} of {} units", pool.len());
            chosen += found.len();
        }
    }
    assert!(chosen > 100 && came > 5, "{chosen} seats were chosen, {came} came");
}

#[test]
fn who_stood_between_two_neighbours_goes_and_they_are_side_by_side() {
    let (three, wish) = best(3, true, None, None);
    for gone in ["b", "c"] {
        let mut pool = Pool::default();
        pool.add(vec![plain("a", 1), plain("b", 2), plain("c", 2), plain("d", 3)]);
        assert_eq!(pool.best(&wish, three, three, &[]).len(), 2, "two and two");
        pool.retire(&label(gone));
        assert_eq!(pool.best(&wish, three, three, &[]).len(), three, "without {gone}");
    }
}

const HOLDER: ReservationId = ReservationId::from_u128(7);
const HELD: UnitStatus = UnitStatus::Held(HOLDER);
const SOLD: UnitStatus = UnitStatus::Sold(HOLDER);

fn plain(id: &str, position: u64) -> Unit {
    let place = Place { position, ..Place::default() };
    Unit { id: label(id), place, status: UnitStatus::Available, version: 1 }
}

/// Units `u0`, `u1`, … at the positions of their numbers.
fn row_of(count: u64) -> Pool {
    let mut pool = Pool::default();
    pool.add((0..count).map(|number| plain(&format!("u{number}"), number)).collect());
    pool
}

fn ids<'a>(units: impl Iterator<Item = &'a Unit>) -> Vec<&'a str> {
    units.map(|unit| unit.id.as_str()).collect()
}

fn counts(pool: &Pool) -> (usize, u64, u64) {
    (pool.len(), pool.held(), pool.sold())
}

#[test]
fn a_pool_counts_what_is_held_and_what_is_sold() {
    let mut pool = Pool::default();
    assert!(pool.is_empty());
    pool.add((0..5).map(|number| plain(&format!("u{number}"), number)).collect());
    assert!(!pool.is_empty());
    assert_eq!(counts(&pool), (5, 0, 0));
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
        pool.set(&label(unit), status, 2);
        assert_eq!(counts(&pool), expected, "{unit} {status:?}");
    }
    for number in [0, 2, 3, 4] {
        pool.retire(&label(&format!("u{number}")));
    }
    assert_eq!(counts(&pool), (1, 0, 1));
    assert_eq!(ids(pool.iter()), ["u1"]);
    assert!(!pool.is_empty());
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
    let mut pool = Pool::default();
    pool.add(all.clone());
    assert_eq!(pool.iter().cloned().collect::<Vec<_>>(), all);
    assert_eq!(counts(&pool), (4, 1, 2));
    assert_eq!(ids(pool.first_free(9)), ["c"]);
    assert_eq!(
        pool.states(),
        SeatStates { count: 4, moves: 21, available: vec![0b0100], sold: vec![0b1010] }
    );
    // The same when others come before them and all are put in order anew.
    pool.add(vec![plain("0", 0)]);
    assert_eq!(counts(&pool), (5, 1, 2));
    assert_eq!(
        pool.states(),
        SeatStates { count: 5, moves: 22, available: vec![0b01001], sold: vec![0b10100] }
    );
}

#[test]
fn pools_are_equal_when_their_units_are() {
    let (mut one, other) = (row_of(3), row_of(3));
    assert_eq!(one, other);
    one.set(&label("u1"), HELD, 2);
    assert_ne!(one, other);
    one.set(&label("u1"), UnitStatus::Available, 1);
    assert_eq!(one, other);
    one.retire(&label("u2"));
    assert_ne!(one, other);
    assert_eq!(one, row_of(2));
}

#[test]
fn units_stand_in_the_order_of_their_claims_whenever_they_came() {
    let mut pool = Pool::default();
    for (id, position, expected) in [
        ("m", 20, &["m"][..]),
        ("n", 30, &["m", "n"]),
        ("z", 10, &["z", "m", "n"]),
        ("a", 25, &["z", "m", "a", "n"]),
        ("o", 30, &["z", "m", "a", "n", "o"]),
        ("c", 30, &["z", "m", "a", "c", "n", "o"]),
        ("b", 40, &["z", "m", "a", "c", "n", "o", "b"]),
    ] {
        pool.add(vec![plain(id, position)]);
        assert_eq!(ids(pool.iter()), expected);
        assert_eq!(ids(pool.first_free(9)), expected);
    }
    assert!(pool.iter().all(|unit| pool.get(&unit.id) == Some(unit)));
    assert_eq!(pool.last_position(), 40);
    pool.retire(&label("b"));
    assert_eq!(pool.last_position(), 30);
    pool.add(vec![plain("b", 5), plain("d", 50)]);
    assert_eq!(ids(pool.iter()), ["b", "z", "m", "a", "c", "n", "o", "d"]);
    assert!(pool.iter().all(|unit| pool.get(&unit.id) == Some(unit)));
}

#[test]
fn a_page_goes_on_behind_the_unit_it_is_told() {
    let mut pool = Pool::default();
    pool.add(vec![plain("a", 1), plain("b", 1), plain("c", 2), plain("d", 5), plain("e", 5)]);
    let after = |pool: &Pool, position, id: &str| ids(pool.after(Some((position, &label(id))))).join("");
    assert_eq!(ids(pool.after(None)).join(""), "abcde");
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
        assert_eq!(after(&pool, position, id), expected, "after {id} at {position}");
    }
    // It also goes on behind one that has gone since, and without it.
    pool.retire(&label("c"));
    pool.retire(&label("d"));
    assert_eq!(ids(pool.after(None)).join(""), "abe");
    assert_eq!(after(&pool, 1, "a"), "be");
    assert_eq!(after(&pool, 2, "c"), "e");
    assert_eq!(after(&pool, 5, "d"), "e");
}

#[test]
fn a_seat_map_says_where_each_unit_stands() {
    let empty = SeatStates { count: 0, moves: 0, available: Vec::new(), sold: Vec::new() };
    assert_eq!(Pool::default().states(), empty);

    let mut single = row_of(1);
    single.set(&label("u0"), SOLD, 3);
    assert_eq!(single.states(), SeatStates { count: 1, moves: 3, available: vec![0], sold: vec![1] });

    let mut pool = row_of(66);
    pool.set(&label("u1"), HELD, 2);
    pool.set(&label("u3"), SOLD, 3);
    pool.set(&label("u65"), SOLD, 5);
    let available = vec![!0b1010, 0b01];
    assert_eq!(pool.states(), SeatStates { count: 66, moves: 73, available, sold: vec![0b1000, 0b10] });

    // Those behind a unit that goes move up, and it takes its version along.
    pool.set(&label("u0"), UnitStatus::Available, 4);
    pool.retire(&label("u0"));
    let available = vec![!0b101, 0b0];
    assert_eq!(pool.states(), SeatStates { count: 65, moves: 72, available, sold: vec![0b100, 0b1] });
}

#[test]
fn units_that_come_later_are_in_the_layout_and_among_the_best() {
    let (pair, wish) = best(2, true, None, None);
    let mut pool = Pool::default();
    pool.add(vec![seat(0, 0)]);
    assert_eq!(ids(pool.best(&wish, pair, pair, &[]).into_iter()), ["0-0"]);
    assert_eq!(pool.layout().len(), 1);
    pool.add(vec![seat(0, 1), seat(0, 2)]);
    assert_eq!(pool.best(&wish, pair, pair, &[]).len(), pair);
    let layout = pool.layout();
    assert_eq!(layout.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["0-0", "0-1", "0-2"]);
    assert_eq!(layout[2].1, seat(0, 2).place);
    pool.retire(&label("0-0"));
    assert_eq!(pool.layout().len(), 2);
}

#[test]
fn neighbours_share_the_texts_of_their_place() {
    let wide = |id: &str, position| {
        let attributes = Attributes::new(vec![(label("wide"), Attribute::Flag(true))]);
        let place =
            Place { position, section: Some(label("s")), row: Some(label("r")), number: None, attributes };
        Unit { place, ..plain(id, position) }
    };
    let mut pool = Pool::default();
    pool.add(vec![wide("a", 1), wide("b", 2)]);
    pool.add(vec![wide("c", 3)]);
    let texts = |unit: &Unit| {
        let Place { section, row, attributes, .. } = &unit.place;
        let text = |label: &Option<Label>| label.as_ref().unwrap().as_str().as_ptr();
        (text(section), text(row), attributes.all().as_ptr())
    };
    let first = texts(pool.iter().next().unwrap());
    assert!(pool.iter().all(|unit| texts(unit) == first));
    // One that differs keeps its own.
    let mut other = wide("d", 4);
    other.place.row = Some(label("q"));
    pool.add(vec![other.clone()]);
    assert_eq!(pool.get(&other.id), Some(&other));
}

#[test]
fn states_end_with_the_last_unit_where_those_that_are_left_fill_whole_words() {
    let mut pool = Pool::default();
    pool.add((0..129).map(|n| plain(&n.to_string(), n)).collect());
    pool.retire(&label("7"));
    let SeatStates { count, available, sold, .. } = pool.states();
    assert_eq!((count, available, sold), (128, vec![u64::MAX; 2], vec![0; 2]));
}
