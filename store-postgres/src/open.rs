//! Opens a store, or makes it.

use std::sync::Arc;

use ah_conversation::StoreError;
use ah_store::fleet::Timing;

use crate::connection::Postgres;
use crate::schema;

impl Postgres {
    /// Connects to the server at `url`, such as `postgres://role@host/database`, whose tables must be there.
    ///
    /// # Errors
    ///
    /// If the address is none, the server is away, or the tables are missing or too new.
    pub async fn connect(url: &str, timing: Timing) -> Result<Arc<Self>, StoreError> {
        let server = Self::at(url, timing)?;
        schema::check(&server).await?;
        Ok(Arc::new(server))
    }

    /// Makes the tables, or brings them up to date. Workers of the version before go on meanwhile.
    ///
    /// # Errors
    ///
    /// If the server is away, or the role may not change tables.
    pub async fn migrate(url: &str) -> Result<i32, StoreError> {
        schema::migrate(&Self::at(url, Timing::default())?).await
    }

    /// Makes the tables of `graphile_worker` as well, or brings them up to date: it wakes the workers of this role from now
    /// on.
    ///
    /// # Errors
    ///
    /// If the server is away, or the role may not change tables.
    #[cfg(feature = "graphile")]
    pub async fn migrate_graphile(url: &str) -> Result<(), StoreError> {
        crate::graphile::migrate(&Self::at(url, Timing::default())?).await
    }
}
