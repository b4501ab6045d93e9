-- In how many seconds a job probably starts that has so many before it: as many as leave no slot free must be gone, one after the other from all slots. NULL: how long one takes is not known.
CREATE FUNCTION starts_in_v1(p_before integer, p_slots integer, p_mean_seconds double precision) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_before < p_slots THEN 0 ELSE (p_before - p_slots + 1) * p_mean_seconds / p_slots END
$$;
