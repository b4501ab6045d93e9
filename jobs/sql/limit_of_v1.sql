-- How many jobs that name this key may run at once (P12): by the row of that very key, else by the longest pattern that it begins with; NULL: any number.
CREATE FUNCTION limit_of_v1(p_key text) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT maximum FROM jobs_limitkey
    WHERE pattern = p_key OR right(pattern, 1) = '*' AND starts_with(p_key, left(pattern, -1))
    ORDER BY pattern = p_key DESC, length(pattern) DESC LIMIT 1
$$;
