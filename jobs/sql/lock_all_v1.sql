-- Take the advisory transaction locks of these names, in one order, so that two who share some cannot wait for each other (P6).
-- The first that was not granted in the caller's lock_timeout; NULL when all are held.
CREATE FUNCTION lock_all_v1(p_names text[]) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wanted text;
BEGIN
    FOR wanted IN SELECT DISTINCT each.name COLLATE "C" FROM unnest(p_names) AS each (name) ORDER BY 1 LOOP
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended(wanted, 0));
        EXCEPTION WHEN lock_not_available THEN
            RETURN wanted;
        END;
    END LOOP;
    RETURN NULL;
END
$$;
