//! Tests of providers through their public interface.

mod answers;
mod caching;
mod fallback;
mod given_back;
mod halves;
mod limits;
mod listing;
mod messages_api;
mod openai_answers;
mod openai_api;
mod openai_recordings;
mod openai_requests;
mod providers;
mod recordings;
mod refused;
mod requests;
mod responses;
mod responses_prefix;
mod responses_recordings;
mod retries;
mod route;
mod script;
mod search;
mod server;
mod ways;
