from mutirao.integrations.django.rows.run_revision import migration_of

Migration = migration_of("0100", after=None)
