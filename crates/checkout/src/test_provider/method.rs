//! What the payment methods of the test provider do.

/// A payment method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Approve,
    Decline,
    RequireAction,
    /// The first request with a key gets no answer and has no effect.
    TimeoutBefore,
    /// The first request with a key gets no answer, and has its effect.
    TimeoutAfter,
    /// Its webhooks come twice.
    AnswerTwice,
    /// The first key is answered with 500 again and again.
    ErrorRemembered,
    CaptureFails,
    RefundFailsThreeTimes,
}

impl Method {
    /// All of them with their names.
    pub(super) const ALL: [(&'static str, Self); 9] = [
        ("approve", Self::Approve),
        ("decline", Self::Decline),
        ("require_action", Self::RequireAction),
        ("timeout_before", Self::TimeoutBefore),
        ("timeout_after", Self::TimeoutAfter),
        ("answer_twice", Self::AnswerTwice),
        ("error_remembered", Self::ErrorRemembered),
        ("capture_fails", Self::CaptureFails),
        ("refund_fails_three_times", Self::RefundFailsThreeTimes),
    ];

    /// By its name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| *name)
    }
}
