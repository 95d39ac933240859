//! The key of an item.

use crate::label::{Label, LabelError};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

/// The key of an item: a (location, SKU) pair. Clones share the text.
#[derive(Clone)]
pub struct ItemKey(Arc<(Box<str>, Box<str>)>);

impl ItemKey {
    /// From two labels.
    pub fn new(location: &Label, sku: &Label) -> Self {
        Self(Arc::new((location.as_str().into(), sku.as_str().into())))
    }

    /// From two texts, which are checked as labels are.
    pub fn from_texts(location: &str, sku: &str) -> Result<Self, LabelError> {
        Label::check(location)?;
        Label::check(sku)?;
        Ok(Self(Arc::new((location.into(), sku.into()))))
    }

    /// Where it is stocked.
    pub fn location(&self) -> &str {
        &self.0.0
    }

    /// What is sold.
    pub fn sku(&self) -> &str {
        &self.0.1
    }
}

impl PartialEq for ItemKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.sku() == other.sku() && self.location() == other.location())
    }
}

impl Eq for ItemKey {}

impl PartialOrd for ItemKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ItemKey {
    /// By location, then SKU.
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Hash for ItemKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{:?}", self.sku(), self.location())
    }
}
