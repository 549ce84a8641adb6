//! A child ends when it must, and nothing that it started outlives it.

use std::time::{Duration, Instant};

use ah_process::Ending;

use crate::shell::{Place, eventually, exists, gone};

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_keeps_nobody_waiting() {
    let place = Place::new();
    let start = Instant::now();
    let outcome = place.run("sleep 1000 & echo $! >pid; echo started").await;
    assert_eq!(outcome, (Ending::Exited(0), "started\n".into()));
    assert!(start.elapsed() < Duration::from_secs(20));
    gone(place.pid("pid").await).await;
}
