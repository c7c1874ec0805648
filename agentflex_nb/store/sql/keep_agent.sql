-- A version of an agent, unless it is known. One whose fingerprint is not known is written anew.
merge into agent_versions
using (
    select $agent_id as agent_id, $agent_version as agent_version, $fingerprint as fingerprint, $name as name,
        $description as description, $instructions as instructions, $model as model,
        $model_options::json as model_options, $tools::json as tools, $forms::json as forms, $policy::json as policy,
        $sources::json as sources, $first_seen_at::timestamptz as first_seen_at
) as met
using (agent_id, agent_version)
when matched and agent_versions.fingerprint = '' then update set
    fingerprint = met.fingerprint, name = met.name, description = met.description, instructions = met.instructions,
    model = met.model, model_options = met.model_options, tools = met.tools, forms = met.forms, policy = met.policy,
    sources = met.sources
when not matched then insert by name
