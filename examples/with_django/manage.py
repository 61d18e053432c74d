"""A kiosk on Django, with a receipt for each order.

python manage.py migrate                 # Mutirão's tables, too
python manage.py test
python manage.py runserver
mutirao worker kiosk.worker:app          # beside it
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kiosk.settings")
    execute_from_command_line(sys.argv)
