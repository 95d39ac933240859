//! Settings that are allowed and are probably a mistake. The server warns of them at its start, and so does `stockhold config`.

use stockhold_domain::HoldLimits;

/// The warnings, a sentence each.
pub(crate) fn of(rules: &HoldLimits) -> Vec<String> {
    let service = (String::new(), Some(rules.default_ttl), Some(rules.max_hold));
    let locations = rules
        .locations
        .iter()
        .map(|(name, limits)| (format!("locations.{name}."), limits.default_ttl, limits.max_hold));
    let above = std::iter::once(service).chain(locations).filter_map(|(place, default, max)| {
        let (default, max) = (default?.get(), max?.get());
        (default > max).then(|| {
            format!(
                "{place}default_ttl_seconds {default} is above {place}max_hold_seconds {max}: holds without a time of their own get \
                 {max} s"
            )
        })
    });
    above.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{Label, LocationLimits, Seconds};

    #[test]
    fn a_default_above_the_longest_hold() {
        let seconds = |seconds| Seconds::new(seconds).unwrap();
        let at = |name, default: Option<u64>, max: Option<u64>| {
            let (default_ttl, max_hold) = (default.map(seconds), max.map(seconds));
            (Label::new(name).unwrap(), LocationLimits { default_ttl, max_hold, max_payment: None })
        };
        let rules = HoldLimits {
            default_ttl: seconds(600),
            max_hold: seconds(600),
            locations: vec![at("a", Some(31), Some(30)), at("b", None, Some(30)), at("c", Some(900), None)],
            ..HoldLimits::default()
        };
        let [only] = &of(&rules)[..] else { panic!("{:?}", of(&rules)) };
        assert!(
            only.starts_with("locations.a.default_ttl_seconds 31 is above locations.a.max_hold"),
            "{only}"
        );
        let rules = HoldLimits { max_hold: seconds(599), locations: Vec::new(), ..rules };
        assert!(of(&rules)[0].ends_with("get 599 s"));
    }
}
