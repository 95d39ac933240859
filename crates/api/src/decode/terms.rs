//! The optional terms of a reservation, which two request bodies have: a new term is added to [`body_with_terms!`] once.

/// Declares a request body with its own fields and those of the optional terms.
macro_rules! body_with_terms {
    ($visibility:vis struct $name:ident<$life:lifetime> { $($own:tt)* }) => {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $visibility struct $name<$life> {
            $($own)*
            #[serde(default, deserialize_with = "crate::decode::field::given")]
            channel: Option<crate::decode::field::Text>,
            #[serde(default, deserialize_with = "crate::decode::field::given")]
            pool: Option<crate::decode::field::Text>,
            #[serde(default, deserialize_with = "crate::decode::field::given")]
            customer_id: Option<crate::decode::field::Text>,
            #[serde(default, deserialize_with = "crate::decode::field::given")]
            session_id: Option<crate::decode::field::Text>,
            #[serde(default, deserialize_with = "crate::decode::field::given")]
            metadata: Option<crate::decode::metadata::Metadata>,
        }

        impl $name<'_> {
            /// Takes the optional terms out of the body.
            $visibility fn take_terms(&mut self) -> stockhold_domain::OptionalTerms {
                stockhold_domain::OptionalTerms {
                    channel: self.channel.take().map(|text| text.0),
                    pool: self.pool.take().map(|text| text.0),
                    customer_id: self.customer_id.take().map(|text| text.0),
                    session_id: self.session_id.take().map(|text| text.0),
                    metadata: self.metadata.take().map(|metadata| metadata.0),
                }
            }
        }
    };
}
pub(super) use body_with_terms;
