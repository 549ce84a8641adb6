//! Unattended work on an issue, up to a reviewed pull request: plan, do, push, check, fix, act.
//!
//! Each phase that needs a model is a process of this executable with its own session, sandbox and budget. It reads
//! files of earlier phases, cannot change them, and leaves files for later ones. Pure functions decide what comes next
//! ([`phase`], [`issue`], [`verdict`]). The result of each phase is saved ([`journal`]), so a killed run resumes at the
//! unfinished phase.
//!
//! Issues are untrusted input. In prompts their text is data; the agents that read it have no GitHub token and no
//! network; their output is checked before it is pushed or posted.

pub mod action;
pub mod agent;
pub mod agent_log;
pub mod agent_repo;
pub mod artifact;
pub mod bench;
pub mod claim;
pub mod folder;
pub mod forgejo;
pub mod github;
pub mod gitlab;
mod glob;
pub mod hub;
pub mod issue;
pub mod journal;
pub mod lock;
pub mod phase;
pub mod rest;
pub mod run;
pub mod setup;
pub mod summary;
pub mod verdict;
