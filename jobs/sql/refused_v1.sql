-- Whether an operator has a job refused (P7): its client is suspended, its class drains, its type is not taken. NULL: nobody has.
-- In plpgsql, which keeps its plans: each submit asks it, and an SQL function would be planned anew each time.
CREATE FUNCTION refused_v1(p_client bigint, p_cost_class text, p_type text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM jobs_apiclient client WHERE client.id = p_client AND client.suspended_at IS NOT NULL) THEN
        RETURN 'client_suspended';
    ELSIF EXISTS (SELECT 1 FROM jobs_classcontrol control WHERE control.cost_class = p_cost_class AND control.draining_at IS NOT NULL) THEN
        RETURN 'class_draining';
    ELSIF EXISTS (SELECT 1 FROM jobs_typecontrol control WHERE control.type = p_type AND control.refused_at IS NOT NULL) THEN
        RETURN 'type_refused';
    END IF;
    RETURN NULL;
END
$$;
