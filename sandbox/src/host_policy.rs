//! Decides which hosts can be reached: by the allowlist, or by asking the user.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Mutex;

use crate::allowlist::{Allowlist, Authority, Egress};
use crate::proxy::request::{FORBIDDEN, Refusal};

/// Answer to the question whether a host may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostDecision {
    /// Refuse now and for the rest of the run.
    Deny,
    /// Allow while connections to the host are open.
    AllowOnce,
    /// Allow for the rest of the run.
    Allow,
}

/// Callback that asks the user whether a host may be reached.
pub type AskHost = Box<
    dyn Fn(Authority, Egress) -> Pin<Box<dyn Future<Output = HostDecision> + Send>> + Send + Sync,
>;

/// Allowlist, together with the decisions made during the run.
pub(crate) struct HostPolicy {
    allowlist: Allowlist,
    answers: Arc<Answers>,
}

/// The user's decisions.
#[derive(Default)]
struct Answers {
    ask: OnceLock<AskHost>,
    /// Earlier decisions. Locked while the user is asked, so that there is one question at a time and one per host.
    said: Mutex<HashMap<(Authority, Egress), Remembered>>,
}

enum Remembered {
    Denied,
    /// Valid while a permit for the host is still held.
    Once(Weak<()>),
    Allowed,
}

/// Permission to connect to a host, held for the duration of the connection.
#[derive(Debug, Clone)]
pub struct ConnectionPermit {
    _held: Option<Arc<()>>,
}

impl HostPolicy {
    pub fn new(allowlist: Allowlist) -> Self {
        Self {
            allowlist,
            answers: Arc::default(),
        }
    }

    /// Returns a policy that also allows the hosts of `more`, and asks about others only if `more` does not forbid it.
    /// Both share the user's decisions.
    pub fn extended(&self, more: &Allowlist) -> Self {
        let mut allowlist = self.allowlist.clone();
        allowlist.tunnels.extend(more.tunnels.iter().cloned());
        allowlist.http.extend(more.http.iter().cloned());
        allowlist.is_complete |= more.is_complete;
        Self {
            allowlist,
            answers: self.answers.clone(),
        }
    }

    pub fn allowlist(&self) -> &Allowlist {
        &self.allowlist
    }

    /// Sets the callback for hosts that are not listed. Only the first call has an effect.
    pub fn set_prompt(&self, ask: AskHost) {
        let _ = self.answers.ask.set(ask);
    }

    pub async fn authorize(
        &self,
        to: &Authority,
        egress: Egress,
    ) -> Result<ConnectionPermit, Refusal> {
        if self.allowlist.permits(to, egress) {
            return Ok(ConnectionPermit { _held: None });
        }
        if self.allowlist.denies(to) {
            let reason = format!("{to} is denied by the settings");
            return Err(Refusal::new(FORBIDDEN, reason));
        }
        let asked = self.answers.ask.get();
        let asked = asked.filter(|_| !self.allowlist.is_complete);
        let Some(ask) = asked else {
            return Err(refusal(to, egress));
        };
        let mut said = self.answers.said.lock().await;
        let key = (to.clone(), egress);
        match said.get(&key) {
            Some(Remembered::Denied) => return Err(refusal(to, egress)),
            Some(Remembered::Allowed) => return Ok(ConnectionPermit { _held: None }),
            Some(Remembered::Once(holders)) => {
                if let Some(held) = holders.upgrade() {
                    return Ok(ConnectionPermit { _held: Some(held) });
                }
            }
            None => {}
        }
        match ask(to.clone(), egress).await {
            HostDecision::Deny => {
                said.insert(key, Remembered::Denied);
                Err(refusal(to, egress))
            }
            HostDecision::AllowOnce => {
                let held = Arc::new(());
                said.insert(key, Remembered::Once(Arc::downgrade(&held)));
                Ok(ConnectionPermit { _held: Some(held) })
            }
            HostDecision::Allow => {
                said.insert(key, Remembered::Allowed);
                Ok(ConnectionPermit { _held: None })
            }
        }
    }
}

fn refusal(to: &Authority, egress: Egress) -> Refusal {
    let option = egress.option();
    let reason = format!("{to} is not allowed; `{option} {to}` would allow it");
    Refusal::new(FORBIDDEN, reason)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_decision_is_remembered_as_long_as_it_says() {
        let a: Authority = "a.example:443".parse().unwrap();
        let b: Authority = "b.example:443".parse().unwrap();
        for (verdict, while_open, later) in [
            (HostDecision::Deny, (false, 1), (false, 1)),
            (HostDecision::AllowOnce, (true, 1), (true, 2)),
            (HostDecision::Allow, (true, 1), (true, 1)),
        ] {
            let list = Allowlist {
                tunnels: vec![b.clone()],
                denied: vec!["c.example".parse().unwrap()],
                ..Allowlist::default()
            };
            let policy = HostPolicy::new(list);
            assert!(
                policy.authorize(&a, Egress::Tunnel).await.is_err(),
                "there is nobody to ask"
            );
            let asked = Arc::new(AtomicUsize::new(0));
            let count = asked.clone();
            policy.set_prompt(Box::new(move |_, _| {
                count.fetch_add(1, Ordering::Relaxed);
                Box::pin(async move { verdict })
            }));
            let held = policy.authorize(&a, Egress::Tunnel).await;
            let second = policy.authorize(&a, Egress::Tunnel).await;
            let came = (second.is_ok(), asked.load(Ordering::Relaxed));
            assert_eq!(came, while_open, "{verdict:?}");
            drop((held, second));
            let third = policy.authorize(&a, Egress::Tunnel).await;
            let came = (third.is_ok(), asked.load(Ordering::Relaxed));
            assert_eq!(came, later, "{verdict:?}");
            // Denied hosts are not asked about.
            let denied: Authority = "c.example:443".parse().unwrap();
            assert!(policy.authorize(&denied, Egress::Tunnel).await.is_err());
            assert_eq!(asked.load(Ordering::Relaxed), later.1);
            // Listed hosts are not asked about, and permission for a tunnel does not cover plain HTTP.
            assert!(policy.authorize(&b, Egress::Tunnel).await.is_ok());
            assert_eq!(asked.load(Ordering::Relaxed), later.1);
            let plain = policy.authorize(&b, Egress::Http).await;
            assert_eq!(plain.is_ok(), verdict != HostDecision::Deny);
        }
    }

    #[tokio::test]
    async fn a_complete_list_refuses_other_hosts_without_asking() {
        let policy = HostPolicy::new(Allowlist {
            is_complete: true,
            ..Allowlist::default()
        });
        policy.set_prompt(Box::new(|_, _| Box::pin(async { HostDecision::Allow })));
        let to = "a.example:443".parse().unwrap();
        assert!(policy.authorize(&to, Egress::Tunnel).await.is_err());
    }
}
