//! Parameters of statements. On Citus a statement is about one bucket, so arrays are cut into the parts that belong to one.

use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::Poll;
use std::future::poll_fn;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// A parameter of a statement.
pub(super) trait Param: Sync {
    /// As the driver takes it.
    fn sql(&self) -> &(dyn ToSql + Sync);

    /// These elements of an array. A value that is no array is the same in each part.
    fn part(&self, elements: Range<usize>) -> Part<'_>;

    /// The array of buckets, if it is one.
    fn buckets(&self) -> Option<&[i16]> {
        None
    }
}

/// A part of a parameter.
pub(super) type Part<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// Parameters of a statement. If the first is an array of buckets, the others are arrays of the same length, or values.
pub(super) type Params<'a> = Vec<&'a dyn Param>;

macro_rules! arrays {
    ($($element:ty)*) => {
        $(impl Param for Vec<$element> {
            fn sql(&self) -> &(dyn ToSql + Sync) {
                self
            }

            fn part(&self, elements: Range<usize>) -> Part<'_> {
                Box::new(self.get(elements).unwrap_or_default())
            }
        })*
    };
}

arrays! {
    i64 bool Uuid &str Vec<u8> Option<i64> Option<Uuid> Option<&str> Option<Vec<u8>> Option<&[u8]>
}

impl Param for Vec<i16> {
    fn sql(&self) -> &(dyn ToSql + Sync) {
        self
    }

    fn part(&self, elements: Range<usize>) -> Part<'_> {
        Box::new(self.get(elements).unwrap_or_default())
    }

    fn buckets(&self) -> Option<&[i16]> {
        Some(self)
    }
}

macro_rules! values {
    ($($value:ty)*) => {
        $(impl Param for $value {
            fn sql(&self) -> &(dyn ToSql + Sync) {
                self
            }

            fn part(&self, _: Range<usize>) -> Part<'_> {
                Box::new(self.clone())
            }
        })*
    };
}

values! { i16 i64 Vec<u8> &str Option<i64> Option<i16> Uuid }

/// As the driver takes them.
pub(super) fn as_sql<'a>(params: &[&'a dyn Param]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|param| param.sql()).collect()
}

/// The parameters of one statement for each run of rows that go together by their buckets, in their order. `None` if they are not by
/// bucket.
pub(super) fn cut<'a>(
    params: &[&'a dyn Param],
    together: fn(&i16, &i16) -> bool,
) -> Option<Vec<Vec<Part<'a>>>> {
    let buckets = params.first()?.buckets()?;
    let mut parts = Vec::new();
    let mut from = 0;
    for run in buckets.chunk_by(together) {
        let elements = from..from + run.len();
        from = elements.end;
        parts.push(params.iter().map(|param| param.part(elements.clone())).collect());
    }
    Some(parts)
}

/// Polls futures in their order until all are done, so that what they send is sent in that order without waiting. The first error
/// ends it.
pub(super) async fn in_order<T, E>(
    futures: Vec<impl Future<Output = Result<T, E>> + Send>,
) -> Result<Vec<T>, E> {
    enum Slot<F, T> {
        Waits(Pin<Box<F>>),
        Done(T),
    }
    let mut slots: Vec<_> = futures.into_iter().map(|future| Slot::Waits(Box::pin(future))).collect();
    poll_fn(|context| {
        let mut waits = false;
        for slot in &mut slots {
            let Slot::Waits(future) = slot else { continue };
            match future.as_mut().poll(context) {
                Poll::Ready(Ok(done)) => *slot = Slot::Done(done),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => waits = true,
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(Ok(())) }
    })
    .await?;
    let done = |slot| match slot {
        Slot::Done(done) => Some(done),
        Slot::Waits(_) => None,
    };
    Ok(slots.into_iter().filter_map(done).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_cut_where_the_bucket_changes() {
        let (buckets, numbers, all): (Vec<i16>, Vec<i64>, Vec<u8>) =
            (vec![3, 3, 7, 3], vec![1, 2, 3, 4], vec![9]);
        let params: Params<'_> = vec![&buckets, &numbers, &all];
        let parts = cut(&params, |a, b| a == b).unwrap();
        let texts: Vec<String> = parts.iter().map(|part| format!("{part:?}")).collect();
        assert_eq!(texts, ["[[3, 3], [1, 2], [9]]", "[[7], [3], [9]]", "[[3], [4], [9]]"]);
        let values: Params<'_> = vec![&numbers, &all];
        assert!(cut(&values, |a, b| a == b).is_none());
    }
}
