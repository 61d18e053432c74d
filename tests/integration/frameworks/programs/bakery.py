"""An application of Flask, made by a function, with tasks of each kind and Flask-SQLAlchemy."""

import os
import threading

from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy

from mutirao.integrations.flask import FlaskMutirao

db = SQLAlchemy()
jobs = FlaskMutirao()
jobs.app_factory(f"{__name__}:create_app")


class Loaf(db.Model):  # type: ignore[name-defined, misc]
    """A loaf, and where it was baked."""

    id = db.Column(db.Integer, primary_key=True)
    baked = db.Column(db.Text)


@jobs.task(keep_result=True)
def in_thread(loaf_id: int) -> str:
    """Bake in a thread of the worker."""
    return bake(loaf_id, threading.current_thread().name)


@jobs.task(keep_result=True)
async def in_loop(loaf_id: int) -> str:
    """Bake in the event loop of the worker."""
    return bake(loaf_id, "loop")


@jobs.task(keep_result=True, process=True)
def in_child(loaf_id: int) -> str:
    """Bake in a child process of the worker."""
    return bake(loaf_id, f"{os.getpid()}")


def bake(loaf_id: int, where: str) -> str:
    """Write through the session of the application's context; tell which application it is."""
    db.session.get_one(Loaf, loaf_id).baked = where
    db.session.commit()
    return f"{current_app.config['KIND']} in {where}"


def create_app() -> Flask:
    """Make the application."""
    web = Flask(__name__)
    web.config["MUTIRAO_URL"] = web.config["SQLALCHEMY_DATABASE_URI"] = os.environ["BAKERY"]
    web.config["KIND"] = "rye"
    db.init_app(web)
    jobs.init_app(web)

    @web.post("/loaves/<task>")
    def order(task: str) -> dict[str, int]:
        loaf = Loaf()
        db.session.add(loaf)
        db.session.flush()
        jobs.tasks[task].using(conn=db.session).enqueue(loaf_id=loaf.id)
        db.session.commit()
        return {"id": loaf.id}

    return web
