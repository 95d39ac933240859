//! The pages for browsers: all of the document is on them, and they load nothing.

use super::operations;
use serde_json::Value;
use stockhold_api::openapi::{docs_html, document};
use stockhold_api::problem::{Reason, page_html};

/// What a page would load something with.
const LOADERS: [&str; 9] =
    ["src=", "@import", "url(", "<iframe", "<object", "<embed", "fetch(", "import(", "XMLHttpRequest"];

fn assert_offline(page: &str, what: &str) {
    for loader in LOADERS {
        assert!(!page.contains(loader), "{what} has {loader}");
    }
    for rest in page.split("href=\"").skip(1) {
        let target = rest.split('"').next().unwrap();
        assert!(target.starts_with(['/', '#']) || target == "data:,", "{what} leads to {target}");
    }
}

#[test]
fn the_page_has_all_of_the_document() {
    let page = docs_html();
    assert_offline(page, "/docs");
    for operation in operations() {
        assert!(page.contains(&format!("<article id=\"{}\"", operation.id())), "{}", operation.id());
        assert!(page.contains(&format!("<a href=\"#{}\">", operation.id())), "{}", operation.id());
        for parameter in operation.parameters() {
            let name = parameter["name"].as_str().unwrap();
            assert!(page.contains(&format!("<code>{name}</code>")), "{name}");
        }
    }
    for name in document()["components"]["schemas"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
    }
    for reason in Reason::ALL {
        assert!(page.contains(&format!("href=\"/problems/{}\"", reason.name())), "{reason:?}");
    }
    // Every place that a link on the page leads to is there.
    for rest in page.split("href=\"#").skip(1) {
        let target = rest.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{target}\"")), "#{target} is not there");
    }
}

#[test]
fn what_may_be_null_says_so() {
    for kind in ["integer", "object"] {
        assert!(docs_html().contains(&format!("{kind} or null")), "{kind}");
    }
}

#[test]
fn calls_can_be_copied() {
    let page = docs_html();
    assert!(page.contains(
        "curl -i <span class=\"base\">http://127.0.0.1:8101</span>/v1/inventory/tea/reserve \\\n  \
         -H 'Idempotency-Key: reserve-least' \\\n  -H 'Content-Type: application/json' \\\n  \
         -d '{&quot;owner_id&quot;:&quot;cart-7&quot;}'"
    ));
    assert!(page.contains(
        "curl -i -X DELETE \"<span class=\"base\">http://127.0.0.1:8101</span>/v1/reservations/$ID?reason="
    ));
}

#[test]
fn every_reason_has_a_page_of_the_same_look() {
    for reason in Reason::ALL {
        let page = page_html(*reason);
        let name = reason.name();
        assert_offline(&page, name);
        assert!(page.contains(&format!("<h1>{}</h1>", reason.title())), "{name}");
        assert!(page.contains(&format!("<span class=\"chip\">Status {}</span>", reason.status())), "{name}");
        for rest in page.split("href=\"/docs#").skip(1) {
            let target = rest.split('"').next().unwrap();
            assert!(docs_html().contains(&format!("id=\"{target}\"")), "{name}: /docs#{target} is not there");
        }
        assert!(page.contains("/docs#") && page.contains("Answered by"), "{name}");
    }
}

#[test]
fn a_reasons_page_shows_the_documents_example() {
    for reason in Reason::ALL {
        let example = &document()["components"]["examples"][reason.name()]["value"];
        let page = reason.page();
        let shown = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let shown: Value = serde_json::from_str(shown).unwrap();
        assert_eq!(shown, *example, "{}", reason.name());
    }
}
