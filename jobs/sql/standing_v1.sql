-- How a client stands in a class beside the others (P10a), in one look at what waits and runs there. part: its own of the class, by its weight beside those of all
-- clients that were seen in it: that hold room, were let in within 60 s, or were refused lately (p_refused); part_of_holders: beside those only that hold room; 1 when there is no other. held, held_seconds: the
-- jobs that it has there, and the work that is left of them. keys: jobs of all clients by the limit keys that have a maximum, and by paused type, under U+001F and its name; those of
-- p_named too that nobody holds; empty when p_named has no such key.
CREATE FUNCTION standing_v1(p_cost_class text, p_client bigint, p_named text[], p_refused bigint[])
RETURNS TABLE (part double precision, part_of_holders double precision, held integer, held_seconds double precision, keys jsonb) LANGUAGE sql STABLE AS $$
    WITH live AS (
        SELECT client_id, count(*) AS jobs,
               sum(CASE state WHEN 'queued' THEN expected_seconds
                   ELSE greatest(0, expected_seconds - extract(epoch FROM clock_timestamp() - started_at)) END) AS work_seconds
        FROM jobs_job
        WHERE cost_class = p_cost_class AND (state = 'running' OR state = 'queued' AND (start_by IS NULL OR start_by > clock_timestamp()))
        GROUP BY client_id
    ), seen AS (
        SELECT came.client_id, bool_or(came.holds) AS holds FROM (
            SELECT client_id, true AS holds FROM live
            UNION ALL SELECT share.client_id, false FROM jobs_fairshare share
                      WHERE share.cost_class = p_cost_class AND share.used_at > statement_timestamp() - interval '60 seconds'
            UNION ALL SELECT unnest(p_refused), false
            UNION ALL SELECT p_client, true  -- with the job that it asks for
        ) came GROUP BY 1
    ), paused AS MATERIALIZED (
        SELECT chr(31) || control.type AS key, control.type FROM jobs_typecontrol control WHERE control.paused_at IS NOT NULL
    ), named AS (
        SELECT DISTINCT each.key FROM unnest(p_named) AS each (key)
        WHERE each.key IN (SELECT paused.key FROM paused)
           OR EXISTS (SELECT 1 FROM jobs_limitkey WHERE pattern = each.key OR right(pattern, 1) = '*' AND starts_with(each.key, left(pattern, -1)))
    ), by_key AS (
        SELECT of_job.key, count(*)::integer AS jobs FROM jobs_job job, unnest(job.limit_keys::text[] || (chr(31) || job.type)) AS of_job (key)
        WHERE EXISTS (SELECT 1 FROM named) AND job.cost_class = p_cost_class
          AND (job.limit_keys <> '{}' OR job.type IN (SELECT paused.type FROM paused))
          AND (job.state = 'running' OR job.state = 'queued' AND (job.start_by IS NULL OR job.start_by > clock_timestamp()))
        GROUP BY 1
    ), limited AS (
        SELECT by_key.key, by_key.jobs FROM by_key
        WHERE by_key.key IN (SELECT paused.key FROM paused)
           OR EXISTS (SELECT 1 FROM jobs_limitkey WHERE pattern = by_key.key OR right(pattern, 1) = '*' AND starts_with(by_key.key, left(pattern, -1)))
        UNION ALL SELECT named.key, 0 FROM named WHERE NOT EXISTS (SELECT 1 FROM by_key WHERE by_key.key = named.key)
    )
    SELECT weights.own / weights.of_all, weights.own / weights.of_holders,
           coalesce((SELECT live.jobs FROM live WHERE live.client_id = p_client), 0)::integer,
           coalesce((SELECT live.work_seconds FROM live WHERE live.client_id = p_client), 0)::float8,
           coalesce((SELECT jsonb_object_agg(limited.key, limited.jobs) FROM limited), '{}')
    FROM (SELECT sum(client.weight) FILTER (WHERE client.id = p_client) AS own, sum(client.weight) AS of_all,
                 sum(client.weight) FILTER (WHERE seen.holds) AS of_holders
          FROM seen JOIN jobs_apiclient client ON client.id = seen.client_id) weights
$$;
