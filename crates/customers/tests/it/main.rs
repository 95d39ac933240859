//! Customers over a store in memory: what is read back, what is refused, and what an erased customer leaves.

use std::sync::{Arc, Mutex};
use stockhold_customers::{
    CustomerError, Customers, Keyring, MethodLookup, Profile, ProviderMethod, RewrapPage,
};
use stockhold_domain::{Item, ItemKey, Label, Precondition, ProviderRef};
use stockhold_model::NaiveCustomers;
use stockhold_store::{
    Answer, CustomerRequest, CustomerResult, CustomerRow, Failure, Job, Query, QueryResult, Request, Store,
};

const FIRST: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECOND: &str = "k2:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

/// Rows in memory. Each write may be made twice, as by a connection that was lost behind it.
#[derive(Default)]
struct Rows {
    rows: Mutex<NaiveCustomers>,
    writes_twice: bool,
}

impl Rows {
    fn run(&self, request: &CustomerRequest) -> CustomerResult {
        self.rows.lock().unwrap().run(request)
    }

    fn row(&self, id: &str) -> CustomerRow {
        match self.run(&CustomerRequest::Get(label(id))) {
            CustomerResult::Row(Some(row)) => row,
            other => panic!("{other:?}"),
        }
    }
}

impl Store for Rows {
    fn submit(&self, job: Job) {
        let answer = match &job.request {
            Request::Query(Query::Customer(request)) => {
                if self.writes_twice && request.is_write() {
                    self.run(request);
                }
                Ok(Answer::QueryResult(QueryResult::Customer(self.run(request))))
            }
            other => Err(Failure::Internal(format!("{other:?}"))),
        };
        job.reply.answer(answer);
    }

    fn flush(&self) {}

    fn published_item(&self, _: &ItemKey) -> Option<Option<Item>> {
        None
    }

    fn newest(&self) -> u64 {
        0
    }

    fn fatal_error(&self) -> Option<String> {
        None
    }
}

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn over(rows: &Arc<Rows>, keys: &[&str]) -> Customers {
    let keyring = Keyring::parse(keys.iter().copied()).unwrap();
    Customers::new(Arc::clone(rows) as Arc<dyn Store>, Arc::new(keyring))
}

fn method(name: &str) -> ProviderMethod {
    ProviderMethod { customer_ref: None, method_ref: ProviderRef::new(name).unwrap() }
}

fn profile(email: &str) -> Profile {
    Profile {
        provider_refs: [("test".to_owned(), method("approve"))].into(),
        email: Some(email.to_owned()),
        push_token: Some("token".to_owned()),
        locale: Some("en".to_owned()),
    }
}

#[tokio::test]
async fn a_customer_and_its_contact_are_read_as_they_were_written() {
    let rows = Arc::new(Rows::default());
    let customers = over(&rows, &[FIRST]);
    let anna = label("anna");
    assert_eq!(customers.contact(&anna).await, Ok(None));
    let (version, is_new) = customers.put(&anna, &profile("a@example.com"), None).await.unwrap();
    assert!(is_new);
    let shown = customers.get(&anna).await.unwrap().unwrap();
    assert_eq!((shown.version, &shown.profile), (version, &profile("a@example.com")));
    let contact = customers.contact(&anna).await.unwrap().unwrap();
    assert_eq!(
        (contact.email.as_deref(), contact.push_token.as_deref(), contact.locale.as_deref()),
        (Some("a@example.com"), Some("token"), Some("en"))
    );
    assert!(!format!("{shown:?} {contact:?} {customers:?}").contains("example"));
    let stale = Precondition::version(version.wrapping_add(1));
    let refused = customers.put(&anna, &profile("b@example.com"), Some(&stale)).await;
    assert_eq!(refused, Err(CustomerError::Changed(Some(version))));
    assert_eq!(customers.delete(&anna, Some(&stale)).await, Err(CustomerError::Changed(Some(version))));
    assert_eq!(customers.delete(&anna, Some(&Precondition::version(version))).await, Ok(true));
    assert_eq!(customers.delete(&anna, None).await, Ok(false));
    assert_eq!(over(&rows, &[]).get(&anna).await, Err(CustomerError::NoKey));
}

#[tokio::test]
async fn a_write_that_a_lost_connection_has_repeated_is_a_success() {
    let rows = Arc::new(Rows { writes_twice: true, ..Rows::default() });
    let customers = over(&rows, &[FIRST]);
    let (first, is_new) = customers.put(&label("anna"), &profile("a@example.com"), None).await.unwrap();
    let (second, is_second_new) =
        customers.put(&label("anna"), &profile("b@example.com"), None).await.unwrap();
    assert!(is_new && !is_second_new && first != second);
}

#[tokio::test]
async fn the_row_of_another_customer_is_noticed() {
    let rows = Arc::new(Rows::default());
    let customers = over(&rows, &[FIRST]);
    let (anna, ben) = (label("anna"), label("ben"));
    customers.put(&anna, &profile("a@example.com"), None).await.unwrap();
    customers.put(&ben, &profile("b@example.com"), None).await.unwrap();
    let (mine, theirs) = (rows.row("anna"), rows.row("ben"));
    let swapped = CustomerRow { value: theirs.value, ..mine.clone() };
    rows.run(&CustomerRequest::Put { row: swapped, expected: Some(mine.version) });
    assert_eq!(customers.get(&anna).await, Err(CustomerError::Damaged));
    // It blocks no other customer's rotation.
    let page = over(&rows, &[SECOND, FIRST]).rewrap_page(None, 10).await.unwrap();
    assert_eq!(page, RewrapPage { seen: 2, rewrapped: 1, unreadable: vec![anna], next: None });
}

#[tokio::test]
async fn a_sealed_method_is_readable_until_its_customer_is_erased() {
    let rows = Arc::new(Rows::default());
    let customers = over(&rows, &[FIRST]);
    let anna = label("anna");
    assert_eq!(customers.seal(&anna, ["test"]).await, Ok(None));
    customers.put(&anna, &profile("a@example.com"), None).await.unwrap();
    assert_eq!(customers.seal(&anna, ["stripe"]).await, Ok(None));
    let sealed = customers.seal(&anna, ["stripe", "test"]).await.unwrap().unwrap();
    assert_eq!(sealed.provider, label("test"));
    assert!(!sealed.bytes.windows(7).any(|part| part == b"approve"));
    let again = customers.seal(&anna, ["test"]).await.unwrap().unwrap();
    assert_ne!(sealed.bytes, again.bytes, "another nonce");
    let found = Ok(MethodLookup::Found(method("approve")));
    assert_eq!(customers.open(&anna, &sealed.bytes).await, found);
    // Neither a change nor a rotation takes it away.
    customers.put(&anna, &Profile::default(), None).await.unwrap();
    let rotated = over(&rows, &[SECOND, FIRST]);
    assert_eq!(rotated.rewrap_page(None, 1).await.unwrap().rewrapped, 1);
    let new = over(&rows, &[SECOND]);
    assert_eq!(new.open(&anna, &sealed.bytes).await, found);
    assert_eq!(
        customers.open(&anna, &sealed.bytes).await,
        Err(CustomerError::UnknownKey("k2".to_owned())),
        "a key that is missing is no erased customer"
    );
    assert_eq!(new.delete(&anna, None).await, Ok(true));
    assert_eq!(new.open(&anna, &sealed.bytes).await, Ok(MethodLookup::Erased));
    new.put(&anna, &profile("a@example.com"), None).await.unwrap();
    assert_eq!(new.open(&anna, &sealed.bytes).await, Ok(MethodLookup::Erased), "it has another data key");
}
