-- A version of an agent, unless it is known.
insert into agent_versions by name
select
    $agent_id as agent_id, $agent_version as agent_version, $fingerprint as fingerprint, $name as name,
    $description as description, $instructions as instructions, $model as model, $model_options::json as model_options,
    $tools::json as tools, $forms::json as forms, $policy::json as policy, $first_seen_at::timestamptz as first_seen_at
where not exists (
    from agent_versions where agent_id = $agent_id and agent_version = $agent_version
)
