"""To the second: jobs are a matter of seconds."""

DATETIME_FORMAT = "Y-m-d H:i:s"
