-- Whether a deadline so many seconds away speaks against a job (P9): 'deadline_infeasible' where it has passed, or what the job's type says of its
-- work does not fit before it; 'deadline_unreachable' where the job would probably start too late, as its class is now; NULL: nothing does.
-- p_expected: seconds of work, NULL: not known. p_more: jobs that are about to be admitted before it. Out also in how many seconds it would start,
-- where that can be told.
CREATE FUNCTION deadline_verdict_v1(
    p_client bigint, p_flow text, p_cost_class text, p_in_seconds double precision, p_expected double precision, p_declared boolean,
    p_mean_known boolean, p_slots integer, p_idle boolean, p_more integer
) RETURNS TABLE (verdict text, starts_in double precision) LANGUAGE plpgsql STABLE AS $$
DECLARE
    start record;
BEGIN
    IF (p_in_seconds - CASE WHEN p_declared THEN coalesce(p_expected, 0) ELSE 0 END) <= 0 THEN
        verdict := 'deadline_infeasible';
    ELSIF p_expected IS NOT NULL AND p_slots > 0 THEN
        SELECT * INTO start FROM start_v1(p_cost_class, p_client, p_flow, p_slots, p_idle, p_more);
        IF p_mean_known OR start.all_known THEN
            starts_in := start.starts_in;
            IF start.departures > 0 AND start_probability_v1(
                    start.departures, p_slots * (p_in_seconds - p_expected) / start.mean_seconds) < 0.95 THEN
                verdict := 'deadline_unreachable';
            END IF;
        END IF;
    END IF;
    RETURN NEXT;
END
$$;
