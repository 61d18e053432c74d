from mutirao.integrations.django.tables.run_revision import migration_of

Migration = migration_of("0103", after="0003_r0102")
