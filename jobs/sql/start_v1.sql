-- When a new job of this client and flow would start, as its class is now: how many must leave the class before, what one takes in the mean
-- and with it the expected wait, all in seconds. p_more: jobs that are about to be admitted before it.
CREATE FUNCTION start_v1(
    p_cost_class text, p_client bigint, p_flow text, p_slots integer, p_idle boolean, p_more integer
) RETURNS TABLE (departures integer, mean_seconds double precision, starts_in double precision, all_known boolean) LANGUAGE sql STABLE AS $$
    SELECT needed.departures, ahead.mean_seconds,
           CASE needed.departures WHEN 0 THEN 0 ELSE needed.departures * ahead.mean_seconds / p_slots END, ahead.all_known
    FROM fair_place_v1(p_cost_class, p_client, p_flow, p_idle) place,
         jobs_ahead_v1(p_cost_class, place.rank, NULL) ahead,
         LATERAL (SELECT greatest(0, ahead.running + ahead.waiting + p_more - p_slots + 1) AS departures) needed
$$;
