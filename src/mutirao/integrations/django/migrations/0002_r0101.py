from mutirao.integrations.django.tables.run_revision import migration_of

Migration = migration_of("0101", after="0001_r0100")
