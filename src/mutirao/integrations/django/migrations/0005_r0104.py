from mutirao.integrations.django.tables.run_revision import migration_of

Migration = migration_of("0104", after="0004_r0103")
