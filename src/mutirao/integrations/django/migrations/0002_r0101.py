from mutirao.integrations.django.operations import migration_of

Migration = migration_of("0101", after="0001_r0100")
