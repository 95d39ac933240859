//! The calls on pools.

use super::attempt::Error;
use super::request::{Request, push_encoded};
use super::{At, Client};
use crate::wire::{Pool, PoolSettings, PoolUnits};
use serde::Deserialize;

impl Client {
    /// Sets units of an item aside. With a version, the item must have that version. The request is then sent only once,
    /// because a second try could not tell its own success from another caller's change.
    pub async fn set_pool(
        &self,
        at: At<'_>,
        pool: &str,
        settings: &PoolSettings,
        version: Option<u64>,
    ) -> Result<Pool, Error> {
        let mut request = Request::new("PUT", pool_path(at, pool)).json(settings)?;
        if let Some(version) = version {
            request = request.if_match(version);
        }
        self.http.read(request).await
    }

    /// The pools of an item.
    pub async fn pools(&self, at: At<'_>) -> Result<Vec<Pool>, Error> {
        #[derive(Deserialize)]
        struct Found {
            data: Vec<Pool>,
        }
        let found: Found = self.http.read(Request::new("GET", at.path("/pools"))).await?;
        Ok(found.data)
    }

    /// Puts units with ids into a pool, which is created if the item does not have it.
    pub async fn put_into_pool(&self, at: At<'_>, pool: &str, units: &PoolUnits) -> Result<Pool, Error> {
        self.http.read(Request::new("PUT", units_path(at, pool)).json(units)?).await
    }

    /// Takes units with ids out of a pool. Units that are not in it stay where they are.
    pub async fn take_out_of_pool(&self, at: At<'_>, pool: &str, units: &PoolUnits) -> Result<Pool, Error> {
        self.http.read(Request::new("DELETE", units_path(at, pool)).json(units)?).await
    }

    /// Deletes a pool. Its free units go to general sale. A repetition changes nothing, so it takes no key.
    pub async fn delete_pool(&self, at: At<'_>, pool: &str) -> Result<(), Error> {
        self.http.send(Request::new("DELETE", pool_path(at, pool))).await?.done()
    }
}

fn units_path(at: At<'_>, pool: &str) -> String {
    let mut tail = "/pools/".to_owned();
    push_encoded(&mut tail, pool);
    tail.push_str("/units");
    at.path(&tail)
}

fn pool_path(at: At<'_>, pool: &str) -> String {
    let mut tail = "/pools/".to_owned();
    push_encoded(&mut tail, pool);
    at.path(&tail)
}
