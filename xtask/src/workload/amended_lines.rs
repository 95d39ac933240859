//! The check of the lines after an amend against those before it and those that were asked for.

use super::change::Amend;
use super::known_line::KnownLine;

/// Whether the lines after an amend are those that were asked for: all of them, or as much as there was. Units stay as
/// far as they may.
pub(super) fn amended_lines_agree(
    before: &[KnownLine],
    amend: &Amend,
    after: &[KnownLine],
) -> Result<(), String> {
    let asked = amend.lines.as_deref().unwrap_or_default();
    let wrong = || Err(format!("{before:?} became {after:?}"));
    if let Some(line) = after.iter().find(|line| asked.iter().all(|asked| asked.sku != line.sku)) {
        return Err(format!("a line that was dropped is there: {line:?}"));
    }
    for asked in asked {
        let own = before.iter().find(|line| line.sku == asked.sku);
        let least = own.map_or(0, |line| line.quantity).min(asked.quantity);
        let least = if amend.partial { least } else { asked.quantity };
        let Some(line) = after.iter().find(|line| line.sku == asked.sku) else {
            if least > 0 {
                return wrong();
            }
            continue;
        };
        let ids = line.ids();
        let own_ids = own.map(KnownLine::ids).unwrap_or_default();
        let units_agree = match &asked.units {
            Some(named) => ids.len() == named.len() && named.iter().all(|id| ids.contains(id.as_str())),
            None if ids.len() < own_ids.len() => ids.is_subset(&own_ids),
            None => own_ids.is_subset(&ids),
        };
        if !(least..=asked.quantity).contains(&line.quantity)
            || line.requested != asked.quantity
            || !units_agree
        {
            return wrong();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::change::AmendedLine;
    use super::super::known_line::KnownUnit;
    use super::*;

    fn line(sku: usize, requested: u64, quantity: u64, ids: &[&str]) -> KnownLine {
        let unit =
            |id: &&str| KnownUnit { id: (*id).to_owned(), version: 1, fulfilled: false, returned: false };
        let units = ids.iter().map(unit).collect();
        KnownLine { sku, requested, quantity, fulfilled: 0, returned: 0, units }
    }

    fn agree(before: &[KnownLine], asked: &[(usize, u64)], partial: bool, after: &[KnownLine]) -> bool {
        let line =
            |(sku, quantity): &(usize, u64)| AmendedLine { sku: *sku, quantity: *quantity, units: None };
        let lines = Some(asked.iter().map(line).collect());
        let amend = Amend { lines, partial, ttl: None, note: None, if_match: None };
        amended_lines_agree(before, &amend, after).is_ok()
    }

    #[test]
    fn lines_are_those_that_were_asked_for() {
        let before = [line(0, 2, 2, &[]), line(1, 1, 1, &[])];
        let asked = [(0, 5), (2, 1)];
        assert!(agree(&before, &asked, false, &[line(0, 5, 5, &[]), line(2, 1, 1, &[])]));
        assert!(agree(&before, &asked, true, &[line(0, 5, 2, &[])]));
        for wrong in [
            vec![line(0, 5, 5, &[])],
            vec![line(0, 5, 4, &[]), line(2, 1, 1, &[])],
            vec![line(0, 5, 5, &[]), line(1, 1, 1, &[]), line(2, 1, 1, &[])],
        ] {
            assert!(!agree(&before, &asked, false, &wrong), "{wrong:?}");
        }
        // What it had already is never less than before.
        assert!(!agree(&before, &asked, true, &[line(0, 5, 1, &[])]));
    }

    #[test]
    fn units_stay_as_far_as_they_may() {
        let before = [line(0, 2, 2, &["a", "b"])];
        assert!(agree(&before, &[(0, 1)], false, &[line(0, 1, 1, &["a"])]));
        assert!(agree(&before, &[(0, 3)], false, &[line(0, 3, 3, &["a", "b", "c"])]));
        assert!(!agree(&before, &[(0, 1)], false, &[line(0, 1, 1, &["c"])]));
        assert!(!agree(&before, &[(0, 3)], false, &[line(0, 3, 3, &["a", "c", "d"])]));
    }
}
