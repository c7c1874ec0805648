-- A version of an agent, as it was written down.
select agent_id, agent_version, name, description, instructions, model, model_options, tools, forms, policy, sources,
    fingerprint
from agent_versions
where agent_id = $agent_id and agent_version = $agent_version
