"""What editors do, and what came of it; copied into the site, and run there with Django set up."""

# ruff: noqa: E402

import json
import os
import sys
from collections import Counter
from io import BytesIO

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "press.settings.dev")
import django

django.setup()

from django.core.files.images import ImageFile
from django.db import transaction
from home.models import HomePage
from PIL import Image as Picture
from wagtail.images.models import Image
from wagtail.models import Page, ReferenceIndex

from mutirao.integrations.django.models import Job


def upload(title: str) -> Image:
    """Upload a picture."""
    drawn = BytesIO()
    Picture.new("RGB", (60, 40), "teal").save(drawn, "PNG")
    return Image.objects.create(
        title=title, file=ImageFile(BytesIO(drawn.getvalue()), f"{title}.png")
    )


def edit() -> None:
    """Publish a page, roll another one back; upload two pictures, and delete one."""
    home = HomePage.objects.first()
    _, gone = upload("lantern"), upload("kite")
    home.add_child(instance=HomePage(title="Festival of lanterns")).save_revision().publish()
    try:
        with transaction.atomic():
            home.add_child(instance=HomePage(title="Lanterns that were called off"))
            raise ValueError("called off")
    except ValueError:
        pass
    gone.get_rendition("width-20")
    gone.delete()


def found() -> dict[str, object]:
    """Return what searches, indexes and the storage have, and the jobs by task and state."""
    jobs = Counter(f"{each.task} {each.state}" for each in Job.objects.all())
    return {
        "pages": [each.title for each in Page.objects.search("lanterns")],
        "pictures": [each.title for each in Image.objects.all().search("lantern")],
        "references": ReferenceIndex.objects.count(),
        "files": sorted(os.listdir("media/original_images")),
        "jobs": dict(sorted(jobs.items())),
    }


if __name__ == "__main__":
    if sys.argv[1] == "edit":
        edit()
    print(json.dumps(found()))
