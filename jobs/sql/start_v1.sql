-- What a new job of this client and flow would have before it, as its class is now: how many jobs wait and run before it, and how long one of them takes in the mean:
-- NULL where some of that is not expected but only counts as its class's mean, and of the class nothing is known either (p_mean_known).
CREATE FUNCTION start_v1(p_cost_class text, p_client bigint, p_flow text, p_idle boolean, p_mean_known boolean)
RETURNS TABLE (before integer, mean_seconds double precision) LANGUAGE sql STABLE AS $$
    SELECT ahead.running + ahead.waiting, CASE WHEN p_mean_known OR ahead.all_known THEN ahead.mean_seconds END
    FROM fair_place_v1(p_cost_class, p_client, p_flow, p_idle) place, jobs_ahead_v1(p_cost_class, place.rank, NULL) ahead
$$;
