from mutirao.integrations.django.tables.run_revision import migration_of

Migration = migration_of("0100", after=None)
