//! Customers as JSON.

use super::json::{Object, array, put_text};
use crate::cursor;
use stockhold_customers::{Profile, ProviderMethod, RewrapPage};
use stockhold_domain::{Label, ProviderRef};

/// A customer.
pub fn customer(out: &mut Vec<u8>, id: &Label, version: u64, profile: &Profile) {
    let mut object = Object::open(out);
    object.text("customer_id", id.as_str());
    let mut providers = Object::open(object.value("provider_refs"));
    for (name, ProviderMethod { customer_ref, method_ref }) in &profile.provider_refs {
        let mut method = Object::open(providers.named(name));
        method.text("method_ref", method_ref.as_str());
        method.optional_text("customer_ref", customer_ref.as_ref().map(ProviderRef::as_str));
        method.close();
    }
    providers.close();
    object.optional_text("email", profile.email.as_deref());
    object.optional_text("push_token", profile.push_token.as_deref());
    object.optional_text("locale", profile.locale.as_deref());
    object.number("version", version);
    object.close();
}

/// What was wrapped with the first key, and where to go on.
pub fn rewrap_page(out: &mut Vec<u8>, page: &RewrapPage) {
    let mut object = Object::open(out);
    object.number("customers", page.seen);
    object.number("rewrapped", page.rewrapped);
    if !page.unreadable.is_empty() {
        array(object.value("unreadable"), &page.unreadable, |out, id| put_text(out, id.as_str()));
    }
    object.flag("has_more", page.next.is_some());
    object.optional_text("next_cursor", page.next.as_ref().map(cursor::of_label).as_deref());
    object.close();
}
