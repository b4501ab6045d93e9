from django.db import migrations

from jobs.sql import function


class Migration(migrations.Migration):
    """P7 for batches that are atomic: admit_batch_v2. Processes of the release before still call admit_batch_v1."""

    dependencies = [("jobs", "0009_deleted_uploads")]

    operations = [
        function("batch_items_v1"),
        function("lock_all_v1"),
        function("client_places_v1"),
        function("store_batch_v1"),
        function("admit_batch_v2"),
    ]
