//! The requests on customers. An error about personal data never repeats it.

use super::body;
use super::header::{self, Match};
use super::lists::{PAGE_DEFAULT, limit as page_limit, no_cursor};
use super::{Invalid, both, path};
use crate::cursor;
use crate::resources::customers::CustomerRequest;
use stockhold_customers::Profile;
use stockhold_domain::{Label, Precondition};

/// The words of a detail between what is expected and what the caller has sent.
const FOUND: &str = ", found ";

/// A page of customers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomerPage {
    /// The last customer of the page before.
    pub after: Option<Label>,
    /// Most customers.
    pub limit: usize,
}

/// `PUT /v1/customers/{customer_id}`, with the precondition on its version.
pub fn put_customer(
    id: &str,
    query: Option<&str>,
    precondition: Option<Match<'_>>,
    body: &[u8],
) -> Result<(Label, Profile, Option<Precondition>), Invalid> {
    let target = both(customer(id, query), header::expected(precondition));
    let ((id, expected), body) = both(target, body::read_request::<CustomerRequest>(body).map_err(hidden))?;
    Ok((id, body.profile()?, expected))
}

/// Leaves what the caller has sent out of the details.
fn hidden(mut invalid: Invalid) -> Invalid {
    for fault in &mut invalid.errors {
        if let Some(end) = fault.detail.find(FOUND) {
            fault.detail.truncate(end);
        }
    }
    invalid
}

/// `GET /v1/customers/{customer_id}`
pub fn customer(id: &str, query: Option<&str>) -> Result<Label, Invalid> {
    let (id, ()) = both(path::label("/customer_id", id), path::no_query(query))?;
    Ok(id)
}

/// `DELETE /v1/customers/{customer_id}`, with the value of `If-Match`.
pub fn delete_customer(
    id: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
) -> Result<(Label, Option<Precondition>), Invalid> {
    both(customer(id, query), header::expected(if_match.map(Match::If)))
}

/// `POST /v1/customer-keys/rewrap?limit=&starting_after=`
pub fn rewrap_customers(query: Option<&str>) -> Result<CustomerPage, Invalid> {
    let mut page = CustomerPage { after: None, limit: PAGE_DEFAULT };
    path::parameters(query, &["limit", "starting_after"], |at, text| {
        match at {
            0 => page.limit = page_limit(text)?,
            _ => page.after = Some(cursor::label(text).ok_or_else(|| no_cursor(text))?),
        }
        Ok(())
    })?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_repeats_personal_data() {
        let wrong = [
            r#"{"email": 4711}"#,
            r#"{"email": "secret"}"#,
            r#"{"email": ["secret"]}"#,
            r#"{"push_token": {"secret": 1}}"#,
            r#"{"push_token": "secret secret"}"#,
            r#"{"locale": "secret secret"}"#,
            r#"{"locale": null, "email": "secret"}"#,
            r#"{"provider_refs": {"stripe": "secret"}}"#,
            r#"{"provider_refs": {"stripe": {"method_ref": "secret secret"}}}"#,
            r#"{"provider_refs": {"stripe": {"method_ref": "a", "customer_ref": "secret, found secret "}}}"#,
            r#"{"provider_refs": ["secret"]}"#,
            r#"["secret"]"#,
            r#"{"email": "secret"#,
        ];
        for body in wrong {
            let invalid = put_customer("anna", None, None, body.as_bytes()).unwrap_err();
            for fault in &invalid.errors {
                assert!(
                    !fault.detail.contains("secret") && !fault.detail.contains("4711"),
                    "{body}: {fault:?}"
                );
            }
        }
        let invalid = put_customer("anna", None, None, br#"{"emial": "secret"}"#).unwrap_err();
        assert!(invalid.errors[0].pointer.contains("emial"), "{invalid:?}");
    }
}
