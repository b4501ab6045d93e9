-- How probable it is that a job starts within a time in which so many departures are expected, when it needs p_departures of them first (P9):
-- 1 − the Poisson distribution's CDF at p_departures − 1, summed in logarithms, since e^−1000 is no number.
-- Tested against jobs/capacity.py, term for term.
CREATE FUNCTION start_probability_v1(p_departures integer, p_expected double precision) RETURNS double precision
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    term double precision := -p_expected;  -- the logarithm of the probability of exactly `number` departures
    too_few double precision := 0;
BEGIN
    IF p_departures <= 0 THEN
        RETURN 1;
    ELSIF p_expected <= 0 THEN
        RETURN 0;
    END IF;
    FOR number IN 0 .. p_departures - 1 LOOP
        too_few := too_few + CASE WHEN term > -700 THEN exp(term) ELSE 0 END;
        term := term + ln(p_expected) - ln(number + 1);
    END LOOP;
    RETURN greatest(0, 1 - too_few);
END
$$;
