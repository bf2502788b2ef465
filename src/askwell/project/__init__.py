"""A labelling project: a folder with `askwell.toml` and a store. The only place where names become things."""

from askwell.project.init import init_project, project_note
from askwell.project.project import Project, open_project
from askwell.project.settings import Settings

__all__ = ["Project", "Settings", "init_project", "open_project", "project_note"]
