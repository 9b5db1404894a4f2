from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("conversations", "0003_decoded_prefix"),
    ]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="sampling",
            field=models.JSONField(
                default=dict, help_text="As the newest request asked for it; empty before the first."
            ),
        ),
    ]
