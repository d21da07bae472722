"""A JupyterHub for one class on one machine, with the lessons in every learner's folder.

    SPECDEC_CLASS_PASSWORD=... jupyterhub --config docs/jupyterhub_config.py

Everybody signs in with a name of their own and the one password. All servers run under the account that starts the
hub, so learners are not shielded from one another: for people who know each other, not for the open internet.
"""

import os
from pathlib import Path

from specdec_teach.cli import lessons

c = get_config()  # type: ignore[name-defined]  # noqa: F821 (JupyterHub defines it)

HOMES = Path(os.environ.get("SPECDEC_CLASS_HOMES", "learners")).resolve()

c.JupyterHub.bind_url = os.environ.get("SPECDEC_CLASS_URL", "http://127.0.0.1:8000")
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["SPECDEC_CLASS_PASSWORD"]
c.Authenticator.allow_all = True

c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(HOMES / "{username}")
c.Spawner.default_url = "/lab/tree/00_start_here.ipynb"
c.Spawner.start_timeout = 120
c.Spawner.environment = {"OMP_NUM_THREADS": "1"}  # a class shares the cores; one thread a learner is fairest
c.Spawner.args = [
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
    "--MappingKernelManager.cull_idle_timeout=3600",  # a forgotten kernel gives its memory back after an hour
]


def _lessons(spawner):
    """Copy the lessons as `specdec-teach lab` does: a learner's edit is never overwritten."""
    lessons.update(lessons.shipped(), HOMES / spawner.user.name)


c.Spawner.pre_spawn_hook = _lessons
