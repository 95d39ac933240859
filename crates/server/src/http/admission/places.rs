//! Places for streams of one kind. One holder has at most a part of them.

use super::Holder;
use super::bounds::share_of_one;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places for streams of one kind.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    taken: Mutex<PlaceCounts>,
}

#[derive(Debug, Default)]
struct PlaceCounts {
    all: usize,
    by_holder: HashMap<Holder, usize>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All places are taken; how many there are.
    All(usize),
    /// The holder has as many as one may have.
    OfHolder(usize),
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    holder: Holder,
    places: Arc<Places>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Takes a place.
    pub(crate) fn take(self: &Arc<Self>, holder: Holder) -> Result<Place, NoPlace> {
        let mut taken = self.taken();
        if taken.all >= self.most {
            return Err(NoPlace::All(self.most));
        }
        let most = match holder {
            Holder::Everybody | Holder::Unauthenticated(None) => self.most,
            Holder::Unauthenticated(Some(_)) | Holder::Principal(_) => share_of_one(self.most),
        };
        let own = taken.by_holder.entry(holder.clone()).or_default();
        if *own >= most {
            return Err(NoPlace::OfHolder(most));
        }
        *own += 1;
        taken.all += 1;
        drop(taken);
        Ok(Place { holder, places: Arc::clone(self) })
    }

    /// How many are taken.
    pub(crate) fn count(&self) -> usize {
        self.taken().all
    }

    fn taken(&self) -> MutexGuard<'_, PlaceCounts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(own) = taken.by_holder.get_mut(&self.holder) {
            *own -= 1;
            if *own == 0 {
                taken.by_holder.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::Label;

    #[test]
    fn one_holder_leaves_places_for_others() {
        let places = Places::new(8);
        let shop = || Holder::Principal(Label::new("key:shop").unwrap());
        let network = || Holder::Unauthenticated(Some([203, 0, 113, 7].into()));
        let mut open: Vec<_> =
            (0..2).flat_map(|_| [shop(), network()]).map(|one| places.take(one).unwrap()).collect();
        for holder in [shop(), network()] {
            assert_eq!(places.take(holder).unwrap_err(), NoPlace::OfHolder(2));
        }
        open.extend((0..4).map(|_| places.take(Holder::Unauthenticated(None)).unwrap()));
        assert_eq!(places.take(Holder::Everybody).unwrap_err(), NoPlace::All(8));
        open.remove(0);
        assert_eq!(places.count(), 7);
        open.push(places.take(shop()).unwrap());
        drop(open);
        assert_eq!((places.count(), places.taken().by_holder.len()), (0, 0));
    }
}
