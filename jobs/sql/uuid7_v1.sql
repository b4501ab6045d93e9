-- A version 7 UUID (RFC 9562): 48 bits of the database's clock in milliseconds, then random bits.
CREATE FUNCTION uuid7_v1() RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    milliseconds bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
    bytes bytea := uuid_send(gen_random_uuid());  -- its variant bits are already right
BEGIN
    bytes := overlay(bytes PLACING substring(int8send(milliseconds) FROM 3) FROM 1 FOR 6);
    bytes := set_byte(bytes, 6, (get_byte(bytes, 6) & 15) | 112);  -- version 7
    RETURN encode(bytes, 'hex')::uuid;
END
$$;
