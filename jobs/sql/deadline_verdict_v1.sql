-- Whether a deadline so many seconds away speaks against a job (P9): 'deadline_infeasible' where it has passed, or what the job's type says of its
-- work does not fit before it; 'deadline_unreachable' where the job would probably start too late, as its class is now; NULL: nothing does.
-- p_expected: seconds of work, NULL: not known. p_before, p_mean_seconds: what start_v1 saw before it; NULL: that was not looked at, or is not known.
CREATE FUNCTION deadline_verdict_v1(
    p_in_seconds double precision, p_expected double precision, p_declared boolean, p_slots integer, p_before integer, p_mean_seconds double precision
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    departures integer := p_before - p_slots + 1;
BEGIN
    IF (p_in_seconds - CASE WHEN p_declared THEN coalesce(p_expected, 0) ELSE 0 END) <= 0 THEN
        RETURN 'deadline_infeasible';
    ELSIF p_expected IS NOT NULL AND p_mean_seconds IS NOT NULL AND departures > 0 AND start_probability_v1(
            departures, p_slots * (p_in_seconds - p_expected) / p_mean_seconds) < 0.95 THEN
        RETURN 'deadline_unreachable';
    END IF;
    RETURN NULL;
END
$$;
