from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dispatch', '0003_position'),
    ]

    operations = [
        migrations.RemoveField(model_name='worker', name='name'),
        migrations.AddField(
            model_name='job',
            name='asked_from',
            field=models.CharField(default='unknown', help_text='The address group of whoever asked, as limits count it.', max_length=45),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='worker',
            name='host',
            field=models.CharField(default='', help_text='Name of its machine: for the operator alone.', max_length=255),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='worker',
            name='process_id',
            field=models.PositiveIntegerField(default=0),
            preserve_default=False,
        ),
    ]
