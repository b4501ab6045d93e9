-- What a job of this rank in its class has before it: the jobs that run, those that wait with a lower rank, and how long these take in the mean.
-- all_known: whether all of that is expected, or some of it only counts as its class's mean. p_turn: its turn among equal ranks; NULL: behind all of them, as one that comes now.
CREATE FUNCTION jobs_ahead_v1(p_cost_class text, p_rank double precision, p_turn bigint)
RETURNS TABLE (running integer, waiting integer, mean_seconds double precision, all_known boolean) LANGUAGE sql STABLE AS $$
    SELECT count(*) FILTER (WHERE state = 'running')::integer, count(*) FILTER (WHERE state = 'queued')::integer, avg(cost_seconds),
           coalesce(bool_and(expected_seconds IS NOT NULL), true)
    FROM jobs_job
    WHERE cost_class = p_cost_class AND (state = 'running' OR state = 'queued' AND (start_by IS NULL OR start_by > clock_timestamp())
          AND (rank < p_rank OR rank = p_rank AND (p_turn IS NULL OR turn < p_turn)))
$$;
