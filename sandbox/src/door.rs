//! Who may pass: hosts that are on the list, and those that somebody has been asked about.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Mutex;

use crate::allowlist::{Allowlist, Authority, Way};
use crate::proxy::request::Refusal;

/// What somebody says who was asked about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may not be reached.
    No,
    /// It may, as long as connections to it are open.
    Once,
    /// It may from now on.
    Always,
}

/// Asks somebody whether a host may be reached.
pub type Ask =
    Box<dyn Fn(Authority, Way) -> Pin<Box<dyn Future<Output = Verdict> + Send>> + Send + Sync>;

/// Lets through what may pass.
pub(crate) struct Door {
    allowlist: Allowlist,
    ask: OnceLock<Ask>,
    /// What was said. Locked while somebody is asked, so that it is one question at a time, and one per host.
    said: Mutex<HashMap<(Authority, Way), Said>>,
}

enum Said {
    No,
    /// As long as somebody who has passed is still there.
    Once(Weak<()>),
    Always,
}

/// What whoever has passed holds until they are done.
#[derive(Debug, Clone)]
pub struct Pass {
    _held: Option<Arc<()>>,
}

impl Door {
    pub fn new(allowlist: Allowlist) -> Self {
        Self {
            allowlist,
            ask: OnceLock::new(),
            said: Mutex::default(),
        }
    }

    pub fn allowlist(&self) -> &Allowlist {
        &self.allowlist
    }

    /// From now on somebody can be asked about what is not on the list. The first to say so is.
    pub fn asks(&self, ask: Ask) {
        let _ = self.ask.set(ask);
    }

    pub async fn pass(&self, to: &Authority, way: Way) -> Result<Pass, Refusal> {
        if self.allowlist.permits(to, way) {
            return Ok(Pass { _held: None });
        }
        if self.allowlist.denies(to) {
            let reason = format!("{to} is denied by the settings");
            return Err(Refusal::new("403 Forbidden", reason));
        }
        let asked = self.ask.get().filter(|_| !self.allowlist.is_complete);
        let Some(ask) = asked else {
            return Err(refusal(to, way));
        };
        let mut said = self.said.lock().await;
        let key = (to.clone(), way);
        match said.get(&key) {
            Some(Said::No) => return Err(refusal(to, way)),
            Some(Said::Always) => return Ok(Pass { _held: None }),
            Some(Said::Once(holders)) => {
                if let Some(held) = holders.upgrade() {
                    return Ok(Pass { _held: Some(held) });
                }
            }
            None => {}
        }
        match ask(to.clone(), way).await {
            Verdict::No => {
                said.insert(key, Said::No);
                Err(refusal(to, way))
            }
            Verdict::Once => {
                let held = Arc::new(());
                said.insert(key, Said::Once(Arc::downgrade(&held)));
                Ok(Pass { _held: Some(held) })
            }
            Verdict::Always => {
                said.insert(key, Said::Always);
                Ok(Pass { _held: None })
            }
        }
    }
}

fn refusal(to: &Authority, way: Way) -> Refusal {
    let option = way.option();
    let reason = format!("{to} is not allowed; `{option} {to}` would allow it");
    Refusal::new("403 Forbidden", reason)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_host_is_asked_about_as_often_as_the_answer_says() {
        let a: Authority = "a.example:443".parse().unwrap();
        let b: Authority = "b.example:443".parse().unwrap();
        for (verdict, while_open, later) in [
            (Verdict::No, (false, 1), (false, 1)),
            (Verdict::Once, (true, 1), (true, 2)),
            (Verdict::Always, (true, 1), (true, 1)),
        ] {
            let list = Allowlist {
                tunnels: vec![b.clone()],
                denied: vec!["c.example".parse().unwrap()],
                ..Allowlist::default()
            };
            let door = Door::new(list);
            assert!(door.pass(&a, Way::Tunnel).await.is_err(), "nobody is asked");
            let asked = Arc::new(AtomicUsize::new(0));
            let count = asked.clone();
            door.asks(Box::new(move |_, _| {
                count.fetch_add(1, Ordering::Relaxed);
                Box::pin(async move { verdict })
            }));
            let held = door.pass(&a, Way::Tunnel).await;
            let second = door.pass(&a, Way::Tunnel).await;
            let came = (second.is_ok(), asked.load(Ordering::Relaxed));
            assert_eq!(came, while_open, "{verdict:?}");
            drop((held, second));
            let third = door.pass(&a, Way::Tunnel).await;
            let came = (third.is_ok(), asked.load(Ordering::Relaxed));
            assert_eq!(came, later, "{verdict:?}");
            // What is denied is not asked about either.
            let denied: Authority = "c.example:443".parse().unwrap();
            assert!(door.pass(&denied, Way::Tunnel).await.is_err());
            assert_eq!(asked.load(Ordering::Relaxed), later.1);
            // What is listed is not asked about, and one way is not the other.
            assert!(door.pass(&b, Way::Tunnel).await.is_ok());
            assert_eq!(asked.load(Ordering::Relaxed), later.1);
            let plain = door.pass(&b, Way::Http).await;
            assert_eq!(plain.is_ok(), verdict != Verdict::No);
        }
    }

    #[tokio::test]
    async fn nobody_is_asked_where_the_list_is_complete() {
        let door = Door::new(Allowlist {
            is_complete: true,
            ..Allowlist::default()
        });
        door.asks(Box::new(|_, _| Box::pin(async { Verdict::Always })));
        let to = "a.example:443".parse().unwrap();
        assert!(door.pass(&to, Way::Tunnel).await.is_err());
    }
}
