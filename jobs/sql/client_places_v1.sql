-- How many more jobs a client may have at once. Of a client with a quota one submit at a time, from here to its commit: after the keys and before the
-- classes (P6). A job past its start_by holds no place (P2). VOLATILE: the count sees what whoever held the lock before has committed.
CREATE FUNCTION client_places_v1(p_client bigint, p_max_jobs integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('client:' || p_client, 0));
    RETURN (
        SELECT greatest(0, p_max_jobs - count(*)) FROM jobs_job live
        WHERE live.client_id = p_client AND live.state IN ('queued', 'running')
          AND (live.state = 'running' OR live.start_by IS NULL OR live.start_by > clock_timestamp())
    );
END
$$;
