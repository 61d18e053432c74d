from mutirao.integrations.django.operations import migration_of

Migration = migration_of("0100", after=None)
