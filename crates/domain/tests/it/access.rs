//! What restrictions allow.

use stockhold_domain::{AccessDenied, Label, Restrictions, Scope};

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

#[test]
fn restrictions() {
    let none = Restrictions::default();
    assert!(none.is_none() && none.allows_location("a") && none.allows_channel(None));
    assert_eq!(none.default_channel(), None);
    assert_eq!(none.denies_scope(&Scope::Everything), None);
    let some = Restrictions {
        locations: Some([label("hub-1"), label("hub-2")].into()),
        channels: Some([label("web")].into()),
        own_reservations_only: false,
    };
    assert!(!some.is_none());
    assert!(some.allows_location("hub-2") && !some.allows_location("hub-3"));
    assert!(
        some.allows_channel(Some("web")) && !some.allows_channel(Some("app")) && !some.allows_channel(None)
    );
    assert_eq!(some.default_channel(), Some(&label("web")));
    assert_eq!(some.denies_scope(&Scope::Location(label("hub-1"))), None);
    assert_eq!(
        some.denies_scope(&Scope::Location(label("hub-3"))),
        Some(AccessDenied::Location(Some(label("hub-3"))))
    );
    let nowhere = Restrictions { locations: Some([].into()), ..Restrictions::default() };
    assert!(!nowhere.allows_location("default"));
    let own = Restrictions { own_reservations_only: true, ..Restrictions::default() };
    assert_eq!(own.denies_scope(&Scope::Everything), Some(AccessDenied::Everything));
}
