//! Subagents that are teammates: how they get a place in the team, and how the lead's tools reach them.

use std::sync::Arc;

use ah_conversation::{Context, ToolUse};
use async_trait::async_trait;

use super::Subagents;
use super::begin::Arguments;
use super::relay::Relay;
use crate::Audience;
use crate::agents::Agent;
use crate::hooks::Hooks;
use crate::team::{Member, Seat, Team, TeamLead};

impl Subagents {
    /// Returns the team and the name in it, if these are the arguments of a teammate.
    pub(super) fn team_and_name<'a>(
        &'a self,
        arguments: &'a Arguments,
    ) -> Option<(&'a Arc<Team>, &'a str)> {
        let named = self.team.as_ref().zip(arguments.name.as_deref());
        named.filter(|_| self.kinds.allow_background)
    }

    /// Takes the place of a teammate; `None` for another subagent.
    pub(super) async fn seat(
        &self,
        arguments: &Arguments,
        agent: &Agent,
        is_isolated: bool,
        relay: &Relay,
    ) -> Result<Option<Seat>, String> {
        let Some((team, name)) = self.team_and_name(arguments) else {
            return Ok(None);
        };
        if is_isolated {
            return Err(
                "a teammate works in the shared files: leave out its name or its worktree"
                    .to_owned(),
            );
        }
        let member = Member {
            name: name.to_owned(),
            agent_id: relay.task.id.clone(),
            agent_type: agent.name.clone(),
            model: arguments.model.clone(),
        };
        team.join(member, &relay.task, &relay.sink).await.map(Some)
    }
}

#[async_trait]
impl TeamLead for Subagents {
    fn hooks(&self) -> Option<(Hooks, Audience)> {
        let ports = self.parent()?.ports;
        Some((ports.hooks, ports.audience))
    }

    async fn reopen(&self, name: &str, call: &ToolUse, context: &Context) -> Result<(), String> {
        let Some(team) = &self.team else {
            return Ok(());
        };
        let Some(member) = team.member(name).await else {
            return Ok(());
        };
        if team.has_seat(&member.agent_id) {
            return Ok(());
        }
        let arguments = Arguments {
            description: "continues".to_owned(),
            name: Some(member.name),
            subagent_type: Some(member.agent_type),
            resume: Some(member.agent_id),
            model: member.model,
            ..Arguments::default()
        };
        let run = self.begin_with(arguments, call, context).await?;
        run.start().await;
        Ok(())
    }
}
