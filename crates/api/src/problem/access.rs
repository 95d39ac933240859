//! Refusals of access: who calls, under which name, and what a caller may see and change.

use super::{Fields, Problem, Reason};
use stockhold_domain::AccessDenied;
use stockhold_service::{CredentialFault, KeyId, MissingPermission};

impl Problem {
    /// A browser sent this for a page of somebody else's.
    pub fn foreign_origin(origin: &str) -> Self {
        let origin = crate::decode::clip(origin);
        Self::plain(
            Reason::Forbidden,
            format!(
                "A browser sent this request for a page of \"{origin}\". Pages of other origins may not change anything, so \
                 nothing was done. Send the request from a server, without an Origin header."
            ),
        )
    }

    /// The request was sent to a name that is none of the server's, where callers need no credential.
    pub fn foreign_host(host: &str) -> Self {
        let host = crate::decode::clip(host);
        Self::plain(
            Reason::MisdirectedRequest,
            format!(
                "The request was sent to \"{host}\". Callers without a credential reach this server by its IP address, as localhost, or \
                 by a name that allowed_hosts has. Nothing was done."
            ),
        )
    }

    /// The request needs a credential, and brought none that counts. `why` is a sentence and repeats nothing of the credential.
    pub fn unauthenticated(fault: CredentialFault, why: &str) -> Self {
        let fields = Fields::Credential(fault);
        Self { reason: Reason::Unauthenticated, detail: why.to_owned(), fields }
    }

    /// The caller may not do this.
    pub fn not_permitted(missing: MissingPermission) -> Self {
        let detail = match &missing {
            MissingPermission::Scope(scope) => {
                let name = scope.name();
                format!("This needs the scope {name}, which the credential does not have. Use one that has it.")
            }
            MissingPermission::Location(Some(location)) => {
                format!("The credential is restricted to locations, and \"{location}\" is none of them.")
            }
            MissingPermission::Location(None) => {
                "The credential is restricted to locations, and this concerns all of them. Name a location, or use a \
                 credential without this restriction."
                    .to_owned()
            }
            MissingPermission::Channel(Some(channel)) => {
                format!("The credential is restricted to sales channels, and \"{channel}\" is none of them.")
            }
            MissingPermission::Channel(None) => {
                "The credential is restricted to sales channels. Name one of them as `channel`.".to_owned()
            }
        };
        Self { reason: Reason::Forbidden, detail, fields: Fields::Missing(missing) }
    }

    /// The caller may not see or change this.
    pub fn denied(denied: AccessDenied) -> Self {
        let expired = |why| Self::unauthenticated(CredentialFault::Expired, why);
        match denied {
            AccessDenied::Location(location) => Self::not_permitted(MissingPermission::Location(location)),
            AccessDenied::Channel(channel) => Self::not_permitted(MissingPermission::Channel(channel)),
            AccessDenied::Everything => Self::concerns_everything(),
            AccessDenied::NotForHolders => {
                Self::not_permitted(MissingPermission::Scope(stockhold_service::Scope::ReservationsWrite))
            }
            AccessDenied::Transferred => {
                expired("The reservation was transferred after the hold token was issued.")
            }
            AccessDenied::Ended => expired("The reservation of the hold token has ended."),
        }
    }

    /// The same refusal of the answer to a request that took effect before, under its idempotency key.
    pub fn replayed(self) -> Self {
        let detail = format!(
            "The request took effect before under this idempotency key, and its answer is not shown. {}",
            self.detail
        );
        Self { detail, fields: Fields::Replayed(Box::new(self.fields)), ..self }
    }

    /// The same without the reservation that has a unit, for callers who may not know it.
    pub fn without_holder(mut self) -> Self {
        if let Fields::Unit { shows_holder, .. } = &mut self.fields {
            *shows_holder = false;
        }
        self
    }

    /// The request concerns everything, and the caller is restricted.
    fn concerns_everything() -> Self {
        let detail = "This concerns everything, and the credential is restricted. Use a credential without restrictions.";
        Self::plain(Reason::Forbidden, detail.to_owned())
    }

    /// There is no API key with this id.
    pub fn unknown_key(id: KeyId) -> Self {
        let detail = format!("There is no API key {id}. GET /v1/keys lists the keys.");
        Self::plain(Reason::UnknownKey, detail)
    }

    /// The API key was revoked or has expired, so it can't be rolled.
    pub fn key_ended(id: KeyId) -> Self {
        let detail = format!(
            "The API key {id} was revoked or has expired, so it can't be rolled. Create a key with POST /v1/keys."
        );
        Self::plain(Reason::KeyEnded, detail)
    }
}
