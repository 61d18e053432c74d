from mutirao.integrations.django.tables.run_revision import migration_of

Migration = migration_of("0102", after="0002_r0101")
