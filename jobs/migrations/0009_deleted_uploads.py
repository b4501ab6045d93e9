from django.db import migrations, models


class Migration(migrations.Migration):
    """A deleted upload is hidden at once and removed later. Its key is free for another, also while a transaction holds its row."""

    dependencies = [("jobs", "0008_ends_of_files")]

    operations = [
        migrations.AddField(
            model_name="upload",
            name="deleted_at",
            field=models.DateTimeField(
                blank=True, help_text="By its client: hidden, and removed later.", null=True
            ),
        ),
        migrations.AddIndex(
            model_name="upload", index=models.Index(fields=["client"], name="upload_of_client")
        ),
        migrations.RemoveConstraint(model_name="upload", name="upload_key_once"),
        migrations.AddConstraint(
            model_name="upload",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None)), fields=("client", "key"), name="upload_key_once"
            ),
        ),
    ]
