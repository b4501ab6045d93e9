-- What may not start in a class as it is now (P12): keys of its waiting jobs that as many jobs hold as may, and clients that run as many as they may or
-- are suspended.
CREATE FUNCTION held_v1(p_cost_class text) RETURNS TABLE (keys varchar[], clients bigint[]) LANGUAGE sql STABLE AS $$
    WITH running AS (
        SELECT named.key, count(*) AS jobs FROM jobs_job job, unnest(job.limit_keys) AS named (key)
        WHERE job.state = 'running' AND job.limit_keys <> '{}' GROUP BY 1
    ), waiting AS (
        SELECT DISTINCT named.key FROM jobs_job job, unnest(job.limit_keys) AS named (key)
        WHERE job.cost_class = p_cost_class AND job.state = 'queued' AND job.limit_keys <> '{}'
    )
    SELECT array(SELECT waiting.key FROM waiting LEFT JOIN running ON running.key = waiting.key
                 WHERE coalesce(running.jobs, 0) >= limit_of_v1(waiting.key)),
           array(SELECT client.id FROM jobs_apiclient client WHERE client.suspended_at IS NOT NULL OR client.max_running IS NOT NULL
                 AND (SELECT count(*) FROM jobs_job job WHERE job.client_id = client.id AND job.state = 'running') >= client.max_running)
$$;
