-- What a job is expected to cost, in seconds of work (P5): what its type declares, else what jobs of its type took in this class, else NULL. `counts`: what it
-- counts in the order (P11): where it is not known, the mean of its class, by the runs that each type's measure rests on; where nothing
-- is known of the class, a second for every job. mean_known: whether what jobs of the class take was ever measured.
CREATE FUNCTION cost_v1(p_cost_class text, p_type text, p_declared double precision)
RETURNS TABLE (expected double precision, counts double precision, mean_known boolean) LANGUAGE sql STABLE AS $$
    WITH measured AS (
        SELECT max(expected_seconds) FILTER (WHERE type = p_type) AS of_type,
               sum(expected_seconds * cardinality(newest)) / sum(cardinality(newest)) AS mean
        FROM jobs_runtimes WHERE cost_class = p_cost_class AND expected_seconds IS NOT NULL
    )
    SELECT coalesce(p_declared, of_type), greatest(coalesce(p_declared, of_type, mean, 1), 0.001),
           mean IS NOT NULL FROM measured
$$;
